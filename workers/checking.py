"""What a worker checks of a claim before it runs anything: whoever wrote it may have written something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from farm.errors import InputError
from farm.index.outcomes import Failure, Taken
from farm.namespace import Namespace
from farm.request.key import key
from farm.request.model import Blob, Request
from farm.request.options import resolve
from farm.request.wire import unpack
from workers.toolchains import Toolchain


class Untrue(Exception):
    """The claim is not what its key says; told to those who wait, never remembered, nothing published."""


def read_claim(taken: Taken, namespace: Namespace, toolchain: Toolchain) -> Request:
    """The request of a claim, when it is the one that the claim's key stands for.

    Raises:
        Untrue: it can not be read, is another toolchain's or namespace's, or has another key.
    """
    try:
        request = unpack(taken.request)
    except InputError as error:
        raise Untrue(str(error)) from None
    if request.toolchain != toolchain.name:
        raise Untrue(f"a request for toolchain {request.toolchain} waits in the queue of {toolchain.name}")
    if request.soc != namespace.soc:
        raise Untrue(f"a request for soc {request.soc} waits in namespace {namespace}")
    if key(request, toolchain.fingerprint) != taken.claim.key:
        raise Untrue("the request is not the one that its key stands for (worker and submitter differ in it)")
    return request


def objection(request: Request, toolchain: Toolchain) -> Failure | None:
    """The compiler's own no to a request that it could not even be run for."""
    if toolchain.socs and request.soc not in toolchain.socs:
        valid = ", ".join(toolchain.socs)
        return Failure("rejected", f"toolchain {toolchain.name} compiles for {valid}, not for {request.soc}")
    try:
        resolved = resolve(request.options, toolchain.schema, f"operator {request.name}")
    except InputError as error:
        return Failure("rejected", str(error))
    if resolved != request.options:
        return Failure("rejected", "the request's options are not complete: submit it with this version's client")
    return None


def with_contents(request: Request, get_source: Callable[[bytes], bytes]) -> Request:
    """The request with the content of every file that travelled through the store; each is verified there."""
    found: dict[bytes, bytes] = {}

    def filled(blob: Blob) -> Blob:
        if blob.data is not None:
            return blob
        if blob.sha256 not in found:
            found[blob.sha256] = get_source(blob.sha256)
        return Blob(blob.sha256, blob.size_bytes, found[blob.sha256])

    source = request.source
    return replace(
        request,
        source=replace(
            source,
            main=filled(source.main),
            files={name: filled(blob) for name, blob in source.files.items()},
            include_dirs=tuple({name: filled(blob) for name, blob in each.items()} for each in source.include_dirs),
        ),
    )
