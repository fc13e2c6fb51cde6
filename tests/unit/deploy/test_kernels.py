"""The demo's own look at a kernel: what is none is noticed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from deploy.kernels import Broken, check_kernel, cuda_functions

HEADER_BYTES, SECTION_BYTES = 64, 64


def cubin(*names: str, machine: int = 190, kind: int = 2) -> bytes:
    """An ELF file of a symbol table with these symbols and its texts, and nothing else."""
    texts = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    symbols = b"".join(
        struct.pack("<IBBHQQ", texts.index(b"\0" + name.encode() + b"\0") + 1, kind, 0, 1, 0, 0) for name in names
    )
    start = HEADER_BYTES + 2 * SECTION_BYTES
    sections = [(2, start, len(symbols), 1), (3, start + len(symbols), len(texts), 0)]
    head = b"\x7fELF\2".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, HEADER_BYTES, 0, 64, 0, 0, 64, 2, 0
    )
    table = b"".join(struct.pack("<IIQQQQIIQQ", 0, t, 0, 0, at, size, link, 0, 1, 24) for t, at, size, link in sections)
    return head + table + symbols + texts


def test_functions_are_found_by_name() -> None:
    assert cuda_functions(cubin("softmax", "other")) == {"softmax", "other"}


def test_data_of_the_same_name_is_no_function() -> None:
    assert cuda_functions(cubin("softmax", kind=1)) == set()


@pytest.mark.parametrize(
    "content",
    [b"", b"PTX", cubin("softmax", machine=62), cubin("max"), cubin("softmax")[:150]],
    ids=["empty", "text", "for the CPU", "another function", "cut short"],
)
def test_what_is_no_such_kernel_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kernel.cubin").write_bytes(content)
    with pytest.raises(Broken, match="operator soft"):
        check_kernel("soft", tmp_path / "kernel.cubin", "softmax")


def test_a_library_must_load(tmp_path: Path) -> None:
    (tmp_path / "kernel.so").write_bytes(b"no library")
    with pytest.raises(Broken, match="operator add"):
        check_kernel("add", tmp_path / "kernel.so", "add")
