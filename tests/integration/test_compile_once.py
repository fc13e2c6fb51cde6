"""Every compile happens once, whoever asks, and everybody gets verified kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from farm.client.part import Part
from farm.index.sources import SourceEpochs, SourceLease
from tests.support.forked import Forked
from tests.support.kit import Kit, op, running, until

SUPPORT = Path(__file__).parents[1] / "support"
RANK, CROWD = SUPPORT / "rank.py", SUPPORT / "crowd.py"


def start_ranks(kit: Kit, manifest: Path, count: int, job_id: str = "-", *hold: str) -> list[subprocess.Popen[str]]:
    """Start processes that all stand at the barrier."""
    ranks = [
        Forked(
            [sys.executable, str(RANK), str(manifest), str(kit.root / f"rank{n % 4}"), job_id, *hold],
            env=kit.env, cwd=kit.root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for n in range(count)
    ]  # fmt: skip
    return ranks


def release(ranks: list[subprocess.Popen[str]]) -> None:
    """Lift the barrier when all stand at it."""
    for rank in ranks:
        assert rank.stdout and rank.stdout.readline() == "ready\n"
    for rank in ranks:
        assert rank.stdin
        rank.stdin.write("\n")
        rank.stdin.flush()


def test_64_clients_released_at_once_compile_50_cold_keys_50_times(tmp_path: Path) -> None:
    with running(tmp_path, workers=2) as kit:
        manifest = kit.manifest(*[op(kit, f"op{n}") for n in range(50)])
        with Forked(
            [sys.executable, str(CROWD), "64", str(manifest), str(tmp_path)],
            env=kit.env, cwd=tmp_path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as crowd:  # fmt: skip
            release([crowd])
        assert crowd.returncode == 0
        answers = [json.loads((tmp_path / f"answer-{n}.json").read_text()) for n in range(64)]
        assert kit.compiles() == 50
        assert len({json.dumps(answer["digests"], sort_keys=True) for answer in answers}) == 1
        assert all(len(files) == 1 for files in answers[0]["digests"].values())
        outcomes = Counter(outcome for answer in answers for outcome in answer["outcomes"])
        assert outcomes["compiled"] == 50
        assert sum(outcomes.values()) == 64 * 50
        assert set(outcomes) <= {"compiled", "joined", "hit"}


def test_members_of_one_job_share_pins_that_outlive_all_but_the_last(tmp_path: Path) -> None:
    with running(tmp_path, FARM_JOB_LEASE_SECONDS="3", FARM_HEARTBEAT_SECONDS="0.5") as kit:
        manifest = kit.manifest(*[op(kit, f"op{n}") for n in range(5)])
        ranks = start_ranks(kit, manifest, 8, "train", "hold")
        release(ranks)
        answers = [json.loads(rank.stdout.readline()) for rank in ranks if rank.stdout]
        assert len({answer["run"] for answer in answers}) == 1
        assert kit.compiles() == 5

        def pins() -> list[int]:
            return sorted(int(count) for count in kit.redis().hvals(kit.index().prefix + "i:1"))

        assert pins() == [1] * 5
        for rank in ranks[:6]:
            rank.communicate()
        assert pins() == [1] * 5
        ranks[6].kill()
        ranks[6].communicate()
        members = kit.index().prefix + "m:train"
        until(lambda: kit.redis().zcard(members) == 1, what="the killed member's lease lapses")
        assert pins() == [1] * 5
        ranks[7].communicate()
        assert ranks[7].returncode == 0
        assert pins() == []
        with kit.job(job_id="train") as job:
            assert [result.outcome for result in job.compile(_load(manifest))] == ["hit"] * 5
            assert job.incarnation != answers[0]["run"]


def test_the_second_submission_is_all_hits_in_another_folder(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        manifest = kit.manifest(*[op(kit, f"op{n}", files={"a.o": 50, "b.json": 20}) for n in range(3)])
        cold = kit.submit(manifest)
        assert cold.returncode == 0, cold.stderr
        document = json.loads(cold.stdout)
        assert document["counts"] == {"hit": 0, "compiled": 3, "joined": 0, "failed": 0, "pending": 0}
        assert document["state"] == "done"
        for row in document["ops"]:
            assert set(row["files"]) == {"a.o", "b.json"}
            assert all(Path(path).stat().st_mode & 0o222 == 0 for path in row["files"].values())
        warm = json.loads(kit.submit(manifest, "--op-compiler-cache-dir", str(tmp_path / "second")).stdout)
        assert warm["counts"]["hit"] == 3
        assert all(str(tmp_path / "second") in path for row in warm["ops"] for path in row["files"].values())
        assert kit.compiles() == 3


def test_the_same_operator_under_two_names_is_compiled_once(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        one = op(kit, "twin")
        results = kit.job().compile(_load(kit.manifest(one, one | {"name": "other"})))
        assert [result.name for result in results] == ["twin", "other"]
        assert results[0].key == results[1].key
        assert results[0].files == results[1].files
        assert kit.compiles() == 1


def test_large_sources_travel_through_the_store_under_a_lease_that_is_taken_again_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as kit:
        late = [SourceLease(5, 1)]
        in_time = Part.source_lease
        monkeypatch.setattr(Part, "source_lease", lambda part: late.pop() if late else in_time(part))
        requests = _load(kit.manifest(*[op(kit, f"op{n}", pad="x" * 70_000) for n in range(2)]))
        assert [result.outcome for result in kit.job().compile(requests)] == ["compiled"] * 2
        epoch = SourceEpochs(kit.redis()).lease().epoch
        names = {path.name for path in (kit.store / "sources").iterdir()}
        digests = [request.source.main.sha256.hex() for request in requests]
        assert names == {f"{digest}-{number}" for digest in digests for number in (5, epoch)}
        assert late == []
        assert kit.index().source_epochs() == set()


def _load(manifest: Path) -> list:
    import farm

    return farm.load(str(manifest))
