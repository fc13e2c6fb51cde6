"""Settings that would break a promise together are refused at start, whichever process reads them."""

from __future__ import annotations

import pytest

from farm.errors import InputError
from farm.settings import Settings

PAIRS = [
    ("HEARTBEAT_SECONDS", "JOB_LEASE_SECONDS", 10, {"FARM_SWEEP_GRACE_SECONDS": "600"}),
    ("HEARTBEAT_SECONDS", "SWEEP_GRACE_SECONDS", 20, {}),
    ("TICK_SECONDS", "LEADER_LEASE_SECONDS", 2, {}),
]


@pytest.mark.parametrize(("period", "lease", "seconds", "others"), PAIRS)
def test_a_period_fits_twice_into_its_lease(period: str, lease: str, seconds: int, others: dict[str, str]) -> None:
    fits = others | {f"FARM_{period}": str(seconds), f"FARM_{lease}": str(seconds * 2)}
    assert Settings.read(fits)
    with pytest.raises(InputError, match=f"FARM_{period} = {seconds + 0.1:g} must be at most half of FARM_{lease}"):
        Settings.read(fits | {f"FARM_{period}": str(seconds + 0.1)})


def test_the_defaults_contradict_nothing() -> None:
    assert Settings.read({}).renew_seconds * 4 == Settings.read({}).claim_lease_seconds
