"""The store: the farm's own, usable, and with room."""

from __future__ import annotations

import os
from pathlib import Path

from farm.client.connection import check_identities
from farm.client.localnames import as_text
from farm.commands.doctor.subject import Finding, Subject
from farm.index import identity
from farm.store.disk import mount_point
from farm.store.objects import folder_of

_FREE_BYTES_MIN = 1 << 30
_FREE_PART_MIN = 0.01


def identities(subject: Subject) -> Finding:
    """Whether index and store belong to one farm that this version can read."""
    of_index = identity.read(subject.server)
    of_store = subject.store.read_identity()
    check_identities(of_store, of_index, subject.addresses)
    if of_store is None:
        return Finding(True, "a new farm: index and store are empty")
    return Finding(True, f"farm {of_store.farm_id}, schema version {of_store.schema}")


def usable(subject: Subject) -> Finding:
    """Whether this process can write, replace, read back and delete."""
    subject.store.self_test()
    return Finding(True, f"{subject.store.url}: written, replaced, read back, deleted")


def space(subject: Subject) -> Finding:
    """Whether there is room for more bundles."""
    url = subject.store.url
    folder = folder_of(url)
    if folder is None:
        return Finding(True, f"{url}: a bucket does not say how much room it has")
    return room(folder)


def room(folder: Path) -> Finding:
    """Whether a folder's disk has room for more kernels."""
    disk = mount_point(folder)
    left = os.statvfs(disk)
    free, whole = left.f_bavail * left.f_frsize, left.f_blocks * left.f_frsize
    detail = f"{free / 2**30:.1f} of {whole / 2**30:.1f} GB free on disk {as_text(disk)}"
    enough = free >= min(_FREE_BYTES_MIN, whole / 2)
    if left.f_files:
        detail += f", {left.f_favail} inodes"
        enough = enough and left.f_favail >= left.f_files * _FREE_PART_MIN
    return Finding(enough, detail, f"free space on {as_text(disk)}")
