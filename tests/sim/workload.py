"""What a seed makes of a farm and its jobs: every size is drawn anew, so that odd mixtures come up."""

from __future__ import annotations

import random
from dataclasses import dataclass

from farm.request.model import Request
from farm.settings import Settings
from tests.sim.actors import Plan
from tests.sim.compiler import SimToolchain, operator

#: When which member begins (ms), and what it is to do.
Plans = list[tuple[int, Plan]]


@dataclass(frozen=True)
class Size:
    """How much of everything there is at most."""

    jobs: int
    members: int
    operators: int
    span_ms: int


#: Mostly small ones: they find as much, and there are more of them in an hour.
SMALL, MEDIUM, LARGE = Size(20, 4, 12, 120_000), Size(80, 8, 16, 240_000), Size(400, 24, 24, 480_000)


@dataclass(frozen=True)
class Swarm:
    """The farm of one run."""

    settings: Settings
    environ: dict[str, str]
    caches: tuple[str, ...]
    socs: tuple[str, ...]
    toolchains: tuple[SimToolchain, ...]
    workers: int
    slots: int
    coordinators: int
    crash_rate: float
    kernel_bytes: int
    #: Share of the time that the workers have in which they compile, if nothing fails.
    load: float
    inline_limit_bytes: int
    span_ms: int


def draw(dice: random.Random) -> tuple[Swarm, Plans]:
    """The farm and the jobs of a seed."""
    size = dice.choices([SMALL, MEDIUM, LARGE], [10, 9, 1])[0]
    farm = swarm(dice, size)
    return farm, plans(dice, farm, size)


def swarm(dice: random.Random, size: Size) -> Swarm:
    """A farm: tiny limits and short memories in some, long ones in others."""
    claim_lease = dice.choice([8, 20, 20])
    settings = Settings(
        job_lease_seconds=dice.choice([60, 120]), heartbeat_seconds=20,
        claim_lease_seconds=claim_lease, leader_lease_seconds=6, tick_seconds=dice.choice([2, 3]),
        sweep_grace_seconds=dice.choice([40, 60]), min_idle_seconds=dice.choice([0, 5, 60, 300]),
        failure_ttl_seconds=dice.choice([20, 600]), reconnect_seconds=60, force_timeout_seconds=120,
        max_total_size_mb=dice.choice([None, None, 1]),
    )  # fmt: skip
    return Swarm(
        settings=settings,
        environ={"ASCEND_MAX_OP_CACHE_SIZE": dice.choice(["1", "1", "2", "500", "-1"]),
                 "ASCEND_REMAIN_CACHE_SIZE_RATIO": dice.choice(["1", "50", "90"])},
        caches=("default", "models")[: dice.choice([1, 1, 2])],
        socs=("soc1", "soc2")[: dice.choice([1, 1, 2])],
        toolchains=tuple(SimToolchain(name, "1.0") for name in ("alpha", "beta")[: dice.choice([1, 2])]),
        workers=dice.randint(2, 12), slots=dice.randint(2, 4), coordinators=dice.randint(1, 3),
        crash_rate=dice.choice([0, 0, 0.02, 0.1]), kernel_bytes=dice.choice([100, 2_000, 40_000]),
        load=dice.choice([0.05, 0.3, 0.8]),
        inline_limit_bytes=dice.choice([64 * 1024, 64 * 1024, 16]),
        span_ms=dice.randint(size.span_ms // 3, size.span_ms),
    )  # fmt: skip


def plans(dice: random.Random, farm: Swarm, size: Size) -> Plans:
    """When which member begins, and what it is to do."""
    hot = [_operator(dice, farm, number) for number in range(dice.choice([5, 30, 100]))]
    cold_share, force_share, disable_share = (dice.choice(shares) for shares in _SHARES)
    storm_ms = dice.randrange(farm.span_ms) if dice.random() < 0.3 else None
    found: Plans = []
    number = len(hot)
    for job in range(dice.randint(size.jobs // 8, size.jobs)):
        mode = dice.choices(["force", "disable", "enable"], [force_share, disable_share, 1])[0]
        begin_ms = dice.randrange(farm.span_ms)
        if storm_ms is not None and dice.random() < 0.2:
            mode, begin_ms = "force", storm_ms + dice.randrange(2_000)
        asked: list[Request] = []
        for _ in range(dice.randint(1, dice.choice([3, size.operators]))):
            if dice.random() < cold_share:
                asked.append(_operator(dice, farm, number))
                number += 1
            else:
                asked.append(dice.choice(hot))
        cache, id = dice.choice(farm.caches), f"job{job}" if dice.random() < 0.9 else f"job{dice.randrange(5)}"
        priority = dice.choice(["urgent", "normal", "normal", "bulk"])
        for _ in range(dice.choice([1, 1, 2, 4, dice.randint(1, size.members)])):
            plan = _member(dice, Plan(id, mode, cache, priority, asked, [], 0, None, True))
            found.append((begin_ms + dice.randrange(dice.choice([1, 1000, 30_000])), plan))
    return found


#: Of jobs with operators of their own, of force jobs, of disable jobs: by seed.
_SHARES = ([0.1, 0.5, 0.9], [0, 0.1, 0.5], [0, 0.1, 0.3])


def usual_compile_ms(farm: Swarm, found: Plans) -> float:
    """How long a compile takes, so that the workers have as much to do as the farm's load says."""
    operators = {request.name for _, plan in found for request in plan.requests}
    return min(20_000, farm.load * farm.workers * farm.slots * farm.span_ms / len(operators) / 1.65)


def _operator(dice: random.Random, farm: Swarm, number: int) -> Request:
    fate = "rejected" if dice.random() < 0.03 else "ok"
    toolchain = dice.choice(farm.toolchains).name
    return operator(number, dice.choice(farm.socs), toolchain, fate, dice.choice([20, 200]))


def _member(dice: random.Random, job: Plan) -> Plan:
    """One member's part of a job: all of it, or some of it in an order of its own."""
    requests = list(job.requests) if dice.random() < 0.6 else dice.sample(job.requests, k=len(job.requests) // 2 + 1)
    requests = list({request.name: request for request in requests}.values())
    again = requests[: dice.randint(0, len(requests))] if dice.random() < 0.4 else []
    return Plan(
        job.job, job.mode, job.cache, job.priority, requests, again, dice.choice([0, 1_000, 20_000, 120_000]),
        dice.choice([None, None, None, 30]), dice.random() < 0.9,
        {request.name: str(request.attrs["fate"]) for request in requests},
    )  # fmt: skip
