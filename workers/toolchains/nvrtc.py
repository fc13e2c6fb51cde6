"""NVRTC and the CUDA headers as this machine's wheels have them, and their fingerprint.

Nothing here loads the library: it is asked for its version by the runner, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from workers.toolchains.hashing import fingerprint
from workers.toolchains.pinned import Pinned

LIBRARY_WHEEL, HEADERS_WHEEL = "nvidia-cuda-nvrtc", "nvidia-cuda-runtime"
_RUNNER = Path(__file__).with_name("nvrtc_runner.py")
#: No site, no environment: what the runner does depends on its arguments alone.
_PYTHON = (sys.executable, "-I", "-S", "-X", "utf8", str(_RUNNER))
_ASK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Place:
    """Where the two wheels keep what is needed, and their versions."""

    library: Path
    include_dir: Path
    wheel: str
    headers: str


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """One NVRTC with its headers: how it is run, and what it is."""

    place: Place
    version: str
    socs: tuple[str, ...]
    fingerprint: str
    pinned: Pinned

    def argv(self, job: Path) -> tuple[str, ...]:
        """The command that compiles what the job file says."""
        return (*_PYTHON, "compile", str(job))


def locate() -> Place | str:
    """The two wheels of this Python environment, or which of them is missing."""
    try:
        library, wheel = _find(LIBRARY_WHEEL, "libnvrtc.so.")
        header, headers = _find(HEADERS_WHEEL, "cuda_fp16.h")
    except LookupError as error:
        return f"{error}: pip install 'opfarm[cuda]'"
    return Place(library, header.parent, wheel, headers)


def _find(wheel: str, begin: str) -> tuple[Path, str]:
    """The file of a wheel whose name begins so, and the wheel's version."""
    try:
        distribution = metadata.distribution(wheel)
    except metadata.PackageNotFoundError:
        raise LookupError(f"package {wheel} is not installed") from None
    for file in distribution.files or ():
        if file.name.startswith(begin):
            return Path(str(distribution.locate_file(file))).resolve(), distribution.version
    raise LookupError(f"package {wheel} {distribution.version} has no file {begin}*")


def inspect(place: Place, recipe: object) -> Nvrtc | str:
    """Ask NVRTC what it is and hash what it consists of; or why it can not be used.

    Args:
        recipe: what this project's own code adds to every call; part of the fingerprint.
    """
    libraries = sorted(place.library.parent.glob("libnvrtc*"))
    try:
        pinned = Pinned([*libraries, place.include_dir])
        done = subprocess.run(
            [*_PYTHON, "describe", str(place.library)],
            env={"LC_ALL": "C"}, check=True, capture_output=True, text=True, timeout=_ASK_SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        described = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        return f"{place.library} does not answer: {error.stdout.strip() or error}"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"{place.library} does not answer: {error}"
    *library_sha256s, headers_sha256 = pinned.sha256s
    parts = {
        "recipe": recipe,
        "nvrtc": described["version"],
        "wheel": place.wheel,
        "libraries": dict(zip([library.name for library in libraries], library_sha256s, strict=True)),
        "headers": place.headers,
        "headers_sha256": headers_sha256,
    }
    return Nvrtc(place, described["version"], tuple(described["socs"]), fingerprint(parts), pinned)
