"""``jobs/<job>.json``: which files each operator of a job became, for programs that read no Python."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from farm.client import nodelock, smallfile
from farm.client.localnames import as_text, on_disk

_NAME_CAP_BYTES = 200


def write(folder: Path, job_id: str, incarnation: int, operators: Mapping[str, Mapping[str, str | Path]]) -> Path:
    """Merge operators into the job's file, in one step; members of one incarnation keep each other's."""
    name = file_name(job_id)
    path = folder / f"{name}.json"
    rows = {operator: {file: as_text(where) for file, where in files.items()} for operator, files in operators.items()}
    with nodelock.hold(folder / f".{name}.lock"):
        there = _read(path)
        if there and there["incarnation"] > incarnation:
            return path
        if there and there["incarnation"] == incarnation:
            rows = there["operators"] | rows
        _replace(path, {"job_id": job_id, "incarnation": incarnation, "operators": rows})
    return path


def read_all(folder: Path) -> Iterator[dict[str, dict[str, str]]]:
    """Of each job: its operators with their files."""
    for path in folder.glob("[!.]*.json"):
        if (there := _read(path)) is not None:
            yield _well_formed(there["operators"])


def remove_finished(folder: Path, at_most: int | None = None) -> None:
    """Remove the files of jobs none of whose kernels is there any more; looks at that many files, or at all."""
    paths = list(folder.glob("[!.]*.json"))
    if at_most is not None and len(paths) > at_most:
        paths = random.sample(paths, at_most)
    for path in paths:
        with nodelock.hold(folder / f".{path.stem}.lock"):
            there = _read(path)
            if there is not None and not any(map(os.path.lexists, _paths(there["operators"]))):
                path.unlink(missing_ok=True)


def _paths(operators: dict[Any, Any]) -> Iterator[str]:
    for files in _well_formed(operators).values():
        yield from map(on_disk, files.values())


def _well_formed(operators: dict[Any, Any]) -> dict[str, dict[str, str]]:
    """What others wrote into a file of ours is passed over."""
    return {
        name: {file: path for file, path in files.items() if isinstance(path, str) and "\0" not in path}
        for name, files in operators.items()
        if isinstance(files, dict)
    }


def file_name(job_id: str) -> str:
    """A file name for any job id: itself where it is plain, else escaped, and cut short when too long."""
    name = quote(job_id, safe="", errors="replace")
    if len(name) > _NAME_CAP_BYTES:
        digest = hashlib.sha256(job_id.encode(errors="replace")).hexdigest()[:16]
        name = f"{name[: _NAME_CAP_BYTES - 17]}-{digest}"
    return name


def _read(path: Path) -> dict[str, Any] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            document = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None  # absent, a link, or not ours: replaced as a whole
    match document:
        case {"incarnation": int(), "operators": dict()}:
            there: dict[str, Any] = document
            return there
    return None


def _replace(path: Path, document: Mapping[str, Any]) -> None:
    smallfile.replace(path, json.dumps(document, ensure_ascii=False, indent=1).encode(errors="replace"))
