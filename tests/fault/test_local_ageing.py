"""A node's kernel folder under many real processes: what is in use stays, and a killed one leaves no half entry."""

from __future__ import annotations

import os
import random
import select
import signal
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from farm.client import folder as folder_module
from farm.client import localcache
from farm.client.folder import KernelFolder
from farm.client.inuse import InUse
from farm.client.localageing import age
from farm.failpoint import VARIABLE
from farm.policy.limits import Limits
from tests.support.entries import SHA, bundle, bytes_of, content, names_in

SOC = "sm_90"
KEYS = [bytes([n]) * 32 for n in range(100)]
SIZE = sum(map(len, bytes_of().values()))
CROWD = 20
ROUNDS = 50
#: So much has to happen before users may end: all went once, and some again; others fetched again.
ENOUGH = Counter({b"a": len(KEYS) + 1, b"f": len(KEYS) // 2})

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


def limits(entries: float, ratio: int = 50) -> Callable[[], Limits]:
    return lambda: Limits(round(entries * SIZE), ratio, "environment", True)


def fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def full(root: Path) -> Path:
    folder = KernelFolder(root, SOC)
    for key in KEYS:
        folder.unpack(bundle(key=key), SHA)
    return folder.path


def use(root: Path, seed: int, log: int, go_on: int) -> None:
    """As a job does it: say it, look, fetch what is not there, read it again and again, and give it up."""
    chance, folder = random.Random(seed), KernelFolder(root, SOC)
    rounds = 0
    while (rounds := rounds + 1) <= ROUNDS or not select.select([go_on], [], [], 0)[0]:
        mine, in_use = chance.sample(KEYS, 2), InUse()
        in_use.add(folder.path, mine)
        for key in mine:
            if folder.present(key, SHA) is None:
                folder.unpack(bundle(key=key), SHA)
                os.write(log, b"f")
        for _ in range(2):
            for key in mine:
                assert content(folder.present(key, SHA)) == bytes_of(), f"{key.hex()} vanished in use"
        in_use.mark()
        in_use.close()


def keep_ageing(folder: Path, log: int, users: int) -> None:
    """Down to a tenth, whatever was used a moment ago, until all users have gone."""
    while not select.select([users], [], [], 0.05)[0]:
        os.write(log, b"a" * age(folder, limits(10, 10), 0).entries)


def test_twenty_processes_age_what_twenty_others_use(tmp_path: Path) -> None:
    folder = full(tmp_path / "kernel_cache")
    (log, to_log), (ended, at_end), (go_on, enough) = os.pipe(), os.pipe(), os.pipe()
    users = [fork(partial(use, folder.parent, seed, to_log, go_on)) for seed in range(CROWD)]
    os.close(at_end)  # from now on only the users have it
    agers = [fork(partial(keep_ageing, folder, to_log, ended)) for _ in range(CROWD)]
    os.close(to_log)
    happened: Counter[bytes] = Counter()
    is_enough = False
    while some := os.read(log, 1 << 16):
        happened.update(some[at : at + 1] for at in range(len(some)))
        if not is_enough and happened >= ENOUGH:
            is_enough = bool(os.write(enough, b"."))
    for pipe in (log, ended, go_on, enough):
        os.close(pipe)
    assert [code_of(child) for child in users + agers] == [0] * 2 * CROWD
    assert is_enough, "they did remove, some again, and others did fetch again"
    assert not [name for name in names_in(folder) if name.endswith(".tmp")]
    left = len(localcache.entries(folder.parent, SOC))
    assert age(folder, limits(0.5), 0).entries == left
    assert localcache.entries(folder.parent, SOC) == []


@pytest.mark.parametrize("killed_at", ["removal.put_aside", "removal.deleted_one"])
def test_a_killed_ager_leaves_no_half_entry_and_the_next_process_sweeps(tmp_path: Path, killed_at: str) -> None:
    folder = full(tmp_path / "kernel_cache")

    def age_and_die() -> None:
        os.environ[VARIABLE] = f"{killed_at}:kill"
        age(folder, limits(len(KEYS)), 0)

    assert code_of(fork(age_and_die)) == -signal.SIGKILL
    there = [key for key in KEYS if (folder / key.hex()).exists()]
    assert there == KEYS[len(KEYS) // 2 :]
    assert any(name.endswith(".tmp") for name in names_in(folder))

    def next_process() -> None:
        folder_module._tidy_once.cache_clear()  # what a process begins with
        again = KernelFolder(folder.parent, SOC)
        assert all(content(again.present(key, SHA)) == bytes_of() for key in there)
        assert not [name for name in names_in(folder) if name.endswith(".tmp")]
        assert age(folder, limits(len(KEYS)), 0).entries == 0, "what was put aside counts no more"
        assert age(folder, limits(len(there)), 0).entries == len(there) // 2, "and the lock is free again"

    assert code_of(fork(next_process)) == 0
