"""Ascend's modes and debug options on a real farm: what is shared, what is private, what is purged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.index.stats import read_stats
from farm.namespace import PRIVATE_GENERATION
from tests.support.kit import Kit, op, running, until
from tests.support.led import SHORT, start_leader

OPS = ("one", "two")


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    with running(tmp_path_factory.mktemp("modes"), **SHORT) as kit:
        start_leader(kit)
        yield kit


class Submission:
    """What one submission said, and what its compilers were told."""

    def __init__(self, kit: Kit, *options: str, code: int = 0) -> None:
        before = kit.compiles()
        done = kit.submit(kit.manifest(*(told_op(kit, name) for name in OPS)), *options)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        self.document: dict[str, Any] = json.loads(done.stdout)
        self.stderr = done.stderr
        self.compiles = kit.compiles() - before

    @property
    def outcomes(self) -> list[str]:
        return [row["outcome"] for row in self.document["ops"]]

    @property
    def keys(self) -> list[str]:
        return [row["key"] for row in self.document["ops"]]

    @property
    def mode(self) -> tuple[str, str]:
        return self.document["mode"], self.document["effective_mode"]


def told_op(kit: Kit, name: str) -> dict[str, Any]:
    """An operator of a type of its own; what its compiler is told shapes the command line alone."""
    row = op(kit, name)
    row["type"] = name.capitalize()
    row["options"]["argv"] += ["level{op_debug_level}", "values={op_debug_config}", "cores={aicore_num}"]
    return row


def generation(kit: Kit) -> int:
    return read_stats(kit.index()).generation


def test_disable_shares_nothing_and_asks_nobody(kit: Kit) -> None:
    shared = Submission(kit)
    first, second = Submission(kit, "--mode", "disable"), Submission(kit, "--mode", "disable")
    assert first.outcomes == second.outcomes == ["compiled", "compiled"]
    assert first.compiles == second.compiles == 2
    assert not {*shared.keys} & {*first.keys} and not {*first.keys} & {*second.keys}
    assert first.mode == ("disable", "disable")
    assert Submission(kit).outcomes == ["hit", "hit"]


def test_members_of_a_live_job_share_its_private_kernels_and_they_go_with_it(kit: Kit) -> None:
    job = ("--mode", "disable", "--job-id", "private")
    assert Submission(kit, *job, "--no-wait").document["state"] == "submitted"  # lives on for its lease
    again = Submission(kit, *job)
    assert {*again.outcomes} <= {"hit", "joined"}
    assert read_stats(kit.index()).private_entries == 2
    folder = kit.store / "default" / "test-soc" / str(PRIVATE_GENERATION)
    until(lambda: read_stats(kit.index()).private_entries == 0, what="the job lapses")
    until(lambda: not any(folder.iterdir()), what="what it had for itself is swept")


@pytest.mark.parametrize("mode", ["enable", "force"])
def test_a_debug_level_compiles_all_for_this_job_and_purges_nothing(kit: Kit, mode: str) -> None:
    Submission(kit)
    before = generation(kit)
    done = Submission(kit, "--mode", mode, "--op-debug-level", "3")
    assert (done.outcomes, done.mode) == (["compiled", "compiled"], (mode, "disable"))
    assert "op_debug_level is 3" in done.document["reason"]
    assert ("nothing is purged" in done.document["reason"]) == (mode == "force")
    assert generation(kit) == before
    assert Submission(kit).outcomes == ["hit", "hit"]


def test_listed_operators_are_compiled_every_time_and_the_rest_hit(kit: Kit, tmp_path: Path) -> None:
    shared = Submission(kit)
    file = tmp_path / "debug.cfg"
    file.write_text("op_debug_config=ccec_g\nop_debug_list=one,OpType::Gone\n")
    for _ in range(2):
        done = Submission(kit, "--op-debug-config", str(file))
        assert (done.outcomes, done.compiles) == (["compiled", "hit"], 1)
        assert done.keys[1] == shared.keys[1]
        assert "no operator is selected by OpType::Gone" in done.document["reason"]
        assert "no operator is selected by OpType::Gone" in done.stderr
    file.write_text("op_debug_config=ccec_g\nop_debug_list=x::Two\n")
    assert Submission(kit, "--op-debug-config", str(file)).outcomes == ["hit", "compiled"]
    assert Submission(kit).outcomes == ["hit", "hit"]


def test_with_a_list_force_purges_for_the_rest(kit: Kit, tmp_path: Path) -> None:
    Submission(kit)
    before = generation(kit)
    file = tmp_path / "debug.cfg"
    file.write_text("op_debug_config=ccec_g\nop_debug_list=one\n")
    done = Submission(kit, "--mode", "force", "--op-debug-config", str(file))
    assert (done.outcomes, done.mode) == (["compiled", "compiled"], ("force", "force"))
    assert generation(kit) == before + 1
    assert Submission(kit).outcomes == ["compiled", "hit"]


def test_core_counts_are_of_the_processor_and_in_the_key(kit: Kit) -> None:
    refused = Submission(kit, "--aicore-num", "1|1", code=2).document["error"]
    assert "test-soc does not support it" in refused["message"]
    soc = ("--soc", "Ascend910B1")
    refused = Submission(kit, *soc, "--aicore-num", "25|1", code=2).document["error"]
    assert "1 to 24 cube cores" in refused["fix"]
    all_cores, half = Submission(kit, *soc), Submission(kit, *soc, "--aicore-num", "12|24")
    assert half.outcomes == ["compiled", "compiled"]
    assert not {*half.keys} & {*all_cores.keys}
    assert Submission(kit, *soc, "--aicore-num", "12|24").outcomes == ["hit", "hit"]
    without_effect = Submission(kit, *soc, "--aicore-num", "12|24", "--jit-compile", "false")
    assert (without_effect.outcomes, without_effect.keys) == (["hit", "hit"], all_cores.keys)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mode", "Force"), "op_compiler_cache_mode 'Force'"),
        (("--op-debug-level", "5"), "op_debug_level '5'"),
        (("--op-debug-level", "-1"), "op_debug_level '-1'"),
        (("--op-debug-config", "not-there.cfg"), "not-there.cfg"),
        (("--op-debug-config", ""), "op_debug_config"),
        (("--aicore-num", "0|1"), "aicore_num '0|1'"),
        (("--aicore-num", ""), "aicore_num ''"),
        (("--jit-compile", "1"), "jit_compile '1'"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_asked(kit: Kit, options: tuple[str, ...], said: str) -> None:
    done = Submission(kit, *options, code=2)
    assert said in done.document["error"]["message"]
    assert done.document["error"]["fix"]
