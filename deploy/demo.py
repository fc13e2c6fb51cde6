"""The program behind ``make demo``: one farm, the same forty operators twice, cold against warm.

Everything lies in one temporary folder that is removed at the end; nothing of the caller's settings is used.
Exits 0 only when every promise that it prints was checked.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from farm.embedded.child import start_child

MANIFEST = Path(__file__).parents[1] / "docs" / "examples" / "cpp" / "ops.yaml"
SOC = platform.machine()
FOREIGN = ("FARM_", "ASCEND_", "CELERY_", "SLURM_", "TORCHELASTIC_", "PYTHONPATH")
START_SECONDS, COMMAND_SECONDS, STOP_SECONDS = 30, 300, 20
#: The farm's own commands, by this very Python.
CELERY = (sys.executable, "-P", "-m", "celery", "-A", "farm")


class Broken(Exception):
    """A promise of the demo did not hold; the text says which."""


def main() -> int:
    """Run the demo; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    console = Console(stderr=True, highlight=False)
    try:
        with tempfile.TemporaryDirectory(prefix="opfarm-demo-") as name:
            demonstrate(Path(name).resolve(), console)
    except (Broken, KeyError) as error:
        reason = f"an answer lacks {error}" if isinstance(error, KeyError) else str(error)
        console.print(f"[bold red]demo failed:[/] {escape(reason)}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def demonstrate(folder: Path, console: Console) -> None:
    """The demo's story: start, cold, warm, figures, stop."""
    entries = {op["name"]: op["entry"] for op in yaml.safe_load(MANIFEST.read_text())["ops"]}
    environ = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    environ |= {"FARM_STATE_DIR": str(folder / "state")}
    console.print(f"starting a farm with 2 compile slots in {folder}")
    with running_farm(folder, environ):
        console.print(f"cold: submitting {len(entries)} operators to the empty farm")
        cold = submit(environ, folder / "node-1")
        console.print("warm: the same from a second node, whose cache folder is empty")
        warm = submit(environ, folder / "node-2")
        stats = farm(environ, "cache", "stats", "--json")
        check_outcomes(cold, "compiled", entries)
        check_outcomes(warm, "hit", entries)
        check_files(cold, folder / "node-1", entries)
        check_files(warm, folder / "node-2", entries)
        check_stats(stats, len(entries))
    Console().print(table(cold, warm))
    console.print(f"checked: {2 * len(entries)} kernels load; each operator was compiled once; the farm has stopped")


@contextmanager
def running_farm(folder: Path, environ: dict[str, str]) -> Iterator[None]:
    """An embedded farm for the time of the block; it must be up in time, stop cleanly and leave nothing running."""
    log = folder / "up.log"
    process = start_child([*CELERY, "up", "--workers", "2"], cwd=folder, log=log, env=environ)
    try:
        wait_until_ready(process, log)
        yield
    except Broken as error:
        raise Broken(f"{error}\nThe farm's last words:\n{last_words(folder)}") from None
    finally:
        code = stop(process)
    if code not in (0, 130):
        raise Broken(f"the farm ended with exit code {code} when asked to stop:\n{last_words(folder)}")
    if left := left_over(environ["FARM_STATE_DIR"]):
        raise Broken(f"the farm has stopped and left processes behind: {left}")


def wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for the line with which the farm says that it can be used."""
    deadline = time.monotonic() + START_SECONDS
    while not re.search(r"\bready\b", log.read_text(errors="replace")):
        if process.poll() is not None:
            raise Broken(f"the farm ended with exit code {process.returncode} instead of coming up")
        if time.monotonic() > deadline:
            raise Broken(f"the farm was not ready within {START_SECONDS} s")
        time.sleep(0.05)


def last_words(folder: Path) -> str:
    """The end of each log of the farm."""
    logs = sorted(folder.glob("*.log")) + sorted(folder.glob("state/*.log"))
    return "\n".join(line for log in logs for line in log.read_text(errors="replace").splitlines()[-10:])


def left_over(state_dir: str) -> list[str]:
    """The processes, by id, that still have this farm's settings."""
    mark = os.fsencode(f"FARM_STATE_DIR={state_dir}")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
    return found


def stop(process: subprocess.Popen[bytes]) -> int:
    """Stop as Ctrl-C would; returns the exit code, that of a kill when it does not stop in time."""
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def farm(environ: dict[str, str], *arguments: str) -> dict[str, Any]:
    """Run one command with ``--json``; its progress goes straight to the terminal."""
    command = [*CELERY, *arguments]
    name = f"`celery -A farm {arguments[0]}`"
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        document: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise Broken(f"{name} took more than {COMMAND_SECONDS} s") from None
    except ValueError:
        raise Broken(f"{name} printed no JSON (exit code {done.returncode})") from None
    if "error" in document:
        raise Broken(f"{name}: {document['error']['message']}")
    return document


def submit(environ: dict[str, str], cache_dir: Path) -> dict[str, Any]:
    """Submit the manifest as one job; adds ``wall_seconds``, the whole command as the user feels it."""
    started = time.monotonic()
    result = farm(environ, "submit", str(MANIFEST), "--json", "--soc", SOC, "--op-compiler-cache-dir", str(cache_dir))
    return result | {"wall_seconds": time.monotonic() - started}


def check_outcomes(result: dict[str, Any], outcome: str, entries: dict[str, str]) -> None:
    """Every operator of the manifest came back, all with this outcome."""
    for op in result["ops"]:
        if op["outcome"] != outcome:
            reason = f": {op['error']['message']}" if op["error"] else ""
            raise Broken(f"operator {op['name']} should be `{outcome}` and is `{op['outcome']}`{reason}")
    if {op["name"] for op in result["ops"]} != set(entries) or result["state"] != "done":
        raise Broken(f"the job ended as `{result['state']}` with {len(result['ops'])} of {len(entries)} operators")


def check_files(result: dict[str, Any], cache_dir: Path, entries: dict[str, str]) -> None:
    """Every kernel lies in this node's folder, loads, and has its entry symbol."""
    for op in result["ops"]:
        libraries = [Path(file) for file in op["files"].values() if file.endswith(".so")]
        if not libraries or not all(file.is_relative_to(cache_dir) for file in libraries):
            raise Broken(f"operator {op['name']} has no kernel in {cache_dir}: {op['files']}")
        try:
            getattr(ctypes.CDLL(str(libraries[0])), entries[op["name"]])
        except (OSError, AttributeError) as error:
            raise Broken(f"the kernel of operator {op['name']} can not be used: {error}") from None


def check_stats(stats: dict[str, Any], count: int) -> None:
    """The farm's own figures: each operator compiled once and hit once."""
    if [row["soc"] for row in stats["namespaces"]] != [SOC]:
        raise Broken(f"`cache stats` should list the namespace of {SOC} alone: {stats['namespaces']}")
    (namespace,) = stats["namespaces"]
    wanted = {"entries": count, "compiles": count, "misses": count, "hits": count}
    for name, value in wanted.items():
        if namespace[name] != value:
            raise Broken(f"`cache stats` should say {name} = {value} and says {namespace[name]}")


def table(cold: dict[str, Any], warm: dict[str, Any]) -> Table:
    """Cold against warm, a row each."""
    outcomes = ("hit", "compiled", "joined", "failed")
    shown = Table("", "ops", *outcomes, "command s", "farm s", "compile s", box=box.SIMPLE, pad_edge=False)
    for name, result in (("cold", cold), ("warm", warm)):
        compilers = sum(op["compile_seconds"] or 0 for op in result["ops"] if op["outcome"] == "compiled")
        counts = [len(result["ops"]), *(result["counts"][outcome] for outcome in outcomes)]
        seconds = [result["wall_seconds"], result["seconds"], compilers]
        shown.add_row(name, *map(str, counts), *(f"{value:.2f}" for value in seconds))
    for column in shown.columns[1:]:
        column.justify = "right"
    return shown


if __name__ == "__main__":
    sys.exit(main())
