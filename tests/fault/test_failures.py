"""Failures: the compiler's own, a claim that lies, attempts that are used up."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest

import farm
from farm.client.part import Part
from farm.index.jobs import Want
from farm.index.outcomes import Refused
from farm.request.wire import pack
from tests.support.kit import HOST, Kit, op, running, until


def test_a_syntax_error_is_rejected_with_the_compilers_own_line_and_remembered(tmp_path: Path) -> None:
    with running(tmp_path, **HOST) as kit:
        right = 'extern "C" int f() { return 1; }'
        good = {"name": "good", "type": "Add", "toolchain": "host", "source": {"text": right}}
        bad = {"name": "bad", "type": "Add", "toolchain": "host", "source": {"text": "int f() {\n  return 1\n}\n"}}
        path = tmp_path / "ops.json"
        path.write_text(json.dumps({"version": 1, "soc": platform.machine(), "ops": [good, bad]}))
        first = kit.submit(path)
        assert first.returncode == 1
        document = json.loads(first.stdout)
        rows = {row["name"]: row for row in document["ops"]}
        assert document["state"] == "failed"
        assert rows["good"]["outcome"] == "compiled"
        assert rows["bad"]["error"]["kind"] == "rejected"
        assert rows["bad"]["error"]["remembered"] is False
        assert ":2:" in rows["bad"]["error"]["message"] + rows["bad"]["error"]["log_tail"]
        assert "expected" in rows["bad"]["error"]["message"]
        again = json.loads(kit.submit(path).stdout)
        rows = {row["name"]: row for row in again["ops"]}
        assert rows["good"]["outcome"] == "hit"
        assert rows["bad"]["error"]["remembered"] is True
        assert ":2:" in rows["bad"]["error"]["message"] + rows["bad"]["error"]["log_tail"]


@pytest.mark.parametrize("files", [{"kernel.o": 0}, {"kernel.o": 10, "empty.json": 0}])
def test_exit_0_with_an_empty_output_has_failed(tmp_path: Path, files: dict[str, int]) -> None:
    with running(tmp_path) as kit:
        result = kit.job().compile(farm.load(str(kit.manifest(op(kit, "empty", files=files)))))[0]
        assert result.outcome == "failed"
        assert result.error and result.error.failure.kind == "rejected"


def test_exit_0_without_a_declared_output_has_failed(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        one = op(kit, "missing")
        one["options"]["outputs"] = ["kernel.o", "info.json"]
        result = kit.job().compile(farm.load(str(kit.manifest(one))))[0]
        assert result.outcome == "failed"
        assert result.error and "info.json" in result.error.failure.message


def test_an_operator_that_kills_its_compiler_fails_after_its_attempts_with_their_evidence(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        manifest = kit.manifest(op(kit, "poison", signal=9), op(kit, "good"))
        document = json.loads(kit.submit(manifest).stdout)
        rows = {row["name"]: row for row in document["ops"]}
        assert rows["good"]["outcome"] == "compiled"
        assert rows["poison"]["error"]["kind"] == "transient"
        assert rows["poison"]["error"]["message"].count("attempt ") == 3
        assert kit.compiles("poison") == 3
        again = json.loads(kit.submit(manifest).stdout)["ops"][0]
        assert again["error"]["remembered"] is False
        assert kit.compiles("poison") == 6


def test_a_passing_failure_is_not_remembered(tmp_path: Path) -> None:
    with running(tmp_path, **HOST) as kit:
        manifest = kit.manifest(op(kit, "once", signal=9, once=str(tmp_path / "first")))
        result = kit.job().compile(farm.load(str(manifest)))[0]
        assert result.outcome == "compiled"
        assert kit.compiles() == 2


def test_a_claim_of_a_key_with_another_request_publishes_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as kit:
        honest, liar = farm.load(str(kit.manifest(op(kit, "honest"), op(kit, "liar"))))
        job = kit.job()
        asks = job._asks([honest, liar], None)
        part: Part = asks[0].part
        want = Want(asks[0].key, pack(asks[1].request, lambda blob: True), asks[0].offer.queue)
        part.claim([want], "nonce")
        job_claiming = _claiming(kit)
        job_claiming.send(part, {want.queue: 1})
        answer = until(lambda: [a for a in part.acquire([asks[0].key]) if isinstance(a, Refused)], what="refused")[0]
        assert answer.failure.kind == "rejected"
        assert kit.compiles() == 0
        assert kit.redis().hlen(kit.index().prefix + "e:1") == 0
        job.close()
        # An honest asker is not told of a lie: the key is compiled.
        assert kit.job().compile([replace(honest)])[0].outcome == "compiled"


def _claiming(kit: Kit) -> object:
    from farm.client.claiming import Claiming

    connection = kit.farm().connection
    return Claiming(connection.addresses, print)
