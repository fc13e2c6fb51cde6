"""An archive comes back as it was written, also through a pipe; whatever else a file may hold is told apart."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from typing import Any

import pytest

from farm.errors import InputError
from farm.namespace import Namespace
from farm.store import archive as archives
from farm.store.archive import ArchiveReader, ArchiveWriter, BadMember, BrokenArchive, Header, Member
from farm.store.store import OBJECT_CAP_BYTES

LONG = Namespace("c" * 64, "s" * 64)
SHORT = Namespace("default", "sm_90")
HEADER = Header(1, 2, "farm", "2026-12-01T00:00:00+00:00", (SHORT, LONG))
BUNDLES = [(SHORT, b"\0" * 32, b"one"), (LONG, hashlib.sha256(b"k").digest(), b"x" * 5000), (SHORT, b"\xff" * 32, b"")]


class Pipe(io.BytesIO):
    """An input that can not go back."""

    def seekable(self) -> bool:
        return False

    def seek(self, *where: int) -> int:
        raise AssertionError("a pipe was asked to go back")

    def tell(self) -> int:
        raise AssertionError("a pipe was asked where it is")


INPUTS = pytest.mark.parametrize("kind", [io.BytesIO, Pipe])


def written() -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file, HEADER)
    for bundle in BUNDLES:
        writer.add(*bundle)
    writer.close()
    return file.getvalue()


WHOLE = written()
NAMES = [f"{namespace}/{key.hex()}" for namespace, key, _ in BUNDLES]


def tar(*members: tuple[str, bytes], **fields: Any) -> bytes:
    """A tar as anybody may make one; the fields are those of its last member."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as made:
        for at, (name, data) in enumerate(members, 1):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for field, value in fields.items() if at == len(members) else ():
                setattr(info, field, value)
            made.addfile(info, io.BytesIO(data))
    return file.getvalue()


def head(**changes: Any) -> tuple[str, bytes]:
    about = {"format": 1, "schema": 1, "key_schema": 2, "farm_id": "f", "created": "", "namespaces": ["default/sm_90"]}
    return "opfarm-cache.json", json.dumps(about | changes).encode()


def end(entries: int, stored_bytes: int) -> tuple[str, bytes]:
    return "opfarm-cache.end.json", json.dumps({"entries": entries, "bytes": stored_bytes}).encode()


def read(data: bytes, kind: type[io.BytesIO] = io.BytesIO) -> tuple[list[tuple[str, bytes | None]], str]:
    """All members with their bytes (None where they are none of ours), and why the archive is broken."""
    reader, found = ArchiveReader(kind(data)), []
    try:
        for member in reader.members():
            found.append((member.name, reader.read(member) if isinstance(member, Member) else None))
    except BrokenArchive as error:
        return found, error.message
    return found, ""


@INPUTS
def test_comes_back_as_it_was(kind: type[io.BytesIO]) -> None:
    assert ArchiveReader(kind(WHOLE)).header == HEADER
    assert read(WHOLE, kind) == ([*zip(NAMES, [data for _, _, data in BUNDLES], strict=True)], "")


def test_it_is_a_tar_that_every_tar_reads() -> None:
    with tarfile.open(fileobj=io.BytesIO(WHOLE)) as made:
        assert made.getnames() == ["opfarm-cache.json", *NAMES, "opfarm-cache.end.json"]
        assert [made.extractfile(name).read() for name in NAMES] == [data for _, _, data in BUNDLES]  # type: ignore[union-attr]
    assert len(WHOLE) % 512 == 0


@INPUTS
def test_members_that_nobody_wants_are_passed_over(kind: type[io.BytesIO]) -> None:
    names = [member.name for member in ArchiveReader(kind(WHOLE)).members()]
    assert names == NAMES


def test_where_the_input_can_go_back_bundles_are_read_later_in_any_order() -> None:
    reader = ArchiveReader(io.BytesIO(WHOLE))
    members = [member for member in reader.members() if isinstance(member, Member)]
    assert [reader.read(member) for member in reversed(members)] == [data for _, _, data in reversed(BUNDLES)]


def test_an_archive_may_begin_behind_other_bytes_that_were_read() -> None:
    file = io.BytesIO(b"before" + WHOLE)
    file.seek(6)
    reader = ArchiveReader(file)
    assert [reader.read(member) for member in reader.members()] == [data for _, _, data in BUNDLES]  # type: ignore[arg-type]


@INPUTS
def test_cut_off_anywhere_gives_all_that_is_whole_and_says_so(kind: type[io.BytesIO]) -> None:
    first = WHOLE.index(NAMES[0].encode())
    for length in range(first, len(WHOLE) - 1536, 128):
        found, broken = read(WHOLE[:length], kind)
        assert "cut off" in broken, length
        assert found == [*zip(NAMES, [data for _, _, data in BUNDLES], strict=True)][: len(found)]
    assert len(found) == len(BUNDLES)


