"""Clients that have nothing but Celery: ``farm.submit`` on a real farm, asked by an application of their own."""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import TimeoutError as CeleryTimeout
from celery.result import AsyncResult

from farm.store.bundle import identify
from tests.support.kit import CELERY, Kit, op, running, until
from tests.support.led import SHORT, log_of, start_leader, start_planner

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "celery" / "submit.py"


class Client:
    """A foreign application: it knows the broker and the result backend, and a name."""

    def __init__(self, kit: Kit) -> None:
        addresses = kit.farm().connection.addresses
        self.kit = kit
        self.app = Celery("theirs", broker=addresses.broker_url, backend=addresses.result_url, set_as_current=False)

    def send(self, *ops: dict[str, Any], id: str | None = None, **options: Any) -> AsyncResult:
        manifest = {"version": 1, "soc": "test-soc", "ops": list(ops)}
        return self.send_raw(manifest, id=id, **options)

    def send_raw(self, *arguments: Any, id: str | None = None, **options: Any) -> AsyncResult:
        return self.app.send_task("farm.submit", args=arguments, kwargs=options, queue="farm.jobs", task_id=id)

    def submit(self, *ops: dict[str, Any], **options: Any) -> dict[str, Any]:
        document: dict[str, Any] = self.send(*ops, **options).get(timeout=30)
        return document


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(tmp_path_factory.mktemp("planner"), **SHORT, CXX="g++") as kit:
        start_leader(kit)
        start_planner(kit)
        yield Client(kit)
        gc.collect()  # Celery's results say goodbye to the server


def outcomes(document: dict[str, Any]) -> list[str]:
    return [row["outcome"] for row in document["ops"]]


def members(kit: Kit, id: str) -> int:
    return int(kit.redis().zcard(f"{kit.index().prefix}m:{id}"))


def test_the_result_is_the_document_of_submit_with_paths_in_the_store(client: Client) -> None:
    first = client.submit(op(client.kit, "one"), op(client.kit, "bad", exit=1, say="no\n"), id="train-1", mode="enable")
    assert (first["job_id"], first["state"], first["mode"]) == ("train-1", "failed", "enable")
    assert outcomes(first) == ["compiled", "failed"]
    assert first["ops"][1]["error"]["kind"] == "rejected"
    row = first["ops"][0]
    (path,) = row["files"].values()
    bundle, _ = identify((client.kit.store / path).read_bytes(), key=bytes.fromhex(row["key"]))
    assert [file.name for file in bundle.files] == list(row["files"])
    again = client.submit(op(client.kit, "one"))
    assert (again["state"], outcomes(again)) == ("done", ["hit"])
    submitted = json.loads(client.kit.submit(client.kit.manifest(op(client.kit, "one"))).stdout)
    assert submitted.keys() == again.keys()
    assert submitted["ops"][0].keys() == again["ops"][0].keys()
    assert client.kit.compiles("one") == 1


def test_pins_are_kept_for_the_hold_and_then_given_back(client: Client) -> None:
    client.submit(op(client.kit, "held"), id="holding", hold=3)
    assert members(client.kit, "holding") == 1
    until(lambda: members(client.kit, "holding") == 0, what="the hold is over")
    client.submit(op(client.kit, "held"), id="not-holding", hold=0)
    until(lambda: members(client.kit, "not-holding") == 0, seconds=3, what="nothing is held")


