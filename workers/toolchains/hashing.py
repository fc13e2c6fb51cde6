"""Content hashes of compilers: of files, of folders, and of both together as a fingerprint."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file's content; a file that has not changed since is not read again.

    Raises:
        OSError: it can not be read.
    """
    found = path.stat()
    return _sha256(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@lru_cache(maxsize=256)
def _sha256(path: Path, *stat: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_sha256(folders: Sequence[Path]) -> str:
    """Hex sha256 of all files below the folders, by content and relative name; their order counts.

    Links to files count by what they lead to, links to folders by their text. What is no readable file counts
    by its name only.
    """
    total = hashlib.sha256()
    for number, folder in enumerate(folders):
        inside_another = any(folder != other and other in folder.parents for other in folders)
        total.update(f"{number} {folder if inside_another else 'top'}\n".encode())
        if not inside_another:
            _add_tree(total, folder)
    return total.hexdigest()


def _add_tree(total: hashlib._Hash, top: Path) -> None:
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in sorted([*files, *(name for name in folders if Path(folder, name).is_symlink())]):
            path = Path(folder, name)
            try:
                content = path.read_bytes() if path.is_file() else os.fsencode(path.readlink())
            except OSError:
                content = b""
            line = (os.fsencode(path.relative_to(top)), hashlib.sha256(content).digest())
            total.update(b"%d %s %s" % (len(line[0]), *line))


def fingerprint(parts: Mapping[str, object]) -> str:
    """64 hex digits over named parts: plain values, texts and lists."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