FOREIGN = {
    "nothing": (b"", "cut off after 0 bytes"),
    "text": (b"hello\n" * 200, "no member of a tar begins at byte 0"),
    "zeros": (bytes(4096), "ends at byte 0"),
    "compressed": (gzip.compress(WHOLE) * 4, "no member of a tar begins at byte 0"),
    "another tar": (tar(("README", b"hello")), "begins with 'README'"),
    "a pax header first": (tar(("ä" * 200, b"")), "not a regular file"),
    "header no JSON": (tar(("opfarm-cache.json", b"{")), "is not JSON"),
    "header nested": (tar(("opfarm-cache.json", b"[" * 100_000)), "is not JSON"),
    "header no mapping": (tar(("opfarm-cache.json", b"[1]")), "has not the fields"),
    "a namespace that is nested": (tar(head(namespaces=[["x"]])), "has not the fields"),
    "a field missing": (tar(("opfarm-cache.json", b'{"format": 1}')), "has not the fields"),
    "a namespace that is none": (tar(head(namespaces=["../x"])), "not a valid name"),
    "another format": (tar(head(format=7)), "has format 7, this opfarm reads 1"),
    "header cut off": (WHOLE[:600], "cut off after 600 bytes"),
}


@INPUTS
@pytest.mark.parametrize("what", FOREIGN)
def test_what_is_no_archive_is_wrong_input(what: str, kind: type[io.BytesIO]) -> None:
    data, reason = FOREIGN[what]
    with pytest.raises(InputError, match=reason):
        ArchiveReader(kind(data))


GOOD = (NAMES[0], b"one")
BAD_NAMES = [
    "../../etc/passwd", "/etc/passwd", "default/sm_90", "default/sm_90/" + "0" * 63, "default/sm_90/" + "G" * 64,
    "default/sm_90/" + "A" * 64, "default/../" + "0" * 64, "default/sm 90/" + "0" * 64, "a/b/c/" + "0" * 64,
    "default/sm_90/" + "0" * 64 + "\n",
]  # fmt: skip


@INPUTS
@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_no_bundles_is_passed_over_and_named(name: str, kind: type[io.BytesIO]) -> None:
    found, broken = read(tar(head(), (name, b"bad"), GOOD, end(2, 6)), kind)
    assert (found, broken) == ([(name, None), GOOD], "")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.CONTTYPE]
)
def test_links_folders_and_devices_end_it(kind: bytes) -> None:
    found, broken = read(tar(head(), GOOD, (NAMES[2], b""), type=kind, linkname="/etc/passwd"))
    assert found == [GOOD]
    assert "is not a regular file" in broken


def forged(size: bytes) -> bytes:
    """An archive whose only bundle says that it has another size, in a header that is otherwise right."""
    info = tarfile.TarInfo(NAMES[0])
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return tar(head())[: 512 * 2] + bytes(block) + b"x" * 2048


@INPUTS
@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (b"%011o\0" % 4096, "cut off"),
        (b"%011o\0" % (OBJECT_CAP_BYTES + 1), "cut off"),
        (b"\x80" + (1 << 62).to_bytes(11, "big"), "cut off"),
        (b"\xff" * 12, "not a regular file"),
        (b"zzzzzzzzzzz\0", "no member of a tar"),
    ],
)
def test_sizes_that_are_not_true_end_it_without_taking_memory(
    size: bytes, reason: str, kind: type[io.BytesIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "OBJECT_CAP_BYTES", 1 << 20)
    found, broken = read(forged(size), kind)
    assert reason in broken
    assert not any(data for _, data in found)


@INPUTS
def test_a_member_larger_than_any_bundle_is_passed_over(
    kind: type[io.BytesIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "OBJECT_CAP_BYTES", 4999)
    found, broken = read(WHOLE, kind)
    assert broken == ""
    assert [data for _, data in found] == [b"one", None, b""]
    (bad,) = [member for member in ArchiveReader(kind(WHOLE)).members() if isinstance(member, BadMember)]
    assert "5000 bytes" in bad.reason


@INPUTS
@pytest.mark.parametrize(
    "told", [end(2, 3), end(1, 4), ("opfarm-cache.end.json", b"{}"), ("opfarm-cache.end.json", b"")]
)
def test_an_end_that_counts_otherwise_is_told(told: tuple[str, bytes], kind: type[io.BytesIO]) -> None:
    found, broken = read(tar(head(), GOOD, told), kind)
    assert found == [GOOD]
    assert "its end says" in broken or "is not JSON" in broken


@INPUTS
def test_a_changed_member_header_ends_it_after_what_was_good(kind: type[io.BytesIO]) -> None:
    at = WHOLE.index(NAMES[1][-64:].encode())
    data = bytearray(WHOLE)
    data[at] ^= 1
    found, broken = read(bytes(data), kind)
    assert [name for name, _ in found] == NAMES[:1]
    assert "no member of a tar begins at byte" in broken
