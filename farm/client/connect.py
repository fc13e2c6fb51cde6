"""The way in: ``farm.connect()`` finds the farm and checks it; ``Farm.job()`` becomes a member of a job."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from farm.client import identity
from farm.client.cache_dir import resolve_cache_dir
from farm.client.connection import Connection, open_connection
from farm.client.fetch import Fetcher
from farm.client.job import Job
from farm.client.shaping import Shaping
from farm.errors import InputError
from farm.index.index import Index
from farm.index.jobs import PRIORITIES
from farm.namespace import Namespace
from farm.policy.cores import parse as parse_cores
from farm.policy.debug_config import load as load_debug_config
from farm.policy.modes import Debug, decide
from farm.settings import Settings


class Farm:
    """A farm that was found in order. Threads may share it; a forked child may go on using it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def job(
        self, job_id: str | None = None, mode: str = "enable", *, cache: str | None = None,
        priority: str = "normal", owner: str | None = None, op_compiler_cache_dir: str | Path | None = None,
        op_debug_level: int = 0, op_debug_config: str | Path | None = None, aicore_num: str | None = None,
        jit_compile: str = "auto",
    ) -> Job:  # fmt: skip
        """Become a member of a job; without an id, the launcher's (Slurm, torchrun) or a random one.

        Args:
            op_debug_config: a file; ``aicore_num``: ``cube|vector``. All of Ascend's options: docs/ascend.md.

        Raises:
            InputError: a value is wrong, or the cache folder can not be written: the submitter mends it.
        """
        settings = self.connection.settings
        debug = Debug(op_debug_level, *(() if op_debug_config is None else load_debug_config(Path(op_debug_config))))
        shaping = Shaping(decide(mode, debug), None if aicore_num is None else parse_cores(aicore_num), jit_compile)
        if priority not in PRIORITIES:
            raise InputError(f"priority {priority!r} is not known", fix=f"use one of: {', '.join(PRIORITIES)}")
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
            shaping=shaping,
            delivery=partial(
                Fetcher, self.connection.store, resolve_cache_dir(option, os.environ), settings.min_idle_seconds
            ),
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
