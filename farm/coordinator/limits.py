"""The limits of each cache: its op_cache.ini in the store, else the environment of the coordinator; read every tick."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from farm.coordinator.outage import Outage
from farm.index.inforce import write_faults
from farm.policy.inifile import GENERATED, NAME, IniFile, parse, unusable
from farm.policy.limits import Limits, decide, from_environment
from farm.policy.textfile import MAX_BYTES
from farm.store.errors import StoreDamaged
from farm.store.store import Store

logger = logging.getLogger(__name__)


class CacheLimits:
    """What limits each cache now.

    A file that can not be read for a while counts as it was read last. A change counts when two reads on end see it:
    an editor may empty the file before it writes it anew.
    """

    def __init__(self, server: Any, store: Store, environ: Mapping[str, str], outage: Outage) -> None:
        self._server = server
        self._store = store
        self._outage = outage
        self._environment, warnings = from_environment(environ)
        self._files: dict[str, IniFile] = {}
        self._seen: dict[str, IniFile] = {}
        for warning in warnings:
            logger.warning("%s", warning)

    def of(self, cache: str) -> Limits:
        """The limits in force, by Ascend's precedence: op_cache.ini, environment, default."""
        return decide(self._files.get(cache), self._environment)

    def read(self, caches: Iterable[str]) -> None:
        """Read the file of each cache, and write one that sets nothing where there is none; tells each fault once."""
        for cache in sorted(caches):
            with self._outage.noticed(f"read {cache}/{NAME}"):
                seen, self._seen[cache] = self._seen.get(cache), self._read(f"{cache}/{NAME}")
                if seen in (None, self._seen[cache]):
                    self._apply(cache, self._seen[cache])

    def _apply(self, cache: str, found: IniFile) -> None:
        before, old = self._files.get(cache), self.of(cache)
        self._files[cache] = found
        for fault in found.faults:
            if before is None or fault not in before.faults:
                logger.warning("%s", fault)
        if before is None or found.faults != before.faults:
            write_faults(self._server, cache, [str(fault) for fault in found.faults])
        if old != self.of(cache):
            logger.info("limits of cache %s are now %s", cache, self.of(cache))

    def _read(self, path: str) -> IniFile:
        where = f"{self._store.url}/{path}"
        try:
            return parse(self._store.settings_file(path, GENERATED.encode(), MAX_BYTES), where)
        except StoreDamaged as error:
            return unusable(where, f"{error.message}; it sets nothing: {error.fix or 'keep only the settings in it'}")
