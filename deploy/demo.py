"""The program behind ``make demo``: one farm, the C++ and the CUDA examples twice, cold against warm.

Everything lies in one temporary folder that is removed at the end; nothing of the caller's settings is used.
Exits 0 only when every promise that it prints was checked.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kernels import Broken, check_kernel
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from farm.embedded.child import start_child

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
FOREIGN = ("FARM_", "ASCEND_", "CELERY_", "SLURM_", "TORCHELASTIC_", "PYTHONPATH")
START_SECONDS, COMMAND_SECONDS, STOP_SECONDS = 30, 300, 20
#: Cache folder, the outcome that every operator must have there, and how it is announced.
NODES = (
    ("node-1", "compiled", "cold: {} to the empty farm"),
    ("node-2", "hit", "warm: the same {} from a second node, whose cache folder is empty"),
)
#: The farm's own commands, by this very Python.
CELERY = (sys.executable, "-P", "-m", "celery", "-A", "farm")


@dataclass(frozen=True)
class Batch:
    """The operators of one manifest, submitted as one job."""

    title: str
    manifest: Path
    #: Operator → its entry symbol, and the processor type it is for.
    entries: dict[str, str]
    socs: dict[str, str]

    @classmethod
    def read(cls, title: str, folder: str) -> Batch:
        """Read a manifest; operators that name no processor type are for this machine's."""
        manifest = EXAMPLES / folder / "ops.yaml"
        ops = yaml.safe_load(manifest.read_text())["ops"]
        socs = {op["name"]: op.get("soc", platform.machine()) for op in ops}
        return cls(title, manifest, {op["name"]: op["entry"] for op in ops}, socs)


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
    batches = [Batch.read("C++", "cpp"), Batch.read("CUDA", "cuda")]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    environ |= {"FARM_STATE_DIR": str(folder / "state")}
    console.print(f"starting a farm with 2 compile slots in {folder}")
    rows = []
    with running_farm(folder, environ):
        for node, outcome, what in NODES:
            for batch in batches:
                console.print(what.format(f"{len(batch.entries)} {batch.title} operators"))
                result = submit(environ, batch, folder / node)
                check_outcomes(result, outcome, batch)
                check_files(result, folder / node, batch)
                rows.append((batch.title, result))
        check_stats(farm(environ, "cache", "stats", "--json"), batches)
    Console().print(table(sorted(rows, key=lambda row: row[0])))
    kernels = sum(len(result["ops"]) for _, result in rows)
    console.print(f"checked: {kernels} kernels with their entry, each compiled once; the farm has stopped")


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


def submit(environ: dict[str, str], batch: Batch, cache_dir: Path) -> dict[str, Any]:
    """Submit a manifest as one job; adds ``wall_seconds``, the whole command as the user feels it."""
    started = time.monotonic()
    places = ("--soc", platform.machine(), "--op-compiler-cache-dir", str(cache_dir))
    result = farm(environ, "submit", str(batch.manifest), "--json", *places)
    return result | {"wall_seconds": time.monotonic() - started}


def check_outcomes(result: dict[str, Any], outcome: str, batch: Batch) -> None:
    """Every operator of the manifest came back for its processor type, all with this outcome."""
    for op in result["ops"]:
        if op["outcome"] != outcome:
            reason = f": {op['error']['message']}" if op["error"] else ""
            raise Broken(f"operator {op['name']} should be `{outcome}` and is `{op['outcome']}`{reason}")
    if {op["name"]: op["soc"] for op in result["ops"]} != batch.socs or result["state"] != "done":
        raise Broken(f"the job ended as `{result['state']}` with {len(result['ops'])} of {len(batch.socs)} operators")


def check_files(result: dict[str, Any], cache_dir: Path, batch: Batch) -> None:
    """Every kernel lies in this node's folder and has its entry symbol."""
    for op in result["ops"]:
        kernels = [Path(file) for file in op["files"].values() if file.endswith((".so", ".cubin"))]
        if not kernels or not all(file.is_relative_to(cache_dir) for file in kernels):
            raise Broken(f"operator {op['name']} has no kernel in {cache_dir}: {op['files']}")
        check_kernel(op["name"], kernels[0], batch.entries[op["name"]])


def check_stats(stats: dict[str, Any], batches: list[Batch]) -> None:
    """The farm's own figures: each operator compiled once and hit once."""
    wanted = Counter(soc for batch in batches for soc in batch.socs.values())
    found = {row["soc"]: row for row in stats["namespaces"]}
    if found.keys() != wanted.keys():
        raise Broken(f"`cache stats` should list the namespaces of {sorted(wanted)}: {stats['namespaces']}")
    for soc, count in wanted.items():
        for name in ("entries", "compiles", "misses", "hits"):
            if found[soc][name] != count:
                raise Broken(f"`cache stats` of {soc} should say {name} = {count} and says {found[soc][name]}")


def table(rows: list[tuple[str, dict[str, Any]]]) -> Table:
    """Cold against warm, a row for each job."""
    outcomes = ("hit", "compiled", "failed")
    shown = Table("", "ops", *outcomes, "command s", "farm s", "compile s", box=box.SIMPLE, pad_edge=False)
    for title, result in rows:
        compilers = sum(op["compile_seconds"] or 0 for op in result["ops"] if op["outcome"] == "compiled")
        counts = [len(result["ops"]), *(result["counts"][outcome] for outcome in outcomes)]
        seconds = [result["wall_seconds"], result["seconds"], compilers]
        shown.add_row(
            f"{title} {'warm' if result['counts']['hit'] else 'cold'}",
            *map(str, counts),
            *(f"{value:.2f}" for value in seconds),
        )
    for column in shown.columns[1:]:
        column.justify = "right"
    return shown


if __name__ == "__main__":
    sys.exit(main())
