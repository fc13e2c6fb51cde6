"""What stands for a program in a key: its bytes and, for one in a Python venv, which venv that is."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from farm.request.canonical import canonical_bytes
from farm.request.files import is_present, read_file

_VENV_FILE = "pyvenv.cfg"
#: It has a dozen short lines.
_MAX_VENV_FILE_BYTES = 2**20


def executable_digest(path: Path, content: bytes) -> bytes:
    """The digest of the program at ``path``, whose own bytes have the sha256 ``content``.

    The interpreters of two venvs have the same bytes, yet other packages. So a venv's configuration and place
    count too; a program in no venv is its bytes alone, wherever it lies.

    Raises:
        FieldError: the venv's configuration can not be read; ``field`` is for the caller to add.
    """
    # Where Python looks, in its order, and without following the program's own links.
    for folder in (path.parent, path.parent.parent):
        file = folder / _VENV_FILE
        if is_present(file):
            config = hashlib.sha256(read_file(file, "", _MAX_VENV_FILE_BYTES)).digest()
            place = os.fsencode(os.path.realpath(folder))
            return hashlib.sha256(b"venv\0" + canonical_bytes([content, config, place])).digest()
    return content
