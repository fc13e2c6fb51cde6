from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from farm.index.outcomes import Taken
from farm.index.record import ClaimRef
from farm.namespace import Namespace
from farm.request.key import key
from farm.request.model import Blob, Request
from farm.request.wire import pack
from tests.unit.workers.requests import ShellToolchain, blobs, request, shell
from workers.checking import Untrue, objection, read_claim, with_contents
from workers.toolchains import host

NAMESPACE = Namespace("default", "any")


def taken(asked: Request, *, claimed: Request | None = None) -> Taken:
    name = key(claimed or asked, ShellToolchain.fingerprint)
    return Taken(ClaimRef(1, name, 7), 1, pack(asked, lambda blob: True))


def test_a_claim_that_is_what_its_key_says() -> None:
    asked = shell("echo")
    assert read_claim(taken(asked), NAMESPACE, ShellToolchain()) == asked


def test_claims_that_are_not() -> None:
    asked = shell("echo")
    with pytest.raises(Untrue, match="not the one that its key stands for"):
        read_claim(taken(shell("rm"), claimed=asked), NAMESPACE, ShellToolchain())
    with pytest.raises(Untrue, match="toolchain command waits in the queue of shell"):
        read_claim(taken(replace(asked, toolchain="command")), NAMESPACE, ShellToolchain())
    with pytest.raises(Untrue, match="soc any waits in namespace default/other"):
        read_claim(taken(asked), Namespace("default", "other"), ShellToolchain())
    with pytest.raises(Untrue, match="not a packed request"):
        read_claim(replace(taken(asked), request=b"\xc1junk"), NAMESPACE, ShellToolchain())
    for damaged in (b"", taken(asked).request[:-1]):
        with pytest.raises(Untrue):
            read_claim(replace(taken(asked), request=damaged), NAMESPACE, ShellToolchain())


def test_requests_that_the_toolchain_could_not_run() -> None:
    toolchain = ShellToolchain()
    toolchain.schema = host.SCHEMA
    good = request(schema=host.SCHEMA, toolchain="shell", options={"flags": ["-g"]})
    assert objection(good, toolchain) is None
    toolchain.socs = ("sm_90",)
    for bad, message in [
        (good, "compiles for sm_90, not for any"),
        (replace(good, soc="sm_90", options={**good.options, "flagz": ()}), "flagz"),
        (replace(good, soc="sm_90", options={**good.options, "flags": "-g"}), "flags"),
        (replace(good, soc="sm_90", options={"flags": ("-g",)}), "not complete"),
    ]:
        refusal = objection(bad, toolchain)
        assert refusal is not None and refusal.kind == "rejected"
        assert message in refusal.message


def test_contents_come_from_the_store_once_each() -> None:
    data = {hashlib.sha256(text).digest(): text for text in (b"main", b"a")}
    absent = {digest: Blob(digest, len(text)) for digest, text in data.items()}
    main, header = absent.values()
    asked = shell("")
    asked = replace(asked, source=replace(asked.source, main=main, files={"a.h": header, **blobs({"b.h": "b"})}))
    asked = replace(asked, source=replace(asked.source, include_dirs=({"c.h": header},)))
    fetched: list[bytes] = []

    def get(sha256: bytes) -> bytes:
        fetched.append(sha256)
        return data[sha256]

    got = with_contents(asked, get)
    assert [blob.data for blob in got.source.blobs()] == [b"main", b"a", b"b", b"a"]
    assert fetched == list(data)
    assert key(got, "f") == key(asked, "f")
