"""The program behind ``make demo``: one farm, the same forty operators twice, cold against warm.

Everything lies in one temporary folder that is removed at the end; nothing of the caller's settings is used.
Exits 0 only when every promise that it prints was checked.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

MANIFEST = Path(__file__).parents[1] / "docs" / "examples" / "cpp" / "ops.yaml"
SOC = platform.machine()
FOREIGN = ("FARM_", "ASCEND_", "CELERY_", "SLURM_", "TORCHELASTIC_", "PYTHONPATH")
START_SECONDS, COMMAND_SECONDS, STOP_SECONDS = 30, 300, 20


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
    except Broken as error:
        console.print(f"[bold red]demo failed:[/] {escape(str(error))}", soft_wrap=True)
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
    with running_farm(environ):
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
    console.print(
        f"checked: {2 * len(entries)} kernels load; each operator was compiled once; the farm has stopped"
    )


@contextmanager
def running_farm(environ: dict[str, str]) -> Iterator[None]:
    """An embedded farm for the time of the block; it must be up in time and stop cleanly.

    Its own session: Ctrl-C in the terminal reaches the demo alone, which then stops the farm once.
    """
    process = subprocess.Popen(
        [*celery(), "up", "--workers", "2"],
        env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    ready, log = threading.Event(), deque[str](maxlen=20)
    reader = threading.Thread(target=follow, args=(process, ready, log), daemon=True)
    reader.start()
    try:
        if not ready.wait(START_SECONDS) or process.poll() is not None:
            raise Broken("the farm did not come up")
        yield
    except Broken as error:
        raise Broken(f"{error}\nThe farm's last words:\n{''.join(log)}") from None
    finally:
        code = stop(process)
        reader.join(1)
    if code not in (0, 130):
        raise Broken(f"the farm ended with exit code {code} when asked to stop:\n{''.join(log)}")
    if left := left_over(environ["FARM_STATE_DIR"]):
        raise Broken(f"the farm has stopped and left processes behind: {left}")


def left_over(state_dir: str) -> list[str]:
    """The processes, by id, that still have this farm's settings."""
    mark = os.fsencode(f"FARM_STATE_DIR={state_dir}")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
    return found


def follow(process: subprocess.Popen[str], ready: threading.Event, log: deque[str]) -> None:
    """Keep the last lines of the farm's log; its end counts as ready, so that nobody waits for a dead one."""
    assert process.stderr is not None
    for line in process.stderr:
        log.append(line)
        if "ready" in line:
            ready.set()
    process.wait()
    ready.set()


def stop(process: subprocess.Popen[str]) -> int:
    """Stop as Ctrl-C would; returns the exit code, that of a kill when it does not stop in time."""
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def celery() -> list[str]:
    """The command line of the farm's own commands, by this very Python."""
    return [sys.executable, "-P", "-m", "celery", "-A", "farm"]


def farm(environ: dict[str, str], *arguments: str) -> dict[str, Any]:
    """Run one command with ``--json``; its progress goes straight to the terminal."""
    command = [*celery(), *arguments]
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
    result = farm(
        environ, "submit", str(MANIFEST), "--json", "--soc", SOC, "--op-compiler-cache-dir", str(cache_dir)
    )
    return result | {"wall_seconds": time.monotonic() - started}


def check_outcomes(result: dict[str, Any], outcome: str, entries: dict[str, str]) -> None:
    """Every operator of the manifest came back, all with this outcome."""
    for op in result["ops"]:
        if op["outcome"] != outcome:
            reason = f": {op['error']['message']}" if op["error"] else ""
            raise Broken(f"operator {op['name']} should be `{outcome}` and is `{op['outcome']}`{reason}")
    if {op["name"] for op in result["ops"]} != set(entries) or result["state"] != "done":
        raise Broken(
            f"the job ended as `{result['state']}` with {len(result['ops'])} of {len(entries)} operators"
        )


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
    shown = Table("", "operators", *outcomes, "command s", "farm s", "compilers s", box=box.SIMPLE)
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
