"""Archives of a hostile farm: all that an import does with a file before it asks the farm."""

from __future__ import annotations

import io
import tarfile
from typing import Any

from hypothesis import strategies as st

from farm.client.proof import prove_foreign
from farm.errors import FarmError, InputError
from farm.namespace import Namespace
from farm.request.key import key as key_of
from farm.store.archive import ArchiveReader, ArchiveWriter, BrokenArchive, Header, Member
from farm.store.errors import BadBundle
from tests.fuzz.bounds import fuzz, one_line, outcome
from tests.fuzz.mutations import damaged, documents, values
from tests.fuzz.test_bundles import BUNDLE, CONTENT, KEY, SPACE, packable, packed, sealed
from tests.fuzz.test_packed import FIELDS

HEADER = Header(1, 2, "farm", "2026-12-01T00:00:00+00:00", (SPACE,))


def archive(*bundles: tuple[Namespace, bytes, bytes]) -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file, HEADER)
    for bundle in bundles:
        writer.add(*bundle)
    writer.close()
    return file.getvalue()


ARCHIVE = archive((SPACE, KEY, BUNDLE), (SPACE, b"\1" * 32, b"none"))
HEAD_JSON = ARCHIVE[512 : ARCHIVE.index(b"\0", 512)]
TAR_WORDS = [
    b"0" * 8,
    b"7" * 11 + b" ",
    b"\x80" + b"\0" * 7 + b"\x7f",
    b"ustar\x0000",
    b"../",
    b"1",
    b"5",
    b"L",
    b"x",
    HEAD_JSON,
    b"[" * 900,
]


class Pipe(io.BytesIO):
    """An input that can not go back."""

    def seekable(self) -> bool:
        return False


def imported(data: bytes, kind: type[io.BytesIO]) -> None:
    """All that an import does with a file before it asks the farm."""
    reader = outcome(lambda: ArchiveReader(kind(data)))
    if isinstance(reader, FarmError):
        assert isinstance(reader, InputError)
        return
    refusal = outcome(lambda: read_all(reader))
    assert refusal is None or isinstance(refusal, BrokenArchive)


def read_all(reader: ArchiveReader) -> None:
    for member in reader.members():
        if not isinstance(member, Member):
            one_line(member.reason)
            continue
        try:
            proof = prove_foreign(reader.read(member), member.key, member.namespace)
        except (BadBundle, InputError) as error:
            one_line(str(error))
        else:
            assert key_of(proof.request, proof.fingerprint) == member.key


@fuzz(40, damaged([ARCHIVE], TAR_WORDS), st.sampled_from([io.BytesIO, Pipe]))
def test_damaged_archives(data: bytes, kind: type[io.BytesIO]) -> None:
    imported(data, kind)


@fuzz(
    30,
    damaged([HEAD_JSON], [b"[" * 900, b"9" * 4400, b"\\ud800", b'"../x"', b"null", b"-1"]),
    st.sampled_from([io.BytesIO, Pipe]),
)
def test_archives_that_say_anything_of_themselves(text: bytes, kind: type[io.BytesIO]) -> None:
    imported(resized(ARCHIVE, text), kind)


@fuzz(30, documents([CONTENT], packable | values), documents([FIELDS], packable | values))
def test_archives_with_any_bundles(content: Any, fields: Any) -> None:
    with_fields = CONTENT | {"request": packed(fields)}
    imported(archive((SPACE, KEY, sealed(packed(content))), (SPACE, KEY, sealed(packed(with_fields)))), io.BytesIO)


def resized(data: bytes, text: bytes) -> bytes:
    """The archive with another text in its first member, which is otherwise in order."""
    info = tarfile.TarInfo.frombuf(data[:512], "utf-8", "strict")
    info.size, old = len(text), info.size
    rest = data[512 + old + -old % 512 :]
    return info.tobuf(tarfile.USTAR_FORMAT) + text + bytes(-len(text) % 512) + rest
