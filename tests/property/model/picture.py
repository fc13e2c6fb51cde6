"""What the model's index looks like, in the form in which the real one is read."""

from __future__ import annotations

from collections import Counter

from farm.index.invariants import CLASS_WIDTH
from farm.index.snapshot import Claim, Job, Snapshot
from farm.namespace import PRIVATE_GENERATION
from tests.property.model.state import Held
from tests.property.model.upkeep import Model


def picture(model: Model) -> Snapshot:
    """The model as a snapshot, with all that the scripts count and list counted and listed anew."""
    interests = [(g, key) for maps in (model.maps, model.graves) for held in maps.values() for key, g in _wanted(held)]
    private = [record.stored_bytes for ref, record in model.entries.items() if ref[0] == PRIVATE_GENERATION]
    told = {b"%d:%s:%d" % (*ref, token) for ref, token, _ in model.told}
    return Snapshot(
        namespace=model.namespace,
        generation=model.generation,
        generations={g for g, _ in model.entries},
        stored_bytes=model.stored_bytes,
        private_bytes=sum(private),
        last_token=model.last_token,
        entries=model.entries,
        interest=dict(Counter(interests)),
        idle=model.idle,
        claims={
            ref: Claim("running" if c.token else "queued", c.token, c.queue, c.priority, c.sources or None)
            for ref, c in model.claims.items()
        },
        sources=dict(Counter(c.sources for c in model.claims.values() if c.sources)),
        running={ref: c.deadline_ms for ref, c in model.claims.items() if c.token},
        queues={
            queue: {
                ref: model.claims[ref].priority * CLASS_WIDTH + model.claims[ref].turn for ref in model.in_line(queue)
            }
            for queue in {c.queue for c in model.claims.values() if not c.token}
        },
        waiters={ref: c.waiting for ref, c in model.claims.items() if c.waiting},
        failures=set(model.failures),
        dropped=model.dropped,
        tombs=set(model.tombs),
        deleting=set(model.deleting),
        jobs={name: Job(f"{name}@{job.incarnation}", job.floor, job.members) for name, job in model.jobs.items()},
        deadlines={name: job.lapses_ms for name, job in model.jobs.items()},
        maps={run: _map(held) for run, held in model.maps.items()},
        graves={run: _map(held) for run, held in model.graves.items()},
        buried={run for _, run in model.burials},
        untold=(told, told),
        asked={name for name, (answer, _) in model.asked.items() if answer is None},
        requests={row.name for row in model.purges},
        streams=set(model.notices),
        ended=set(model.ended),
    )


def _wanted(held: dict[bytes, Held]) -> list[tuple[bytes, int]]:
    return [(key, row.generation) for key, row in held.items() if row.failure is None]


def _map(held: dict[bytes, Held]) -> dict[bytes, tuple[int, str]]:
    return {key: (row.generation, "f" if row.failure else "i") for key, row in held.items()}
