"""Small requests for the tests of workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm.request.model import Blob, Request, Source
from farm.request.options import OptionSpec, resolve
from workers.scratch import Scratch
from workers.toolchains.protocol import Command


def blobs(files: Mapping[str, str]) -> dict[str, Blob]:
    return {name: Blob.of(text.encode()) for name, text in files.items()}


def source(
    text: str = "",
    files: Mapping[str, str] | None = None,
    *include_dirs: Mapping[str, str],
    suffix: str = ".cpp",
) -> Source:
    return Source(suffix, Blob.of(text.encode()), blobs(files or {}), tuple(blobs(each) for each in include_dirs))


def request(
    *, schema: Mapping[str, OptionSpec], toolchain: str, soc: str = "any", options: Any = None, **fields: Any
) -> Request:
    return Request(
        name="op",
        type="Add",
        soc=soc,
        toolchain=toolchain,
        options=resolve(options or {}, schema, "op"),
        **{"source": source()} | fields,
    )


class ShellToolchain:
    """Stands in for a compiler: the source is a shell script that finds its out folder in $OUT."""

    name, version, fingerprint = "shell", "1", "5" * 64
    socs: tuple[str, ...] = ()
    schema: Mapping[str, OptionSpec] = {}

    def __init__(self, *outputs: str, env: Mapping[str, str] | None = None) -> None:
        self.outputs = outputs or ("*",)
        self.env = env or {}

    def command(self, request: Request, scratch: Scratch) -> Command:
        env = {"PATH": "/usr/bin:/bin", "OUT": str(scratch.out), **self.env}
        return Command(("sh", str(scratch.source)), env, scratch.root, self.outputs)


def shell(script: str) -> Request:
    return request(schema={}, toolchain="shell", source=source(script, suffix=".sh"))


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
