"""The way in: ``farm.connect()`` finds the farm and checks it; ``Farm.job()`` becomes a member of a job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from farm.client import identity
from farm.client.cache_dir import resolve_cache_dir
from farm.client.connection import Connection, open_connection
from farm.client.job import Job
from farm.errors import InputError
from farm.index.index import Index
from farm.index.jobs import PRIORITIES
from farm.namespace import Namespace
from farm.settings import Settings

MODES = ("enable", "force")


class Farm:
    """A farm that was found in order. Threads may share it; a forked child may go on using it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def job(
        self, job_id: str | None = None, mode: str = "enable", *, cache: str | None = None,
        priority: str = "normal", owner: str | None = None, op_compiler_cache_dir: str | Path | None = None,
    ) -> Job:  # fmt: skip
        """Become a member of a job; without an id, the launcher's (Slurm, torchrun) or a random one.

        Raises:
            InputError: a value is wrong, or the cache folder can not be written: the submitter mends it.
        """
        settings = self.connection.settings
        for name, value, valid in (("mode", mode, MODES), ("priority", priority, tuple(PRIORITIES))):
            if value not in valid:
                raise InputError(f"{name} {value!r} is not known", fix=f"use one of: {', '.join(valid)}")
        if job_id is not None and not isinstance(job_id, str):
            raise InputError(f"job id {job_id!r} is not text", fix="give a string")
        option = None if op_compiler_cache_dir is None else str(op_compiler_cache_dir)
        return Job(
            self.connection,
            identity.job_id(job_id or settings.job_id),
            mode=mode,
            cache=cache or settings.cache,
            priority=priority,
            owner=identity.owner_labels(owner or settings.owner),
            root=resolve_cache_dir(option, os.environ),
        )

    def namespaces(self) -> list[Namespace]:
        """All namespaces that were ever opened, in order."""
        return self.connection.namespaces()

    def index(self, namespace: Namespace) -> Index:
        """The index of one namespace."""
        return Index(self.connection.server, namespace)


def connect(url: str | None = None, **settings: Any) -> Farm:
    """Connect to the farm of the settings, or to the embedded one that is up.

    Args:
        url: of the index; wins over FARM_INDEX_URL. Other settings are given by their name in lower case.

    Raises:
        FarmUnavailable: within 5 s, naming address, cause and fix.
        FarmRefused: it must not be used as it is set up; the operator mends it.
        InputError: a setting is wrong.
    """
    return Farm(open_connection(Settings.read(None, index_url=url, **settings)))
