"""A bundle comes back as it was, always as the same bytes, and every kind of damage is a BadBundle."""

import hashlib

import msgpack
import pytest
import zstandard

from farm.errors import InputError
from farm.store import bundle as bundles
from farm.store.bundle import MAGIC, Bundle, BundleFile, pack, unpack
from farm.store.errors import BadBundle

KEY = hashlib.sha256(b"key").digest()
FILES = (
    BundleFile("kernel.o", 0o444, bytes(range(256)) * 8),
    BundleFile("ir/第一/stage.txt", 0o444, b"text " * 100),
    BundleFile("run.sh", 0o555, b"#!/bin/sh\n"),
)
BUNDLE = Bundle(KEY, FILES, b"request", {"worker": "w:1", "compile_ms": 12, "log_tail": "ok", "at": [1, 2]})
PACKED = pack(BUNDLE)


def opened(data: bytes, key: bytes = KEY) -> Bundle:
    """Unpack as the holder of an index record that fits the bytes: only the bundle itself can tell."""
    return unpack(data, key=key, sha256=hashlib.sha256(data).digest(), stored_bytes=len(data))


def as_published(data: bytes) -> Bundle:
    """Unpack as the holder of the record of the undamaged bundle."""
    return unpack(data, key=KEY, sha256=hashlib.sha256(PACKED).digest(), stored_bytes=len(PACKED))


def sealed(content: bytes) -> bytes:
    """A bundle with a right head around any content: what a faulty or hostile writer could make."""
    frame = zstandard.ZstdCompressor().compress(content)
    return MAGIC + hashlib.sha256(frame).digest() + frame


def content(**changes: object) -> bytes:
    file = {"name": "a", "mode": 0o444, "sha256": hashlib.sha256(b"x").digest(), "data": b"x"}
    rows = {"key": KEY, "files": [file], "request": b"", "provenance": {}} | changes
    return msgpack.packb({name: value for name, value in rows.items() if value is not None})


def file_row(**changes: object) -> dict[str, object]:
    return {"name": "a", "mode": 0o444, "sha256": hashlib.sha256(b"x").digest(), "data": b"x"} | changes


def test_comes_back_as_it_was() -> None:
    back = opened(PACKED)
    assert sorted(back.files, key=str) == sorted(FILES, key=str)
    assert (back.key, back.request, back.provenance) == (KEY, b"request", BUNDLE.provenance)


def test_order_of_files_and_provenance_does_not_change_the_bytes() -> None:
    turned = Bundle(KEY, FILES[::-1], b"request", dict(reversed(BUNDLE.provenance.items())))
    assert pack(turned) == PACKED


@pytest.mark.parametrize(("mode", "kept"), [(0o644, 0o444), (0o755, 0o555), (0o4755, 0o555), (0o000, 0o444)])
def test_files_are_read_only_and_runnable_or_not(mode: int, kept: int) -> None:
    assert opened(pack(Bundle(KEY, (BundleFile("a", mode, b""),), b"", {}))).files[0].mode == kept


