"""This node: the folder into which kernels go."""

from __future__ import annotations

from pathlib import Path

from farm.client import nodelock
from farm.client.cache_dir import resolve_cache_dir
from farm.client.localnames import as_text
from farm.commands.doctor.store import room
from farm.commands.doctor.subject import Finding, Subject
from farm.store.disk import mount_point


def _folder(subject: Subject) -> Path:
    return resolve_cache_dir(subject.cache_dir, subject.environ)


def cache_folder(subject: Subject) -> Finding:
    """Whether kernels can be written there, and there is room for them."""
    folder = _folder(subject)
    nodelock.work_in(folder)  # makes and removes a file
    found = room(folder)
    return Finding(found.ok, f"{as_text(folder)} can be written; {found.detail}", found.fix)


def file_locks(subject: Subject) -> Finding:
    """Whether the processes of this node can keep each other out."""
    folder = _folder(subject)
    disk = as_text(mount_point(folder))
    if nodelock.work_in(folder):
        return Finding(True, f"file locks work on {disk}")
    return Finding(
        False,
        f"file locks do not work on {disk}: a node may fetch a bundle twice, no kernel is aged, local clean refuses",
        "mount it with locks, or keep kernels on a local disk with --op-compiler-cache-dir or ASCEND_CACHE_PATH",
    )
