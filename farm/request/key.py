"""The canonical key: a table of named parts, each of which shapes the compiled bytes.

Left out, each for a reason:
  name                  only what the submitter calls it
  folders               of source, manifest, headers, depends and argv[0]: content is in, the place is not
  user, host, time      do not reach the compiler
  size of a file        its sha256 says more
  jit_compile           decides only whether aicore_num has effect; where it has none, that is left out too
  oo_constant_folding   decides which operators a graph has, not how one is compiled
The request's options must be resolved (see options.py), so that a default and its explicit value are one key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from farm.request.canonical import canonical_bytes
from farm.request.explain import Difference, explain
from farm.request.model import COMMAND, Blob, Request, Tensor

__all__ = ["KEY_SCHEMA_VERSION", "PARTS", "Difference", "explain", "key", "parts"]

#: Raised whenever the table or the form of a part changes: old entries are then never found, never misread.
KEY_SCHEMA_VERSION = 2


def parts(request: Request, fingerprint: str) -> dict[str, bytes]:
    """Each part of the key by name, as canonical bytes; what ``explain`` compares."""
    return {name: canonical_bytes(part(request, fingerprint)) for name, part in PARTS}


def key(request: Request, fingerprint: str) -> bytes:
    """The key of a request under a toolchain's fingerprint.

    Returns:
        32 bytes; the same in every process, on every host.
    """
    return hashlib.sha256(canonical_bytes(list(parts(request, fingerprint).items()))).digest()


def _tensors(tensors: tuple[Tensor, ...]) -> object:
    return [[tensor.shape, tensor.dtype, tensor.format] for tensor in tensors]


def _digests(blobs: Mapping[str, Blob]) -> object:
    return {name: blob.sha256 for name, blob in blobs.items()}


def _options(request: Request) -> object:
    """The options; argv[0] of toolchain ``command`` by base name, as its content is a part of its own."""
    argv = request.options.get("argv")
    if request.toolchain != COMMAND or not isinstance(argv, tuple) or not argv:
        return request.options
    return {**request.options, "argv": (PurePosixPath(str(argv[0])).name, *argv[1:])}


PARTS: tuple[tuple[str, Callable[[Request, str], object]], ...] = (
    ("key schema", lambda request, fingerprint: KEY_SCHEMA_VERSION),
    ("toolchain", lambda request, fingerprint: request.toolchain),
    ("fingerprint", lambda request, fingerprint: fingerprint),
    ("soc", lambda request, fingerprint: request.soc),
    ("type", lambda request, fingerprint: request.type),
    ("inputs", lambda request, fingerprint: _tensors(request.inputs)),
    ("outputs", lambda request, fingerprint: _tensors(request.outputs)),
    ("attrs", lambda request, fingerprint: request.attrs),
    ("source", lambda request, fingerprint: [request.source.suffix, request.source.main.sha256]),
    ("files", lambda request, fingerprint: _digests(request.source.files)),
    ("include_dirs", lambda request, fingerprint: [_digests(one) for one in request.source.include_dirs]),
    ("entry", lambda request, fingerprint: request.entry),
    ("depends", lambda request, fingerprint: request.depends),
    ("options", lambda request, fingerprint: _options(request)),
    ("executable", lambda request, fingerprint: request.executable),
    ("op_debug_level", lambda request, fingerprint: request.job_options.op_debug_level),
    ("op_debug_config", lambda request, fingerprint: request.job_options.op_debug_config),
    ("aicore_num", lambda request, fingerprint: request.job_options.aicore_num),
    ("private to", lambda request, fingerprint: request.job_options.private),
)
