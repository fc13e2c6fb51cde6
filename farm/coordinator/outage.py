"""A store that does not answer stops only what needs it: claims are still reaped, and the tick still counts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from farm.errors import FarmUnavailable

logger = logging.getLogger(__name__)


class Outage:
    """What can not be done now; each is told of once."""

    def __init__(self) -> None:
        self._failing: set[str] = set()

    @contextmanager
    def noticed(self, what: str) -> Iterator[None]:
        """Run a job whose store may be away; it is tried again in the next tick."""
        try:
            yield
        except FarmUnavailable as error:
            if what not in self._failing:
                logger.warning("can not %s: %s; trying again", what, error)
            self._failing.add(what)
        else:
            if what in self._failing:
                logger.info("could %s again", what)
            self._failing.discard(what)