def test_a_job_outlives_its_lease_while_it_is_compiled(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    result = client.send(op(client.kit, "long", gate=str(gate)), id="long")
    until(lambda: members(client.kit, "long"), what="it is planned")
    incarnation = client.kit.redis().hget(f"{client.kit.index().prefix}j:long", "incarnation")
    assert not result.ready()
    with pytest.raises(CeleryTimeout):
        result.get(timeout=float(SHORT["FARM_JOB_LEASE_SECONDS"]) + 1)
    gate.touch()
    document = result.get(timeout=20)
    assert (outcomes(document), document["incarnation"]) == (["compiled"], int(incarnation))


def test_a_job_is_cancelled_by_the_command_and_its_result_says_so(client: Client, tmp_path: Path) -> None:
    result = client.send(op(client.kit, "endless", gate=str(tmp_path / "never")), id="to-cancel")
    until(lambda: members(client.kit, "to-cancel"), what="it is planned")
    command = [*CELERY, "job", "cancel", "to-cancel"]
    assert subprocess.run(command, env=client.kit.env, cwd=client.kit.root, check=False).returncode == 0
    document = result.get(timeout=20)
    assert document["state"] == "failed"
    assert document["ops"][0]["error"]["kind"] == "cancelled"
    assert len(document["ops"][0]["key"]) == 64


def test_the_submitters_bound_ends_the_waiting(client: Client, tmp_path: Path) -> None:
    document = client.submit(op(client.kit, "slow", gate=str(tmp_path / "late")), timeout=1)
    assert (document["state"], outcomes(document)) == ("timeout", ["pending"])
    (tmp_path / "late").touch()


def test_modes_and_debug_options(client: Client) -> None:
    one = op(client.kit, "moded")
    client.submit(one)
    assert outcomes(client.submit(one, mode="disable")) == ["compiled"]
    document = client.submit(one, op_debug_config="op_debug_config=ccec_g\nop_debug_list=moded\n")
    assert (document["effective_mode"], outcomes(document)) == ("enable", ["compiled"])
    document = client.submit(one, mode="force")
    assert (document["mode"], outcomes(document)) == ("force", ["compiled"])


_FILE = {"name": "a", "type": "A", "source": {"path": "/etc/passwd"}}
_GOOD = {"version": 1, "soc": "s", "ops": [_FILE | {"toolchain": "host", "source": {"text": "int x;"}}]}
WRONG = {
    "nothing": ((), {}, "field version"),
    "no mapping": ((7,), {}, "must be a mapping"),
    "text that is none": (("{",), {}, "manifest"),
    "two": (({}, {}), {}, "field version"),
    "an option that is none": (({},), {"colour": 1}, "argument colour"),
    "a mode that is none": (({"version": 1, "ops": []},), {"mode": "x"}, ""),
    "a time without end": (({},), {"timeout": float("inf")}, "argument timeout"),
    "text that is not Unicode": (({"version": 1, "soc": "\ud800"},), {}, "the manifest holds what can not be kept"),
    "a number too long": (({},), {"hold": 2**64}, "an option holds what can not be kept"),
    "an owner too long": ((_GOOD,), {"owner": "team=" + "a" * 3_000_000}, "owner 'team=aaa"),
    "a file": (({"version": 1, "soc": "s", "toolchain": "host", "ops": [_FILE]},), {}, "path"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_an_error_document(client: Client, what: str) -> None:
    arguments, options, said = WRONG[what]
    document = client.send_raw(*arguments, **options).get(timeout=20)
    assert document.keys() == {"error"}, document
    assert said in document["error"]["message"]


def test_a_message_that_comes_twice_is_one_submission(client: Client) -> None:
    first = client.submit(op(client.kit, "twice"), id="twice")
    again = client.send(op(client.kit, "other"), id="twice")
    client.submit(op(client.kit, "twice"))  # a planner has come to that, so it has been through the one before
    assert again.get(timeout=20) == first
    assert client.kit.compiles("other") == 0
    assert "Traceback" not in "".join(log_of(client.kit, process) for process in client.kit.processes)


def test_the_example_of_the_documents_gets_kernels_with_celery_alone(client: Client, tmp_path: Path) -> None:
    addresses = client.kit.farm().connection.addresses
    arguments = [addresses.broker_url, addresses.result_url, str(client.kit.store), str(tmp_path)]
    # -I: it imports nothing of ours by accident; -P and a foreign folder would do the same.
    done = subprocess.run(
        [sys.executable, "-I", str(EXAMPLE), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "add compiled kernel.so\n"
    assert "import farm" not in EXAMPLE.read_text()
    library = ctypes.CDLL(str(tmp_path / "add" / "kernel.so"))
    numbers = ctypes.c_float * 2
    total = numbers()
    library.add(numbers(1, 2), numbers(3, 4), total, 2)
    assert list(total) == [4, 6]
