"""Reads what a manifest's operators refer to, each file and folder once however many operators share it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from farm.request.executables import executable_digest
from farm.request.filenames import MAX_FOLDERS_UP, check_spelling, relative_name
from farm.request.files import file_sha256, read_file
from farm.request.includes import Text, check_written_out, follow, scan
from farm.request.manifest_fields import SourceFields
from farm.request.model import MAX_INCLUDE_BYTES, MAX_SOURCE_BYTES, Blob, Source, check_include_set
from farm.request.trees import depends_sha256, include_files
from farm.request.values import FieldError, join, shown, within

_SUFFIX = re.compile(r"\.[A-Za-z0-9_+-]{1,16}")


class Reader:
    """Everything that lies beside one manifest; ``folder`` None: there is nothing beside it, only text."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._sources: dict[object, Source] = {}
        self._texts: dict[str, Text] = {}
        self._include_dirs: dict[str, dict[str, Blob]] = {}
        self._depends: dict[str, bytes] = {}
        self._executables: dict[str, tuple[str, bytes]] = {}

    def source(self, given: SourceFields, *, written_out: bool = False) -> Source:
        """The operator's source with all that travels along with it.

        Args:
            written_out: refuse computed includes (``#include MACRO``) where something beside could be meant.

        Raises:
            FieldError: names the field below ``source`` that is wrong.
        """
        same = (given.path, given.text, tuple(given.files.items()), tuple(given.include_dirs), written_out)
        if same not in self._sources:
            self._sources[same] = self._read_source(given, written_out)
        return self._sources[same]

    def depends(self, names: list[str]) -> dict[str, bytes]:
        """The digests of files and folders, by base name; a base name's second bearer becomes ``bank#2``."""
        result: dict[str, bytes] = {}
        for at, name in enumerate(names):
            if name not in self._depends:
                field = join("depends", at)
                self._depends[name] = depends_sha256(self._path(name, field), field)
            base = PurePosixPath(os.path.normpath(name)).name or name
            as_named, bearer = base, 1
            while as_named in result:
                bearer += 1
                as_named = f"{base}#{bearer}"
            result[as_named] = self._depends[name]
        return result

    def executable(self, argv0: str) -> tuple[str, bytes]:
        """The absolute path and digest of a command: one with a slash beside the manifest, others on PATH."""
        if argv0 not in self._executables:
            field = "options.argv[0]"
            beside = "/" in argv0 and not argv0.startswith("/")
            wanted = str(self._path(argv0, field)) if beside else argv0
            found = shutil.which(wanted)
            if found is None:
                raise FieldError(
                    f"{shown(argv0)} is not an executable file on this machine",
                    "give a path relative to the manifest, or a name that is on PATH",
                    field,
                )
            path = Path(found).absolute()
            content = file_sha256(path, field)
            with within(field):
                self._executables[argv0] = str(path), executable_digest(path, content)
        return self._executables[argv0]

    def _read_source(self, given: SourceFields, written_out: bool) -> Source:
        if (given.path is None) == (given.text is None):
            raise FieldError("must have exactly one of path and text", "give the file's path, or its text")
        beside = {
            relative_name(name, "files", MAX_FOLDERS_UP): self._given(text, join("files", name))
            for name, text in given.files.items()
        }
        include_dirs = tuple(self._include_dir(name, at) for at, name in enumerate(given.include_dirs))
        if given.path is None:
            main = self._given(given.text or "", "text")
            files: Mapping[str, Blob] = {name: text.blob for name, text in beside.items()}
            return Source("", main.blob, files, include_dirs)
        path = self._path(given.path, "path")
        with within("path"):
            main = self._read(path, given.path, MAX_SOURCE_BYTES)
            # Not asked of include folders, which travel whole, nor of a text: nothing lies beside it.
            read = self._read_written_out if written_out else self._read
            if written_out:
                for name, text in ((given.path, main), *beside.items()):
                    check_written_out(text, name)
            files = follow(path.parent, main, beside, read)
        suffix = PurePosixPath(given.path).suffix
        return Source(suffix if _SUFFIX.fullmatch(suffix) else "", main.blob, files, include_dirs)

    def _given(self, text: str, field: str) -> Text:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise FieldError("is not valid Unicode", "remove the lone surrogate", field) from None
        with within(field):
            return scan(Blob.of(data), data, "it")

    def _read(self, path: Path, where: str, limit_bytes: int = MAX_INCLUDE_BYTES) -> Text:
        """Read and scan one file; ``field`` of a FieldError is for the caller to add."""
        if str(path) not in self._texts:
            data = read_file(path, "", limit_bytes)
            self._texts[str(path)] = scan(Blob.of(data), data, where)
        return self._texts[str(path)]

    def _read_written_out(self, path: Path, where: str) -> Text:
        text = self._read(path, where)
        check_written_out(text, where)
        return text

    def _include_dir(self, name: str, at: int) -> dict[str, Blob]:
        if name not in self._include_dirs:
            field = join("include_dirs", at)
            blobs: dict[str, Blob] = {}
            size_bytes = 0
            with within(field):
                for file, path, _ in include_files(self._path(name, ""), ""):
                    check_spelling(file, "has a file", lambda: True)
                    blobs[file] = self._read(path, file).blob
                    size_bytes += blobs[file].size_bytes
                    check_include_set(len(blobs), size_bytes)
            self._include_dirs[name] = blobs
        return self._include_dirs[name]

    def _path(self, name: str, field: str) -> Path:
        if self._folder is None:
            raise FieldError(
                f"{shown(name)} is a path, and this manifest has no folder",
                "send sources as text and files",
                field,
            )
        if not name:
            raise FieldError("is empty", "name a file or folder", field)
        try:
            if b"\0" in os.fsencode(name):
                raise ValueError
        except ValueError:  # also a lone surrogate
            raise FieldError(f"{shown(name)} is not a file name", "", field) from None
        return self._folder / name
