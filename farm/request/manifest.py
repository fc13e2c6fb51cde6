"""Manifest to requests: the one way in for files, standard input, and documents sent by Celery clients."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from farm.errors import InputError
from farm.request.document import read_document
from farm.request.files import read_file
from farm.request.manifest_fields import OperatorFields, TensorFields, check_fields
from farm.request.model import COMMAND, Request, Tensor, fingerprint_digits
from farm.request.places import operator
from farm.request.relative_flags import check_relative_flags
from farm.request.sources import Reader
from farm.request.values import FieldError, join, printable, shown, within

VERSION = 1
STDIN = "-"
MAX_MANIFEST_BYTES = 64 * 2**20
#: Toolchains whose compiler follows includes, computed ones too.
_PREPROCESSING = ("host", "cuda")


def load(path: str | os.PathLike[str], *, soc: str | None = None, toolchain: str | None = None) -> list[Request]:
    """The requests of a manifest file, or for ``-`` of standard input (whose folder is the working one).

    Args:
        soc: for operators that name none; comes before the manifest's own default.
        toolchain: likewise; ``name`` or ``name@digits`` with the first digits of a fingerprint.

    Raises:
        InputError: one line that names file, operator and field; the submitter mends it.
    """
    name = os.fspath(path)
    if name == STDIN:
        where, folder, suffix = "standard input", Path.cwd(), ""
        data = sys.stdin.buffer.read(MAX_MANIFEST_BYTES + 1)
        if len(data) > MAX_MANIFEST_BYTES:
            raise InputError(f"{where}: has more than {MAX_MANIFEST_BYTES} bytes", "split the manifest")
    else:
        where, folder, suffix = printable(name), Path(name).parent, Path(name).suffix
        try:
            data = read_file(Path(name), "", MAX_MANIFEST_BYTES)
        except FieldError as error:
            raise InputError(
                f"manifest {error.what}", error.fix or "name a manifest file, or - for standard input"
            ) from None
    return parse(read_document(data, where, suffix), where=where, folder=folder, soc=soc, toolchain=toolchain)


def parse(
    document: object, *, where: str, folder: Path | None, soc: str | None = None, toolchain: str | None = None
) -> list[Request]:
    """The requests of a manifest that is already plain values; ``folder`` None: sources as text only.

    Raises:
        InputError: one line that names ``where``, operator and field; the submitter mends it.
    """
    manifest = check_fields(_of_version(document, where), where)
    if not manifest.ops:
        raise InputError(f"{where}: field ops: is empty", "give at least one operator")
    reader = Reader(folder)
    requests: list[Request] = []
    positions: dict[str, int] = {}
    for at, op in enumerate(manifest.ops):
        try:
            named = _toolchain(op.toolchain, toolchain, manifest.toolchain)
            request = _request(op, _first_given(op.soc, soc, manifest.soc), *named, reader)
        except FieldError as error:
            raise InputError(f"{where}: {operator(at, {'name': op.name})}: {error.message}", error.fix) from None
        first = positions.setdefault(request.name, at)
        if first != at:
            raise InputError(
                f"{where}: operator #{at + 1}: field name: {shown(request.name)} is #{first + 1}'s already",
                "give every operator a name of its own",
            )
        requests.append(request)
    return requests


def _first_given(*values: str | None) -> str | None:
    return next((value for value in values if value is not None), None)


def _toolchain(*given: str | None) -> tuple[str | None, str]:
    """The name of the first one given; its fingerprint, or that of a later one with the same name."""
    pairs = [one.partition("@") for one in given if one is not None]
    digits = {name: fingerprint_digits(digits.lower(), "toolchain") for name, at, digits in reversed(pairs) if at}
    name = pairs[0][0] if pairs else None
    return name, digits.get(name or "", "")


def _of_version(document: object, where: str) -> dict[str, Any]:
    """The version is judged first: of another one, no other complaint would make sense."""
    if not isinstance(document, dict):
        raise InputError(f"{where}: must be a mapping, given {shown(document)}", "give version and ops")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        given = f"is {shown(version)}" if "version" in document else "is missing"
        raise InputError(f"{where}: field version: {given}", f"valid: {VERSION}")
    return document


def _request(op: OperatorFields, soc: str | None, toolchain: str | None, fingerprint: str, reader: Reader) -> Request:
    for name, value in (("soc", soc), ("toolchain", toolchain)):
        if value is None:
            raise FieldError("is missing", f"give it to the operator, to the manifest, or as --{name}", name)
    options = op.options
    executable = None
    if toolchain == COMMAND:
        argv = _argv(options)
        path, executable = reader.executable(argv[0])
        options = {**options, "argv": [path, *argv[1:]]}
    with within("source"):
        source = reader.source(op.source, written_out=toolchain in _PREPROCESSING)
    if toolchain == "host" and op.source.path is not None:  # beside a text lies nothing that could stay behind
        check_relative_flags(options.get("flags"), op.source.files)
    return Request(
        name=op.name,
        type=op.type,
        soc=soc or "",
        toolchain=toolchain or "",
        fingerprint=fingerprint,
        inputs=_tensors(op.inputs, "inputs"),
        outputs=_tensors(op.outputs, "outputs"),
        attrs=op.attrs,
        source=source,
        entry=op.entry,
        depends=reader.depends(op.depends),
        options=options,
        executable=executable,
    )


def _argv(options: dict[str, Any]) -> list[str]:
    argv = options.get("argv")
    if not isinstance(argv, list | tuple) or not argv or not all(isinstance(one, str) and one for one in argv[:1]):
        raise FieldError(
            "must be a list of texts, the command first",
            "for example [my-compiler, '{source}', -o, '{out}']",
            "options.argv",
        )
    return list(argv)


def _tensors(given: list[TensorFields], name: str) -> tuple[Tensor, ...]:
    tensors: list[Tensor] = []
    for at, one in enumerate(given):
        with within(join(name, at)):
            tensors.append(Tensor(tuple(one.shape), one.dtype, one.format))
    return tuple(tensors)
