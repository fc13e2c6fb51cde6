"""How many cores each processor type has: from CANN's own files where it is installed, else from a built-in table."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from farm.policy.cores import BUILT_IN, CoreCounts, from_platform_config

logger = logging.getLogger(__name__)

VARIABLE = "ASCEND_HOME_PATH"
#: CANN has one such folder for each architecture of the host; all say the same.
_FILES = "*/data/platform_config/*.ini"


def known_core_counts(environ: Mapping[str, str]) -> dict[str, CoreCounts]:
    """By processor type; what the installation says wins over the table. Read once, when the worker starts."""
    found: dict[str, CoreCounts] = {}
    if home := environ.get(VARIABLE, "").strip():
        for path in sorted(Path(home).glob(_FILES)):
            try:
                counts = from_platform_config(path.read_bytes())
            except OSError as error:
                logger.warning(
                    "core counts of %s are not known: %s can not be read: %s", path.stem, path, error.strerror
                )
                continue
            if counts:
                found[path.stem] = counts
    return {**BUILT_IN, **found}


def served(known: Mapping[str, CoreCounts], socs: Collection[str]) -> dict[str, tuple[int, int]]:
    """Those that a toolchain compiles for, as the registry has them; a toolchain without ``socs`` takes any."""
    return {soc: (counts.cube, counts.vector) for soc, counts in known.items() if not socs or soc in socs}
