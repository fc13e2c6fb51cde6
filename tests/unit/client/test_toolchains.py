"""Which of a toolchain's fingerprints a job uses: named, else the default, else live, highest, first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from farm.client.toolchains import Toolchains, named_offer, prepare
from farm.errors import FarmError, InputError
from farm.index.registry import Offer, in_order
from farm.namespace import Namespace
from tests.unit.request.sample import sample

OLD, NEW, OTHER_SOC = (
    Offer("cuda", letters * 16, version, socs)
    for letters, version, socs in (("aaaa", "1.0", ("sm_90",)), ("aabb", "2.0", ("sm_90",)), ("cccc", "3.0", ("x",)))
)


class FakeRegistry:
    """Offers in the order of preference; from the second reading on, ``later`` too."""

    def __init__(self, *offers: Offer, later: Offer | None = None) -> None:
        self.offers, self.later, self.readings = list(offers), later, 0

    def preferred(self) -> list[Offer]:
        self.readings += 1
        return self.offers + ([self.later] if self.later and self.readings > 1 else [])


class FakePart:
    """A job's part; the first candidate is the job's choice, unless another member was faster."""

    def __init__(self, chosen: str = "") -> None:
        self.namespace = Namespace("default", "sm_90")
        self.chosen = chosen
        self.who = SimpleNamespace(job="the-job")

    def choose(self, toolchain: str, fingerprint: str) -> str:
        self.chosen = self.chosen or fingerprint
        return self.chosen


def choose(registry: FakeRegistry, *requests: Any, part: Any = None) -> list[Offer]:
    toolchains = Toolchains(registry, lambda read: read())  # type: ignore[arg-type]
    toolchains.load(requests, 0, print)
    part = part or FakePart()
    return [toolchains.choose(part, request) for request in requests]


def test_unnamed_is_the_preferred_one_that_serves_the_soc() -> None:
    assert choose(FakeRegistry(OTHER_SOC, NEW, OLD), sample()) == [NEW]


def test_named_wins_over_preferred() -> None:
    assert choose(FakeRegistry(NEW, OLD), sample(fingerprint="aaaa")) == [OLD]
    assert choose(FakeRegistry(NEW, OLD), sample(fingerprint=OLD.fingerprint)) == [OLD]


def test_named_by_one_operator_is_named_for_the_job_whatever_the_order() -> None:
    assert choose(FakeRegistry(NEW, OLD), sample(), sample(fingerprint="aaaa"), sample()) == [OLD, OLD, OLD]


def test_a_member_that_names_nothing_follows_the_job() -> None:
    assert choose(FakeRegistry(NEW, OLD), sample(), part=FakePart(OLD.fingerprint)) == [OLD]


def test_another_members_choice_that_registered_later_is_found() -> None:
    registry = FakeRegistry(NEW, later=OLD)
    assert choose(registry, sample(), part=FakePart(OLD.fingerprint)) == [OLD]
    assert registry.readings == 2
    with pytest.raises(FarmError, match="which the registry does not know"):
        choose(FakeRegistry(NEW), sample(), part=FakePart(OLD.fingerprint))


@pytest.mark.parametrize(
    ("requests", "chosen", "told"),
    [
        ([sample(fingerprint="aa" * 2), sample(fingerprint="aabb")], "", "job the-job uses cuda@aaaaaaaaaaaa"),
        ([sample(fingerprint="aabb")], OLD.fingerprint, r"cuda@aabb: job the-job uses cuda@aaaaaaaaaaaa \(1.0\)"),
        ([sample(fingerprint="dddd")], "", r"no fingerprint begins as cuda@dddd \(there are: aabbaabbaabb \(2.0\), a"),
        # It is there, but not for this processor.
        ([sample(fingerprint="cccc")], "", "no fingerprint begins as cuda@cccc"),
        ([sample(toolchain="nix")], "", r"unknown toolchain 'nix' \(workers offer: cuda"),
        ([sample(soc="y")], "", r"does not compile for soc y \(it compiles for: sm_90, x"),
    ],
)
def test_what_can_not_be_is_told(requests: list[Any], chosen: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        choose(FakeRegistry(NEW, OLD, OTHER_SOC), *requests, part=FakePart(chosen))


def test_digits_that_fit_two_are_too_few() -> None:
    twin = Offer("cuda", "aaaa" * 15 + "0000", "1.1")
    with pytest.raises(InputError, match=r"2 fingerprints begin as cuda@aaaa: .*\(give more digits\)"):
        named_offer([OLD, twin], "aaaa")
    assert named_offer([OLD, twin], twin.fingerprint) == twin


def test_a_prepared_request_is_the_same_however_the_fingerprint_was_named() -> None:
    offer = Offer("cuda", "aaaa" * 16, "1.0", schema={"flags": ["strings", []], "defines": ["map", {}]})
    pair = [prepare(sample(fingerprint=digits, options={}), _with_schema(offer)) for digits in ("", "aaaa")]
    assert pair[0] == pair[1]


def _with_schema(offer: Offer) -> Offer:
    from dataclasses import replace

    from farm.request.options import OptionSpec, to_wire

    return replace(offer, schema=to_wire({"flags": OptionSpec("strings", ())}))


def test_order_of_preference() -> None:
    by_rank = [OTHER_SOC, NEW, OLD]
    assert in_order(by_rank, {OLD.queue, NEW.queue, OTHER_SOC.queue}, {}) == by_rank
    assert in_order(by_rank, {OLD.queue}, {}) == [OLD, OTHER_SOC, NEW]
    assert in_order(by_rank, {OLD.queue}, {"cuda": NEW.fingerprint}) == [NEW, OLD, OTHER_SOC]
    assert in_order(by_rank, set(), {"host": NEW.fingerprint}) == by_rank
