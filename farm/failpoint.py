"""Named points at which a test ends or stops this process: ``FARM_FAILPOINT=name:kill`` (or ``name:stop``).

Unset, as always outside tests, a point costs one look-up.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "FARM_FAILPOINT"
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def reach(name: str) -> None:
    """Die or stop here, once, if this point is the one that is named."""
    wanted = os.environ.get(VARIABLE)
    if wanted and wanted.partition(":")[0] == name:
        del os.environ[VARIABLE]
        os.kill(os.getpid(), _SIGNALS[wanted.partition(":")[2]])
