"""One small entry, and ways to look at what became of it on a disk."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from farm.store.bundle import Bundle, BundleFile

KEY = hashlib.sha256(b"key").digest()
#: Digests that two bundles of the key could have; the folder takes them as given.
SHA = hashlib.sha256(b"the bundle's bytes").digest()
OTHER_SHA = hashlib.sha256(b"other bytes").digest()


def bundle(stamp: bytes = b"1", key: bytes = KEY) -> Bundle:
    """Three files: one in a folder with a Han name, one that can be run."""
    files = (
        BundleFile("kernel.o", 0o444, b"object " + stamp),
        BundleFile("ir/深/stage.mlir", 0o444, b"ir " + stamp),
        BundleFile("run", 0o555, b"#!/bin/sh\n"),
    )
    return Bundle(key, files, b"", {})


def bytes_of(stamp: bytes = b"1") -> dict[str, bytes]:
    """What ``content`` of the unpacked bundle is."""
    return {file.name: file.data for file in bundle(stamp).files}


def content(files: Mapping[str, Path] | None) -> dict[str, bytes] | None:
    """The bytes of an entry's files, read from the disk."""
    return None if files is None else {name: path.read_bytes() for name, path in files.items()}


def names_in(folder: Path) -> list[str]:
    """Everything that lies in a folder."""
    return sorted(item.name for item in folder.iterdir())


def make_writable(path: Path) -> Path:
    """Files of an entry are read-only; a test that damages one does this first."""
    path.chmod(0o644)
    return path
