"""Profiles on a real farm: the documented example for CANN, with stand-ins that take the same arguments."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from farm.index.registry import Offer
from farm.settings import Settings
from tests.support import cann
from tests.support.kit import Kit, running
from tests.unit.workers.requests import request, source
from workers.keeping import Limits
from workers.runner import Stop, compile
from workers.scratch import ScratchArea
from workers.toolchains import find

PARAMETERS = json.dumps({"op_type": "AddCustom", "bin_filename": "AddCustom_1234", "inputs": [], "outputs": []})
OPC: dict[str, Any] = {
    "name": "add", "type": "AddCustom", "soc": "Ascend910B1", "toolchain": "cann-opc", "entry": "add_custom",
    "source": {"text": "def add_custom(x, y, z):\n    pass\n", "files": {"param.json": PARAMETERS}},
    "options": {"op_debug_config": "oom"},
}  # fmt: skip
ATC: dict[str, Any] = {
    "name": "gemm", "type": "GEMM", "soc": "Ascend910B1", "toolchain": "cann-atc",
    "source": {"text": json.dumps([{"op": "GEMM", "input_desc": [], "output_desc": []}])},
    "options": {"precision_mode": "force_fp16", "deterministic": True},
}  # fmt: skip


def submitted(kit: Kit, *ops: dict[str, Any], job: str) -> list[dict[str, Any]]:
    done = kit.submit(kit.manifest(*ops), "--job-id", job)
    document = json.loads(done.stdout)
    assert "ops" in document, document
    return list(document["ops"])


def offers(kit: Kit) -> list[Offer]:
    return [offer for offer in kit.farm().connection.registry.offers() if offer.toolchain.startswith("cann-")]


def test_the_example_for_cann_on_a_farm(tmp_path: Path) -> None:
    profiles = cann.install(tmp_path / "machine")
    with running(tmp_path / "farm", FARM_TOOLCHAINS_FILE=str(profiles)) as kit:
        assert {offer.version for offer in offers(kit)} == {"8.0.RC1"}
        first = submitted(kit, OPC, ATC, job="first")
        assert [op["outcome"] for op in first] == ["compiled", "compiled"], first
        assert sorted(first[0]["files"]) == ["AddCustom_1234.json", "AddCustom_1234.o"]
        assert list(first[1]["files"]) == ["0_GEMM.om"]
        assert Path(first[0]["files"]["AddCustom_1234.o"]).read_text().endswith(" oom 0\n")
        assert Path(first[1]["files"]["0_GEMM.om"]).read_text().endswith(" force_fp16\n")
        again = submitted(kit, OPC, ATC, job="again")
        assert [op["outcome"] for op in again] == ["hit", "hit"]

        # The bank is tuned further: a worker that did not see it must not publish under the old fingerprint ...
        (tmp_path / "machine" / "tune_bank" / "Ascend910B1" / "cube" / "gemm.json").write_text('{"tuned": 1}')
        (stale,) = submitted(kit, OPC | {"options": {"op_mode": "static"}}, job="stale")
        assert (stale["outcome"], stale["error"]["kind"]) == ("failed", "transient")
        assert "tune_bank has changed since the worker started: restart the worker" in stale["error"]["message"]
        # ... and one that starts now has another, so other keys.
        kit.kill(kit.processes[0], 15)
        kit.processes[0].wait()
        kit.start_worker()
        tuned = submitted(kit, OPC, ATC, job="tuned")
        assert [op["outcome"] for op in tuned] == ["compiled", "compiled"]
        assert {op["key"] for op in tuned}.isdisjoint({op["key"] for op in first})

        wrong = submitted(kit, OPC | {"entry": "sub_custom"}, job="wrong")[0]["error"]
        assert wrong["kind"] == "rejected"
        assert wrong["message"].startswith("[ERROR] E40021: Failed to compile Op: sub_custom is not in the source")
        choice = json.loads(kit.submit(kit.manifest(ATC | {"options": {"precision_mode": "fp16"}})).stdout)
        assert "options.precision_mode: 'fp16' is not valid; valid: force_fp16" in choice["error"]["message"]


def test_a_worker_does_not_start_on_a_file_that_is_none(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.toml"
    profiles.write_text("[profile.x]\nargv = [\n")
    with running(tmp_path / "farm", workers=0) as kit:
        started = kit.celery("worker", "-c", "1", FARM_TOOLCHAINS_FILE=str(profiles))
        assert started.returncode == 2
        assert f"Error: {profiles}: is not TOML: " in started.stderr


def test_a_broken_profile_takes_nothing_else_down(tmp_path: Path) -> None:
    profiles = cann.install(tmp_path)
    profiles.write_text(
        profiles.read_text().replace(
            "[profile.cann-atc]", "[profile.bad]\nargv = 1\n[profile.host]\n[profile.cann-atc]"
        )
    )
    found = find(Settings.read({"FARM_TOOLCHAINS_FILE": str(profiles)}))
    assert {"cann-opc", "cann-atc", "host"} <= {toolchain.name for toolchain in found.toolchains}
    assert "profile.bad.argv: must be a list of texts; given 1" in found.missing["bad"]
    assert "there is a toolchain host already" in found.missing["profile host"]


def test_the_time_limit_of_a_profile(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.toml"
    profiles.write_text('[profile.slow]\nargv = ["sleep", "60"]\noutputs = ["*"]\ntimeout_seconds = 0.2\n')
    (toolchain,) = (
        one for one in find(Settings.read({"FARM_TOOLCHAINS_FILE": str(profiles)})).toolchains if one.name == "slow"
    )
    area = ScratchArea.open(tmp_path / "scratch")
    failure = compile(request(schema={}, toolchain="slow", source=source("")), toolchain, area, Limits(50), Stop())
    area.close()
    assert failure.kind == "transient"
    assert failure.message == "the compiler was stopped after 0.2 s (the toolchain's timeout_seconds)"


@pytest.mark.parametrize("argument", ["--bogus=1", "--soc=Ascend910B1"])
def test_the_stand_ins_take_no_other_arguments(argument: str, tmp_path: Path) -> None:
    cann.install(tmp_path)
    for name in ("opc", "atc"):
        done = subprocess.run(
            [tmp_path / "ascend/latest/bin" / name, argument], capture_output=True, text=True, check=False
        )
        assert (done.returncode, "usage: " in done.stderr) == (2, True)
