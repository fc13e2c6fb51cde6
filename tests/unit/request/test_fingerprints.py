"""``toolchain: name@digits``: how a fingerprint is named, and that the naming is never in the key."""

from __future__ import annotations

from typing import Any

import pytest

from farm.errors import InputError
from farm.request.key import key, parts
from farm.request.manifest import load, parse
from farm.request.model import Request
from farm.request.wire import pack, unpack
from tests.unit.request.sample import FINGERPRINT, sample


def parsed(manifest: dict[str, Any], toolchain: str | None = None) -> Request:
    (request,) = parse(manifest, where="doc", folder=None, toolchain=toolchain)
    return request


def test_naming_a_fingerprint_does_not_change_the_key(manifest: dict[str, Any]) -> None:
    plain = parsed(manifest)
    manifest["toolchain"] = "cuda@66938b74"
    named = parsed(manifest)
    assert (named.toolchain, named.fingerprint) == ("cuda", "66938b74")
    assert parts(named, FINGERPRINT) == parts(plain, FINGERPRINT)
    assert parts(named, FINGERPRINT)["toolchain"] == b"\xa4cuda"


def test_the_fingerprint_that_was_chosen_does() -> None:
    assert key(sample(fingerprint="f0f0"), "f0" * 32) != key(sample(fingerprint="f0f0"), "f1" * 32)


def test_another_name_before_the_digits_is_another_key(manifest: dict[str, Any]) -> None:
    manifest["toolchain"] = "cuda@66938b74"
    other = parsed({**manifest, "toolchain": "host@66938b74"})
    assert key(parsed(manifest), FINGERPRINT) != key(other, FINGERPRINT)


def test_the_naming_does_not_travel() -> None:
    assert unpack(pack(sample(fingerprint="f0f0"), lambda blob: True)) == sample()


@pytest.mark.parametrize(
    ("of_op", "given", "of_manifest", "name", "digits"),
    [
        ("cuda@aaaa", None, None, "cuda", "aaaa"),
        ("cuda@AAAA", None, None, "cuda", "aaaa"),
        (None, "cuda@aaaa", "cuda@bbbb", "cuda", "aaaa"),
        (None, "cuda", "cuda@bbbb", "cuda", "bbbb"),
        ("cuda", "cuda@aaaa", "cuda@bbbb", "cuda", "aaaa"),
        ("cuda@cccc", "cuda@aaaa", None, "cuda", "cccc"),
        # Digits belong to a name: those of another toolchain say nothing.
        ("host", "cuda@aaaa", "cuda@bbbb", "host", ""),
        (None, "host", "cuda@bbbb", "host", ""),
        ("cuda@" + "a" * 64, None, None, "cuda", "a" * 64),
    ],
)
def test_the_nearest_naming_counts(
    manifest: dict[str, Any], op: dict[str, Any], of_op: Any, given: Any, of_manifest: Any, name: str, digits: str
) -> None:
    op["toolchain"], manifest["toolchain"] = of_op, of_manifest
    request = parsed(manifest, given)
    assert (request.toolchain, request.fingerprint) == (name, digits)


@pytest.mark.parametrize(
    "wrong", ["cuda@", "@aaaa", "cuda@aaa", "cuda@wxyz", "cuda@aaaa@bbbb", "cuda@" + "a" * 65, "@"]
)
def test_a_wrong_naming_is_told(refused: Any, op: dict[str, Any], manifest: dict[str, Any], wrong: str) -> None:
    op["toolchain"] = wrong
    line = refused(manifest)
    assert line.startswith("ops.json: operator 'add': field toolchain: ")
    assert "is not valid; valid: " in line


def test_a_wrong_naming_on_the_command_line_is_told(write: Any) -> None:
    with pytest.raises(InputError, match="field toolchain: '' is not valid; valid: 4 to 64 hex digits"):
        load(write(), toolchain="cuda@")


def test_the_command_toolchain_may_be_named_so_too(manifest: dict[str, Any], op: dict[str, Any]) -> None:
    op |= {"toolchain": "command@abcd", "options": {"argv": ["true"], "outputs": ["*"]}}
    request = parsed(manifest)
    assert (request.toolchain, request.fingerprint) == ("command", "abcd")
    assert request.executable is not None
