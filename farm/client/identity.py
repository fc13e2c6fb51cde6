"""Who submits: the job id that all ranks share, this process's member id, and the owner labels."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import socket
from collections.abc import Mapping

from farm.errors import InputError
from farm.policy.textfile import brief

_JOB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:+@=-]{0,199}")
#: Reports show all labels of all jobs, and the index keeps them.
LABELS_MAX, LABEL_NAME_MAX, LABEL_VALUE_MAX = 16, 64, 256
_SLURM = ("SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")


def job_id(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """The given id, else one that the launcher's variables give all ranks alike, else a random one.

    SLURM_JOB_ID alone repeats across clusters, survives a requeue and is shared by all steps, so all four
    parts count; TORCHELASTIC_RUN_ID is ``none`` when torchrun was given no rendezvous id.

    Raises:
        InputError: the id has characters that names of files and keys must not have.
    """
    return checked(given or environ.get("FARM_JOB_ID") or _from_launcher(environ) or f"job-{secrets.token_hex(8)}")


def checked(job_id: str) -> str:
    """The id of a job, if it can be one.

    Raises:
        InputError: it has characters that names of files and keys must not have.
    """
    if not _JOB_ID.fullmatch(job_id):
        raise InputError(
            f"job id {job_id!r} is not valid",
            fix="use 1 to 200 letters, digits and . _ : + @ = -, the first a letter, a digit or _",
        )
    return job_id


def _from_launcher(environ: Mapping[str, str]) -> str | None:
    if environ.get("SLURM_JOB_ID"):
        return ".".join(environ.get(name) or "0" for name in _SLURM)
    elastic = environ.get("TORCHELASTIC_RUN_ID", "")
    return elastic if elastic not in ("", "none") else None


def member_id() -> str:
    """This process's own name among the job's members; never the same twice."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def owner_labels(given: str | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The labels under which reports name the job: ``k=v,k=v`` as given, and user, host, cluster as found.

    Raises:
        InputError: a label holds what can not be shown to others, is too long, or there are too many.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    labels = {"user": user, "host": socket.gethostname()}
    if cluster := environ.get("SLURM_CLUSTER_NAME"):
        labels["cluster"] = cluster
    parts = [part for part in (given or "").split(",") if part]
    if len(parts) > LABELS_MAX:
        raise InputError(f"owner has {len(parts)} labels", fix=f"give at most {LABELS_MAX}: k=v,k=v")
    return labels | dict(map(_label, parts))


def _label(part: str) -> tuple[str, str]:
    if not part.isprintable():
        raise InputError(
            f"owner {brief(part)} holds characters that can not be shown", fix="use printable text: k=v,k=v"
        )
    before, equals, after = part.partition("=")
    name, value = (before.strip(), after.strip()) if equals else ("owner", part.strip())
    if len(name) > LABEL_NAME_MAX or len(value) > LABEL_VALUE_MAX:
        raise InputError(
            f"owner {brief(part)} is too long: its name has {len(name)} characters, its value {len(value)}",
            fix=f"use names of at most {LABEL_NAME_MAX} characters and values of at most {LABEL_VALUE_MAX}",
        )
    return name, value
