"""What a bundle that was found without an index proves of itself, for rebuilds and imports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from farm.errors import InputError
from farm.index.record import Record
from farm.index.slots import tensor_slot
from farm.namespace import Namespace
from farm.request.key import key as key_of
from farm.request.model import Request
from farm.request.wire import unpack as unpack_request
from farm.store.bundle import identify


@dataclass(frozen=True, slots=True)
class Proof:
    """The entry that a bundle makes, and what it was compiled from and by."""

    record: Record
    request: Request
    #: Of the toolchain: as the worker wrote them, "" where it did not.
    fingerprint: str
    version: str


def prove(data: bytes, key: bytes, token: int = 0) -> Proof:
    """Open the bundle of a key and check it against itself; ``token`` is that of its place in the store.

    Raises:
        BadBundle: it is damaged, or another key's.
        InputError: its request is not one of this version.
    """
    bundle, sha256 = identify(data, key=key)
    request = unpack_request(bundle.request)
    about = bundle.provenance
    record = Record(
        token, len(data), sha256, request.name, request.type, request.toolchain,
        _duration(about.get("compile_ms")), tensor_slot(request),
    )  # fmt: skip
    return Proof(record, request, _text(about.get("fingerprint")), _text(about.get("version")))


def prove_foreign(data: bytes, key: bytes, namespace: Namespace) -> Proof:
    """Everything that can be known of a bundle from another farm, before it becomes an entry of this one.

    Raises:
        BadBundle: it is damaged, or another key's.
        InputError: it is not what its key stands for, or nothing that is shared here.
    """
    proof = prove(data, key)
    request = proof.request
    if request.job_options.private:
        raise InputError("it was compiled for one job alone")
    if request.soc != namespace.soc:
        raise InputError(f"it was compiled for {request.soc}, and lies below {namespace.soc}")
    if key_of(request, proof.fingerprint) != key:
        raise InputError("its key is not that of its request and toolchain")
    return proof


def _duration(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
