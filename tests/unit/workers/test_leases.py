from __future__ import annotations

import threading
from typing import Literal

import pytest
from redis.exceptions import ConnectionError as LostConnection

from farm.index.record import ClaimRef
from workers.leases import Leases

Renewal = Literal["kept", "lost", "unwanted"]


class FakeIndex:
    """Answers renewals as told, and notes what was asked."""

    def __init__(self) -> None:
        self.answers: dict[ClaimRef, Renewal] = {}
        self.asked: list[tuple[list[ClaimRef], int]] = []
        self.broken = 0
        self.renewed = threading.Event()

    def renew(self, claims: list[ClaimRef], lease_ms: int) -> list[Renewal]:
        self.asked.append((claims, lease_ms))
        self.renewed.set()
        if self.broken:
            self.broken -= 1
            raise LostConnection("no server")
        return [self.answers.get(claim, "kept") for claim in claims]


def claim(number: int) -> ClaimRef:
    return ClaimRef(1, bytes([number]) * 32, number)


@pytest.fixture
def leases() -> Leases:
    return Leases(lease_seconds=20, every_seconds=5)


def test_all_claims_of_an_index_are_renewed_in_one_call(leases: Leases) -> None:
    one, two = FakeIndex(), FakeIndex()
    with leases.hold(one, claim(1)), leases.hold(two, claim(2)), leases.hold(one, claim(3)):
        leases.renew()
    assert one.asked == [([claim(1), claim(3)], 20_000)]
    assert two.asked == [([claim(2)], 20_000)]
    leases.renew()
    assert len(one.asked) == 1, "nothing is renewed that is not held"


def test_only_the_compile_whose_claim_is_gone_is_stopped(leases: Leases) -> None:
    index = FakeIndex()
    index.answers = {claim(2): "lost", claim(3): "unwanted"}
    with leases.hold(index, claim(1)) as kept, leases.hold(index, claim(2)) as lost, leases.hold(index, claim(3)) as un:
        leases.renew()
        assert (kept.reason, lost.reason, un.reason) == (None, "lost", "unwanted")
        leases.stop_all()
        assert (kept.reason, lost.reason) == ("shutdown", "lost")


def test_it_is_said_once_and_not_of_what_was_published_meanwhile(
    leases: Leases, caplog: pytest.LogCaptureFixture
) -> None:
    index = FakeIndex()
    index.answers = {claim(1): "lost", claim(2): "lost"}
    with leases.hold(index, claim(1)):
        leases.renew()
        leases.renew()
    published = leases.hold(index, claim(2))
    published.__enter__()
    at_once = index.renew

    def later(claims: list[ClaimRef], lease_ms: int) -> list[Renewal]:
        published.__exit__(None, None, None)
        return at_once(claims, lease_ms)

    index.renew = later  # type: ignore[method-assign]
    leases.renew()
    assert [record.getMessage() for record in caplog.records] == [
        f"stopping the compile of {claim(1).key.hex()[:12]}: its claim is lost"
    ]


def test_a_claim_is_let_go_when_its_compile_fails(leases: Leases) -> None:
    index = FakeIndex()
    with pytest.raises(RuntimeError), leases.hold(index, claim(1)):
        raise RuntimeError
    leases.renew()
    assert index.asked == []


def test_an_index_that_does_not_answer_stops_no_compile() -> None:
    index, leases = FakeIndex(), Leases(lease_seconds=20, every_seconds=0.001)
    index.broken = 3
    with leases.hold(index, claim(1)) as stop:
        leases.start()
        while len(index.asked) < 6:
            assert index.renewed.wait(5)
            index.renewed.clear()
        assert stop.reason is None
    leases.close()
