"""Every setting of the farm: its environment variable, default, unit and valid range, in one table.

Settings that contradict each other are refused when they are read, so that no process starts on them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from farm.errors import InputError

PREFIX = "FARM_"


class Settings(BaseModel):
    """The farm's settings; each field is read from ``FARM_<FIELD>`` unless given by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Server of the index: ``redis://``, ``rediss://`` or ``unix://``; unset means the embedded farm.
    index_url: str | None = None
    #: Celery's broker and result backend; unset means the index's server, databases 1 and 2.
    broker_url: str | None = None
    result_url: str | None = None
    #: Bundles: ``file:///absolute/path`` or ``s3://bucket/prefix``.
    store_url: str | None = None
    cache: str = Field("default", pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}$")
    state_dir: Path = Path("~/.local/state/opfarm")
    job_id: str | None = None
    owner: str | None = None

    #: A member that is silent this long has left; its job ends with its last member.
    job_lease_seconds: float = Field(300, ge=2, le=86400)
    heartbeat_seconds: float = Field(20, ge=0.2, le=3600)
    #: A running compile that is not renewed this long is given to another worker.
    claim_lease_seconds: float = Field(20, ge=1, le=3600)
    #: A client that lost the farm in mid-run tries this long to get it back.
    reconnect_seconds: float = Field(60, ge=0, le=86400)
    no_worker_seconds: float = Field(300, ge=0, le=86400)
    compile_timeout_seconds: float = Field(1800, gt=0, le=604800)
    #: Address space of one compile; unset means no limit.
    compile_memory_mb: int | None = Field(None, ge=16)
    max_attempts: int = Field(3, ge=1, le=100)
    #: How long the compiler's own rejection is remembered for later askers.
    failure_ttl_seconds: float = Field(600, ge=0, le=604800)
    allow_adhoc_commands: bool = False
    #: A coordinator that is silent this long is replaced by a standby.
    leader_lease_seconds: float = Field(5, ge=1, le=300)
    tick_seconds: float = Field(1, ge=0.05, le=60)
    #: How long a job of mode force waits for its purge.
    force_timeout_seconds: float = Field(30, gt=0, le=3600)
    #: Only entries that nobody has used for so long are aged.
    min_idle_seconds: float = Field(1800, ge=0, le=31536000)
    #: A condemned bundle can be taken back by who still holds it for so long.
    sweep_grace_seconds: float = Field(60, ge=0, le=86400)
    #: Limit over all namespaces that have one; unset means none.
    max_total_size_mb: int | None = Field(None, ge=1)
    remain_total_size_ratio: int = Field(80, ge=1, le=100)
    #: Profiles: named command lines that workers offer as toolchains.
    toolchains_file: Path | None = None

    @property
    def renew_seconds(self) -> float:
        """Four renewals fit into one claim lease, so three may be lost."""
        return self.claim_lease_seconds / 4

    def shared(self) -> dict[str, float]:
        """The settings by which all clients and workers of a farm must agree, by their environment variable."""
        return {PREFIX + name.upper(): float(getattr(self, name)) for name in _SHARED}

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None, **given: Any) -> Settings:
        """Read the environment, let given values win, and check the whole.

        Raises:
            InputError: a value is malformed or two values contradict each other; names the variable.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {
            name: environ[PREFIX + name.upper()]
            for name in cls.model_fields
            if environ.get(PREFIX + name.upper(), "") != ""
        }
        values |= _read_files(environ)
        values |= {name: value for name, value in given.items() if value is not None}
        try:
            settings = cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0])
            raise InputError(
                f"setting {PREFIX}{field.upper()} = {values.get(field)!r}: {first['msg']}",
                fix=f"give {PREFIX}{field.upper()} a valid value or unset it",
            ) from None
        settings._check()
        paths = {name: getattr(settings, name) for name in ("state_dir", "toolchains_file")}
        return settings.model_copy(
            update={name: path.expanduser().absolute() for name, path in paths.items() if path is not None}
        )

    def _check(self) -> None:
        for shorter, longer in _MUST_FIT_TWICE:
            if getattr(self, shorter) * 2 > getattr(self, longer):
                raise InputError(
                    f"settings contradict: {PREFIX}{shorter.upper()} = {getattr(self, shorter):g} must be at most "
                    f"half of {PREFIX}{longer.upper()} = {getattr(self, longer):g}",
                    fix="a lease must outlive a lost renewal: shorten the first or lengthen the second",
                )


#: Whoever ends an attempt, a worker or a waiting client, acts by its own values of these.
_SHARED = ("claim_lease_seconds", "failure_ttl_seconds", "max_attempts")

#: (period, lease): the period must fit into the lease twice, so that one lost call ends nothing.
_MUST_FIT_TWICE = (
    ("heartbeat_seconds", "job_lease_seconds"),
    ("heartbeat_seconds", "sweep_grace_seconds"),
    ("tick_seconds", "leader_lease_seconds"),
)


#: URLs hold passwords: ``FARM_<NAME>_FILE`` names a file that has the URL, for a secret that is mounted.
_MAY_BE_IN_A_FILE = ("index_url", "broker_url", "result_url")
_FILE_BYTES_MAX = 65536


def variables() -> list[str]:
    """Every environment variable that is a setting."""
    names = [PREFIX + name.upper() for name in Settings.model_fields]
    return names + [f"{PREFIX}{name.upper()}_FILE" for name in _MAY_BE_IN_A_FILE]


def _read_files(environ: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name in _MAY_BE_IN_A_FILE:
        variable = PREFIX + name.upper()
        path = environ.get(f"{variable}_FILE", "")
        if not path:
            continue
        if environ.get(variable, "") != "":
            raise InputError(
                f"settings contradict: {variable} and {variable}_FILE are both set", fix="unset one of them"
            )
        try:
            found[name] = _read_file(path)
        except (OSError, ValueError) as error:
            raise InputError(
                f"setting {variable}_FILE = {path!r}: can not read it: "
                f"{error.strerror if isinstance(error, OSError) else error}",
                fix="name a readable file whose only line is the URL",
            ) from None
        if not found[name]:
            raise InputError(f"setting {variable}_FILE = {path!r}: it is empty", fix="put the URL into it")
    return found


def _read_file(path: str) -> str:
    # Not blocked by a FIFO that has no writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no regular file")
        data = os.read(descriptor, _FILE_BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    if len(data) > _FILE_BYTES_MAX:
        raise ValueError(f"it has more than {_FILE_BYTES_MAX} bytes")
    try:
        return data.decode().strip()
    except UnicodeDecodeError:
        raise ValueError("it is no text") from None


def sibling_url(index_url: str, database: int) -> str:
    """The URL of another database of the index's server, in the form that Celery's transports read."""
    url = urlsplit(index_url)
    if url.scheme == "unix":
        auth = f"{url.netloc}@" if url.netloc and not url.netloc.endswith("@") else url.netloc
        return f"redis+socket://{auth}{url.path}?virtual_host={database}"
    return url._replace(path=f"/{database}").geturl()
