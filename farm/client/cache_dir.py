"""Where a node keeps its kernels: finds the folder by the rules of op_compiler_cache_dir, and makes it for jobs."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from farm.client.localnames import as_text, on_disk
from farm.client.ownfolder import make_folders, own_folder
from farm.errors import InputError
from farm.policy.folders import OPTION, SUBFOLDER, VARIABLE, base_folder


def resolve_cache_dir(option: str | None, env: Mapping[str, str]) -> Path:
    """Find and make the folder of this node's kernels; may be repeated, also by many processes at once.

    ``op_compiler_cache_dir`` comes before ``$ASCEND_CACHE_PATH`` (blanks around it trimmed, empty means
    unset) before ``$HOME/atc_data``. Links in the folder's path are followed; ``kernel_cache`` may be none.

    Returns:
        ``<folder>/kernel_cache``, absolute, without links.

    Raises:
        InputError: a character is not allowed (in the first two), or the folder can not be made or written.
    """
    make_folders(_base(option, env))
    kernels = find_cache_dir(option, env)
    own_folder(kernels)
    return kernels


def find_cache_dir(option: str | None, env: Mapping[str, str]) -> Path:
    """The same folder for who only looks: it is not made, and may be none.

    Raises:
        InputError: a character is not allowed.
    """
    return Path(os.path.realpath(_base(option, env))) / SUBFOLDER


def _base(option: str | None, env: Mapping[str, str]) -> Path:
    """The folder by the rule of ``farm/policy/folders.py``, which reads text; the disk wants bytes."""
    named = {"HOME": env.get("HOME", ""), VARIABLE: as_text(env.get(VARIABLE, ""))}
    return Path(on_disk(base_folder(None if option is None else as_text(option), named, _home))).absolute()


def _home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise InputError(
            f"no folder for kernels: neither {OPTION} nor {VARIABLE} nor HOME is set",
            fix=f"set {OPTION} or {VARIABLE} to a folder",
        ) from None
