"""Where a node keeps its kernels: op_compiler_cache_dir, its order of precedence and its character rules."""

from __future__ import annotations

import os
import pwd
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from farm.client.localnames import as_text, on_disk
from farm.client.ownfolder import make_folders, own_folder
from farm.errors import InputError

ENVIRONMENT = "ASCEND_CACHE_PATH"
OPTION = "op_compiler_cache_dir"
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


def resolve_cache_dir(option: str | None, env: Mapping[str, str]) -> Path:
    """Find and make the folder of this node's kernels; may be repeated, also by many processes at once.

    ``op_compiler_cache_dir`` comes before ``$ASCEND_CACHE_PATH`` (blanks around it trimmed, empty means
    unset) before ``$HOME/atc_data``. Links in the folder's path are followed; ``kernel_cache`` may be none.

    Returns:
        ``<folder>/kernel_cache``, absolute, without links.

    Raises:
        InputError: a character is not allowed (in the first two), or the folder can not be made or written.
    """
    folder = _chosen(option, env)
    make_folders(folder)
    kernels = folder.resolve() / SUBFOLDER
    own_folder(kernels)
    return kernels


def _chosen(option: str | None, env: Mapping[str, str]) -> Path:
    if option is not None:
        return _checked(option, OPTION)
    if value := env.get(ENVIRONMENT, "").strip(" \t"):
        return _checked(value, ENVIRONMENT)
    home = env.get("HOME") or _home()
    return Path(on_disk(home)).absolute() / "atc_data"


def _home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise InputError(
            f"no folder for kernels: neither {OPTION} nor {ENVIRONMENT} nor HOME is set",
            fix=f"set {OPTION} or {ENVIRONMENT} to a folder",
        ) from None


def _checked(value: str, where: str) -> Path:
    text = as_text(value)
    if not text:
        raise InputError(f"{where} is empty", fix="name a folder, or leave the option out")
    for position, character in enumerate(text, start=1):
        if character not in _PLAIN and not _is_han(character):
            raise InputError(
                f"{where} {text!r}: character {position}, {_shown(character)}, is not allowed",
                fix="use letters, digits, _ - . / and Chinese characters",
            )
    return Path(on_disk(value)).absolute()


def _is_han(character: str) -> bool:
    point = ord(character)
    return any(low <= point <= high for low, high in _HAN) and unicodedata.category(character) != "Cn"


def _shown(character: str) -> str:
    name = unicodedata.name(character, "control or unassigned")
    return f"{character!r} (U+{ord(character):04X} {name})"
