"""A worker on another machine is cut off in mid compile, past its lease: its claim is given to another, once."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.fault.test_workers import Submission, compiling
from tests.support.kit import CELERY, Kit, children_of, op, until
from tests.support.led import SHORT, SHORT_SETTINGS, assert_clean, start_leader
from tests.support.nets import Cable, cable


def start_far_worker(kit: Kit, net: Cable, port: int) -> subprocess.Popen[bytes]:
    """A worker that reaches the server over the cable only, and the store by a path of the shared disk."""
    with (kit.root / "log-far").open("wb") as log:
        worker = subprocess.Popen(
            net.far([*CELERY, "worker", "-c", "1", "-n", "far@%h", "-l", "INFO"]),
            env=kit.env | {"FARM_INDEX_URL": f"redis://{net.here}:{port}/0"}, cwd=kit.root, stdout=log, stderr=log,
        )  # fmt: skip
    kit.processes.append(worker)
    until(lambda: kit.farm().connection.registry.workers() or worker.poll() is not None, 30, "it registers")
    assert worker.poll() is None, (kit.root / "log-far").read_text()
    return worker


@pytest.mark.long
def test_a_worker_that_is_cut_off_loses_its_claim_and_comes_back_as_one_that_has_none(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    kit.env |= SHORT
    try:
        with cable() as net:
            with socket.socket() as one:
                one.bind((net.here, 0))
                port = one.getsockname()[1]
            kit.start_server("--port", str(port), "--bind", net.here, "--protected-mode", "no")
            start_leader(kit)
            far = start_far_worker(kit, net, port)
            gate = tmp_path / "gate"
            told = {"once": str(tmp_path / "first"), "gate": str(gate), "stamp": "cut off"}
            waiting = Submission(kit, kit.manifest(op(kit, "one", **told)), **SHORT_SETTINGS)
            compiling(kit, "one")
            net.cut()
            kit.start_worker(1)
            assert [result.outcome for result in waiting.join(4 + 10)] == ["compiled"]
            entry = kit.redis().hgetall(f"{kit.index().prefix}e:1")
            gate.touch()  # the cut off one finishes, too; it can not say so
            net.mend()
            until(lambda: not children_of(far.pid), 30, "it is back, and its compile has ended")
            until(lambda: len(kit.farm().connection.registry.workers()) == 2, 30, "it registers again")
            assert kit.redis().hgetall(f"{kit.index().prefix}e:1") == entry
            assert kit.compiles("one") == 2
            assert_clean(kit)
            # It works on as any other.
            os.kill(kit.processes[-1].pid, 9)
            kit.processes[-1].wait()
            again = Submission(kit, kit.manifest(op(kit, "two")), **SHORT_SETTINGS)
            assert [result.outcome for result in again.join(30)] == ["compiled"]
            assert far.poll() is None
    except BaseException:
        print(kit.logs())  # noqa: T201
        raise
    finally:
        kit.close()
