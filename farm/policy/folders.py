"""Where kernels go: op_compiler_cache_dir before $ASCEND_CACHE_PATH before $HOME/atc_data, and what a path may hold.

``kernel_cache/<soc>`` is appended in all three cases, as CANN's source does (its documents say otherwise).
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Callable, Mapping

from farm.errors import InputError

OPTION = "op_compiler_cache_dir"
VARIABLE = "ASCEND_CACHE_PATH"
DEFAULT = "atc_data"
SUBFOLDER = "kernel_cache"

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./")
#: Han characters: the iteration mark and the zero, extension A, the main block, compatibility, the rest.
_HAN = (
    (0x3005, 0x3005),
    (0x3007, 0x3007),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


def base_folder(option: str | None, environ: Mapping[str, str], home: Callable[[], str]) -> str:
    """The folder that holds ``kernel_cache``, as it was named: relative stays relative, nothing is expanded.

    ``home`` is asked only when neither is set and ``$HOME`` is not either; what HOME holds is not checked.

    Raises:
        InputError: option or variable holds a character that is not allowed, named with its place.
    """
    if option is not None:
        return _checked(option, OPTION)
    if value := environ.get(VARIABLE, "").strip(" \t"):
        return _checked(value, VARIABLE)
    return posixpath.join(environ.get("HOME") or home(), DEFAULT)


def _checked(text: str, where: str) -> str:
    if not text:
        raise InputError(f"{where} is empty", fix="name a folder, or leave the option out")
    for position, character in enumerate(text, start=1):
        if character not in _PLAIN and not _is_han(character):
            raise InputError(
                f"{where} {text!r}: character {position}, {_shown(character)}, is not allowed",
                fix="use letters, digits, _ - . / and Chinese characters",
            )
    return text


def _is_han(character: str) -> bool:
    point = ord(character)
    return any(low <= point <= high for low, high in _HAN) and unicodedata.category(character) != "Cn"


def _shown(character: str) -> str:
    name = unicodedata.name(character, "control or unassigned")
    return f"{character!r} (U+{ord(character):04X} {name})"
