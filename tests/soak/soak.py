"""Ten minutes of force jobs, and of leaders that are killed or paused at random, beside a job that must not notice.

python -m tests.soak.soak [SEED] [SECONDS]      a round that fails prints its own seed, which brings it back
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import farm
from farm.failpoint import VARIABLE
from tests.fault.test_force import Reader, answers, force
from tests.fault.test_leaders import POINTS, REBUILD_POINTS, state
from tests.support.kit import Kit, op, running, until
from tests.support.led import SHORT, assert_clean, entry_paths, objects, put_entries, start_coordinator

ENTRIES, PROCESSES, ROUNDS = 200, 10, 3


class Leaders:
    """Some coordinators, of which one at least is well at any time."""

    def __init__(self, kit: Kit, chance: random.Random) -> None:
        self._kit = kit
        self._chance = chance
        self._ill: set[int] = set()
        self._paused: dict[int, float] = {}
        self.lost = 0
        self._well = self._start()

    def _start(self, **environment: str) -> int:
        return start_coordinator(self._kit, **environment).pid

    def disturb(self) -> None:
        """Start some that will be lost, end the well one so that they lead, let one that was paused go on."""
        if len(self._ill) < 3:
            point, how = self._chance.choice(POINTS + REBUILD_POINTS), self._chance.choice(["kill", "stop"])
            self._ill.add(self._start(**{VARIABLE: f"{point}:{how}"}))
        elif self._chance.random() < 0.02:
            os.kill(self._well, signal.SIGKILL)
            self._well = self._start()
            self.lost += 1
        for pid in [pid for pid in self._ill if state(pid) in "TXZ"]:
            self._ill.remove(pid)
            self.lost += 1
            if state(pid) == "T":
                self._paused[pid] = time.monotonic() + self._chance.uniform(0.2, 4)
        for pid in [pid for pid, until_time in self._paused.items() if time.monotonic() > until_time]:
            del self._paused[pid]
            os.kill(pid, signal.SIGCONT)
            if self._chance.random() < 0.5:
                time.sleep(0.1)
                os.kill(pid, signal.SIGKILL)

    def rest(self) -> None:
        """The ill ones end; the well one stays."""
        for pid in [*self._ill, *self._paused]:
            if state(pid) not in "XZ":
                os.kill(pid, signal.SIGKILL)


def one_round(seed: int, folder: Path) -> str:
    """A farm of its own; what it did, or an AssertionError."""
    chance = random.Random(seed)
    with running(folder, **SHORT) as kit:
        requests = farm.load(str(kit.manifest(*[op(kit, f"op{n}") for n in range(ENTRIES)], name="all.json")))
        put_entries(kit, requests)
        leaders, reader = Leaders(kit, chance), Reader(kit, requests)
        try:
            manifest = kit.manifest(*[op(kit, f"op{n}") for n in range(3)])
            forcing = force(kit, manifest, folder / "f", PROCESSES, ROUNDS)
            until(lambda: (leaders.disturb(), forcing.poll() is not None)[1], 180, "all force jobs are done")
            assert forcing.returncode == 0, kit.logs()
            old = {path for path in entry_paths(kit.index()) if path.split("/")[2] == "1"}
        finally:
            leaders.rest()
            reader.close()
        assert reader.errors == []
        assert len(old) == ENTRIES
        rows = [row for rows in answers(folder / "f") for row in rows]
        assert all(min(row["tokens"]) >= row["asked_ms"] * 1000 for row in rows), json.dumps(rows)
        until(lambda: not objects(kit) & old, 30, "the old generations are gone")
        assert_clean(kit)
        return f"{leaders.lost} leaders lost, generation {kit.index().generation()}, {len(rows)} force jobs"


def main(seed: str = "", seconds: str = "600") -> None:
    """Rounds until the time is over."""
    first = int(seed or time.time())
    end, number = time.monotonic() + float(seconds), 0
    print(f"soak: seed {first}", flush=True)  # noqa: T201
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="soak") as folder:
            try:
                done = one_round(first + number, Path(folder))
            except BaseException:
                print(f"soak: failed with seed {first + number}", flush=True)  # noqa: T201
                raise
        print(f"soak: seed {first + number}: {done}", flush=True)  # noqa: T201
        number += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
