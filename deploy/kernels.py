"""Is a file the kernel it should be? For the demo, which trusts no suffix."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

_EM_CUDA = 190
_SHT_SYMTAB = 2
_STT_FUNC = 2
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


class Broken(Exception):
    """A promise of the demo did not hold; the text says which."""


def check_kernel(operator: str, file: Path, entry: str) -> None:
    """A library loads and has its entry; a cubin, for which there is no GPU here, has it in its symbol table.

    Raises:
        Broken: it does not; names the operator.
    """
    try:
        if file.suffix == ".so":
            getattr(ctypes.CDLL(str(file)), entry)
        elif entry not in cuda_functions(file.read_bytes()):
            raise ValueError(f"it has no function {entry}")
    except (OSError, AttributeError, ValueError, struct.error) as error:
        raise Broken(f"the kernel of operator {operator} can not be used: {error}") from None


def cuda_functions(cubin: bytes) -> set[str]:
    """The names of all functions of a cubin, which is a 64-bit ELF file for machine CUDA.

    Raises:
        ValueError: it is not.
    """
    if cubin[:5] != b"\x7fELF\2" or struct.unpack_from("<H", cubin, 18)[0] != _EM_CUDA:
        raise ValueError("it is no ELF file for CUDA")
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count = struct.unpack_from("<HH", cubin, 58)
    sections = [_SECTION.unpack_from(cubin, table + i * size) for i in range(count)]
    names = set()
    for section in sections:
        kind, offset, length, link = section[1], *section[4:7]
        if kind != _SHT_SYMTAB:
            continue
        texts = sections[link][4]
        for at in range(offset, offset + length, _SYMBOL.size):
            name, info, *_ = _SYMBOL.unpack_from(cubin, at)
            if info & 15 == _STT_FUNC:
                names.add(cubin[texts + name : cubin.index(b"\0", texts + name)].decode())
    return names
