"""Which replies of a server are waited out, as redis-py's own parser makes exceptions of them."""

from __future__ import annotations

import pytest
from redis._parsers.base import BaseParser

from farm.index.passing import is_passing

PASSING = ["OOM command not allowed", "LOADING it is", "READONLY a replica", "MASTERDOWN link", "TRYAGAIN later",
           "CLUSTERDOWN hash slot", "MISCONF snapshots", "NOREPLICAS not enough", "NOSCRIPT no matching"]  # fmt: skip
FINAL = ["WRONGPASS no", "NOAUTH needed", "NOPERM no", "ERR unknown command", "WRONGTYPE operation"]


@pytest.mark.parametrize("reply", PASSING)
def test_a_state_that_passes_is_waited_out(reply: str) -> None:
    assert is_passing(BaseParser.parse_error(reply))


@pytest.mark.parametrize("reply", FINAL)
def test_a_refusal_or_a_fault_of_ours_is_not(reply: str) -> None:
    assert not is_passing(BaseParser.parse_error(reply))