def test_ten_lines_with_msgpack_and_zstandard_read_it(tmp_path) -> None:
    data = PACKED
    # What a client without opfarm does; the same lines are in the docs.
    assert data[:16] == b"opfarm-bundle 1\n"
    assert hashlib.sha256(data[48:]).digest() == data[16:48]
    read = msgpack.unpackb(zstandard.ZstdDecompressor().decompress(data[48:]))
    for file in read["files"]:
        path = tmp_path / file["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file["data"])
        path.chmod(file["mode"])
    assert read["key"] == KEY
    assert {file.name: (tmp_path / file.name).read_bytes() for file in FILES} == {
        file.name: file.data for file in FILES
    }


@pytest.mark.parametrize("check", [opened, as_published])
@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 47, 48, 49, 52, len(PACKED) // 2, len(PACKED) - 1])
def test_cut_short(check, length: int) -> None:
    with pytest.raises(BadBundle):
        check(PACKED[:length])


@pytest.mark.parametrize("check", [opened, as_published])
def test_one_flipped_byte_anywhere(check) -> None:
    for position in range(len(PACKED)):
        for flip in (0x01, 0x10, 0xFF):
            damaged = bytearray(PACKED)
            damaged[position] ^= flip
            with pytest.raises(BadBundle):
                check(bytes(damaged))


@pytest.mark.parametrize("check", [opened, as_published])
@pytest.mark.parametrize(
    "damaged",
    [
        b"\0" * len(PACKED),
        PACKED + b"\0",
        PACKED + PACKED,
        PACKED[:48] + b"\0" * (len(PACKED) - 48),
        b"opfarm-bundle 2\n" + PACKED[16:],
        b"\x28\xb5\x2f\xfd" * 100,
        b"version https://git-lfs.github.com/spec/v1\n",
    ],
    ids=["zeros", "trailing byte", "twice", "zeros in the frame", "version 2", "bare zstd", "a text"],
)
def test_other_damage(check, damaged: bytes) -> None:
    with pytest.raises(BadBundle):
        check(damaged)


def test_bundle_of_another_key() -> None:
    with pytest.raises(BadBundle, match=KEY.hex()):
        opened(PACKED, key=hashlib.sha256(b"other").digest())


def test_trailing_garbage_inside_the_seal() -> None:
    frame = PACKED[48:] + b"garbage"
    with pytest.raises(BadBundle, match="zstd"):
        opened(MAGIC + hashlib.sha256(frame).digest() + frame)


@pytest.mark.parametrize(
    "inside",
    [
        b"",
        b"\xc1",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 100_000,
        b"\xa2\xff\xfe",
        b"\x81\x01\x02",
        b"\x81\x80\x02",
        b"\xd6\xff\x00\x00\x00\x01",
        b"\xc7\x0c\xff" + b"\xff" * 12,
        content() + b"\0",
        msgpack.packb([1, 2]),
        content(key="text"),
        content(files=None),
        content(files=[1]),
        content(request=None),
        content(provenance=[]),
        content(files=[file_row(data=b"y")]),
        content(files=[file_row(mode=0o4755)]),
        content(files=[file_row(mode=True)]),
        content(files=[file_row(), file_row()]),
        content(files=[file_row(), file_row(name="a/b")]),
        content(files=[file_row(name="../a")]),
        content(files=[file_row(name="/etc/passwd")]),
        content(files=[file_row(name=".opfarm.json")]),
    ],
)
def test_what_a_hostile_writer_could_seal(inside: bytes) -> None:
    with pytest.raises(BadBundle):
        opened(sealed(inside))


def test_a_bomb_is_refused_before_it_is_inflated() -> None:
    bomb = zstandard.ZstdCompressor().compressobj(size=bundles.CONTENT_CAP_BYTES + 1)
    frame = bomb.compress(b"\0" * (1 << 20))  # the head of the frame is enough to know
    with pytest.raises(BadBundle, match="declares"):
        opened(MAGIC + hashlib.sha256(frame).digest() + frame)


def test_a_frame_that_declares_no_size_is_refused() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(content())
    with pytest.raises(BadBundle, match="declares"):
        opened(MAGIC + hashlib.sha256(frame).digest() + frame)


def test_a_frame_that_lies_about_its_size_does_not_grow() -> None:
    honest = zstandard.ZstdCompressor().compress(b"\0" * 60_000)
    lying = bytearray(honest)
    # Frame_Content_Size of two bytes (value - 256) lies right behind magic and descriptor.
    assert zstandard.frame_content_size(honest) == 60_000
    lying[5:7] = (300 - 256).to_bytes(2, "little")
    assert zstandard.frame_content_size(bytes(lying)) == 300
    with pytest.raises(BadBundle, match="zstd"):
        opened(MAGIC + hashlib.sha256(lying).digest() + bytes(lying))


@pytest.mark.parametrize(
    "name",
    ["", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\nb", "a\0b", "\udcff", ".opfarm.json", "x" * 256,
     "算" * 86, "/".join(["d" * 100] * 11)],
)  # fmt: skip
def test_names_that_can_not_be_unpacked_are_not_packed(name: str) -> None:
    with pytest.raises(InputError, match="outputs of the compile"):
        pack(Bundle(KEY, (BundleFile(name, 0o444, b""),), b"", {}))


@pytest.mark.parametrize("name", ["a b.o", "算子.o", "...", "-o", "x" * 255, "a/b/c/d", "a\\b", "CON"])
def test_odd_names_that_compilers_do_write(name: str) -> None:
    assert opened(pack(Bundle(KEY, (BundleFile(name, 0o444, b"1"),), b"", {}))).files[0].name == name


def test_too_many_files() -> None:
    files = tuple(BundleFile(f"f{n}", 0o444, b"") for n in range(bundles.FILES_CAP + 1))
    with pytest.raises(InputError, match="10001 files"):
        pack(Bundle(KEY, files, b"", {}))


def test_the_error_travels_between_processes() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(BadBundle("cut short")))
    assert isinstance(error, BadBundle)
    assert error.reason == "cut short"
