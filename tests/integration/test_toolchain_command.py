"""toolchain ls and default with two compilers on two workers, and jobs that name one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from farm.index import names
from tests.support.kit import HOST, Kit, running

SOURCE = {"text": 'extern "C" int one() { return N; }'}


def toolchain(kit: Kit, *arguments: str) -> tuple[int, Any]:
    done = kit.celery("toolchain", *arguments, "--json")
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def key_of(kit: Kit, named: str, *options: str) -> str:
    op = {"name": "one", "type": "One", "toolchain": named, "source": SOURCE, "options": {"defines": {"N": 1}}}
    path = kit.root / "host.json"
    path.write_text(json.dumps({"version": 1, "ops": [op]}))
    done = kit.submit(path, "--soc", "x86_64", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(json.loads(done.stdout)["ops"][0]["key"])


def test_two_compilers_of_one_name(tmp_path: Path) -> None:
    with running(tmp_path, workers=0) as kit:
        kit.start_worker(2, CXX="g++ -O1")
        second = kit.start_worker(3, CXX="g++ -O0", FARM_ALLOW_ADHOC_COMMANDS="0")
        code, listed = toolchain(kit, "ls")
        assert code == 0
        hosts = [row for row in listed["toolchains"] if row["name"] == "host"]
        assert [(row["workers"], row["slots"], row["default"]) for row in hosts] == [(1, 2, False), (1, 3, False)]
        assert all(row["queue"] == f"compile.host.{row['fingerprint'][:12]}" for row in hosts)
        assert hosts[0]["first_seen"] <= hosts[1]["first_seen"]
        missing = [worker["missing"] for worker in listed["workers"]]
        assert sum("FARM_ALLOW_ADHOC_COMMANDS" in row.get("command", "") for row in missing) == 1

        first, other = (row["fingerprint"] for row in hosts)
        by_rule = key_of(kit, "host")
        assert toolchain(kit, "default", "host") == (0, {"toolchain": "host", "fingerprint": None, "version": None})
        code, chosen = toolchain(kit, "default", "host", other[:8].upper())
        assert (code, chosen["fingerprint"]) == (0, other)
        by_default = key_of(kit, "host")
        assert by_default != by_rule
        assert key_of(kit, f"host@{first[:8]}") == by_rule
        assert key_of(kit, "host", "--toolchain", f"host@{first[:8]}") == by_rule
        assert [row["default"] for row in toolchain(kit, "ls")[1]["toolchains"] if row["name"] == "host"] == [
            True,
            False,
        ]

        # A default holds also when its last worker has gone: what is cached is still served.
        kit.kill(second)
        kit.redis().zrem(names.WORKER_LEASES, *kit.redis().hkeys(names.WORKERS))
        assert key_of(kit, "host") == by_default
        assert toolchain(kit, "default", "host", "--unset")[1]["fingerprint"] is None
        assert key_of(kit, "host") == by_rule


def test_a_default_that_can_not_be_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, **HOST) as kit:
        for arguments, told in (
            (["nix"], "'nix'"),
            (["host", "0000"], "host@0000"),
            (["host", "xyz1"], "'xyz1' is not valid"),
            (["host", "abc"], "'abc' is not valid"),
            (["host", "abcd", "--unset"], "both given"),
            ([], "NAME"),
        ):
            code, refused = toolchain(kit, "default", *arguments)
            assert (code, refused["error"]["code"]) == (2, "input")
            assert told in refused["error"]["message"]
        assert kit.farm().connection.registry.defaults() == {}
        kit.kill_server()
        code, refused = toolchain(kit, "ls")
        assert (code, refused["error"]["code"]) == (3, "unavailable")
