"""A request as bytes: what a claim carries, a bundle stores and a worker reads.

    msgpack [WIRE_VERSION, {field: value}]     a blob is [sha256, size in bytes, data or nil]

Equal requests give equal bytes. The digits that named a fingerprint stay behind: the queue is that choice.
Nothing that comes in is trusted: it passes the same checks as a manifest's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgpack

from farm.errors import InputError
from farm.request.canonical import MAX_ITEMS, Allowance, canonical_bytes
from farm.request.job_options import JobOptions
from farm.request.model import Blob, Request, Source, Tensor
from farm.request.values import FieldError, shown

WIRE_VERSION = 1


def pack(request: Request, inline: Callable[[Blob], bool]) -> bytes:
    """The request as bytes; ``inline`` chooses the blobs whose data travels along, if the blob has it."""

    def blob(one: Blob) -> list[object]:
        return [one.sha256, one.size_bytes, one.data if one.data is not None and inline(one) else None]

    def blobs(named: Mapping[str, Blob]) -> dict[str, object]:
        return {name: blob(one) for name, one in named.items()}

    source = request.source
    fields: dict[str, object] = {
        "name": request.name,
        "type": request.type,
        "soc": request.soc,
        "toolchain": request.toolchain,
        "inputs": _tensors(request.inputs),
        "outputs": _tensors(request.outputs),
        "attrs": request.attrs,
        "source": {
            "suffix": source.suffix,
            "main": blob(source.main),
            "files": blobs(source.files),
            "include_dirs": [blobs(folder) for folder in source.include_dirs],
        },
        "entry": request.entry,
        "depends": request.depends,
        "options": request.options,
        "executable": request.executable,
        "job_options": _job_options(request.job_options),
    }
    return canonical_bytes([WIRE_VERSION, fields])


def unpack(data: bytes) -> Request:
    """The request that ``pack`` was given; blobs that were not inlined have ``data`` None.

    Raises:
        InputError: damaged, forged, or of another version; nothing of it can be used.
    """
    allowance = Allowance(MAX_ITEMS)
    try:
        version, fields = msgpack.unpackb(
            data,
            raw=False,
            use_list=False,
            strict_map_key=True,
            max_array_len=MAX_ITEMS,
            max_map_len=MAX_ITEMS,
            list_hook=allowance.take,
            object_pairs_hook=lambda pairs: allowance.take(_no_repeats(pairs)),
        )
        if type(version) is int and version != WIRE_VERSION:
            raise InputError(
                f"request: wire version {version} is not {WIRE_VERSION}",
                "run the same version of opfarm on clients and workers",
            )
        return _request(fields)
    except FieldError as error:
        raise InputError(f"request: {error.message}", error.fix) from None
    except (ValueError, TypeError, KeyError, RecursionError, msgpack.UnpackException) as error:
        raise InputError(
            f"request: not a packed request of this version ({type(error).__name__}: {shown(str(error))})",
            "submit the operator again",
        ) from None


def _request(fields: dict[str, Any]) -> Request:
    values = dict(fields)
    source = _exactly(values.pop("source"), "suffix", "main", "files", "include_dirs")
    _exactly(
        values,
        *("name", "type", "soc", "toolchain", "inputs", "outputs"),
        *("attrs", "entry", "depends", "options", "executable", "job_options"),
    )
    private, level, config, cores = values.pop("job_options")
    for name in ("inputs", "outputs"):
        values[name] = tuple(Tensor(*_three(one)) for one in values[name])
    return Request(
        source=Source(
            suffix=source["suffix"],
            main=_blob(source["main"]),
            files=_blobs(source["files"]),
            include_dirs=tuple(_blobs(folder) for folder in source["include_dirs"]),
        ),
        job_options=JobOptions(private=private, op_debug_level=level, op_debug_config=config, aicore_num=cores),
        **values,
    )


def _job_options(options: JobOptions) -> list[object]:
    return [options.private, options.op_debug_level, options.op_debug_config, options.aicore_num]


def _tensors(tensors: tuple[Tensor, ...]) -> list[object]:
    return [[tensor.shape, tensor.dtype, tensor.format] for tensor in tensors]


def _blobs(named: Any) -> dict[str, Blob]:
    if not isinstance(named, dict):
        raise TypeError("files are not named")
    return {name: _blob(one) for name, one in named.items()}


def _blob(packed: Any) -> Blob:
    sha256, size_bytes, data = _three(packed)
    blob = Blob(sha256, size_bytes, data)
    if data is not None and hashlib.sha256(data).digest() != sha256:
        raise ValueError("a file's content is not what its sha256 says")
    return blob


def _three(packed: Any) -> tuple[Any, Any, Any]:
    first, second, third = packed
    return first, second, third


def _exactly(fields: Any, *names: str) -> dict[str, Any]:
    if not isinstance(fields, dict) or set(fields) != set(names):
        raise ValueError(f"fields are not exactly {', '.join(names)}")
    return fields


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name is given twice")
    return result
