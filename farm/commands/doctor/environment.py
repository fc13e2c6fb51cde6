"""The environment: settings that are wrong, and variables that do not do what whoever set them expects."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

from farm.client.connection import public
from farm.commands.doctor.subject import Finding, Subject
from farm.errors import FarmError
from farm.settings import PREFIX, variables

#: What Celery's programs take from the environment, and the farm's application does not.
_CELERY = (
    "CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL", "CELERY_RESULT_BACKEND",
    "CELERY_CONFIG_MODULE", "CELERY_LOADER", "BROKER_URL", "RESULT_BACKEND", "CONFIG_MODULE", "LOADER",
)  # fmt: skip
#: Where compilers and linkers look for files; workers do not pass these on, as they are in no key.
_COMPILER = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX",
    "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS",
)  # fmt: skip
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_OURS = ("farm", "workers", "celery", "kombu", "redis", "msgpack", "obstore")


def settings(subject: Subject) -> Finding:
    """Whether each setting is valid and none contradicts another."""
    wrong = [(error.message, error.fix) for error in subject.complaints] + list(_contradictions(subject))
    if wrong:
        return Finding(False, "; ".join(what for what, _ in wrong), "; ".join(dict.fromkeys(fix for _, fix in wrong)))
    given = [name for name in variables() if subject.environ.get(name)]
    return Finding(True, f"set: {', '.join(given)}" if given else "all as by default")


def _contradictions(subject: Subject) -> Iterator[tuple[str, str]]:
    read = subject.settings
    if read.index_url is None:
        for name in ("broker_url", "result_url"):
            if getattr(read, name) is not None:
                variable = PREFIX + name.upper()
                yield (
                    f"{variable} is set but {PREFIX}INDEX_URL is not, so the embedded farm is used",
                    f"set {PREFIX}INDEX_URL too, or unset {variable}",
                )
    elif read.store_url is None:
        yield (
            f"{PREFIX}INDEX_URL is set but {PREFIX}STORE_URL is not",
            f"set {PREFIX}STORE_URL to the farm's store, for example file:///mnt/opfarm",
        )
    if read.reconnect_seconds > read.job_lease_seconds:
        yield (
            f"{PREFIX}RECONNECT_SECONDS = {read.reconnect_seconds:g} is more than {PREFIX}JOB_LEASE_SECONDS = "
            f"{read.job_lease_seconds:g}: a member that tries for so long has lost its pins meanwhile",
            f"shorten {PREFIX}RECONNECT_SECONDS or lengthen {PREFIX}JOB_LEASE_SECONDS",
        )


def environment(subject: Subject) -> Finding:
    """Whether a variable misleads the farm, its store or whoever set it."""
    environ = subject.environ
    found = [*_unknown(environ), *_proxies(environ, subject.store_url or ""), *_loaded(environ), *_compiler(environ)]
    if found:
        return Finding(False, "; ".join(what for what, _ in found), "; ".join(dict.fromkeys(fix for _, fix in found)))
    return Finding(True, "no variable misleads")


def _unknown(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    known = variables()
    for name in sorted(environ):
        if name.upper().startswith(PREFIX) and name not in known:
            near = get_close_matches(name.upper(), known, n=1, cutoff=0.7)
            yield f"{name} is no setting", f"did you mean {near[0]}?" if near else f"unset {name}"


def _proxies(environ: Mapping[str, str], store_url: str) -> Iterator[tuple[str, str]]:
    if not store_url.startswith("s3://"):
        return
    hosts = [urlsplit(value).hostname or "" for name, value in environ.items() if name.startswith("AWS_ENDPOINT")]
    spared = (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(",")
    for name in _PROXIES:
        value = environ.get(name) or environ.get(name.lower())
        if value and not all(_is_spared(host, spared) for host in hosts or ["amazonaws.com"]):
            yield (
                f"{name} sends the requests to {store_url} through {public(value)}",
                "name the store's host in NO_PROXY",
            )


def _is_spared(host: str, spared: list[str]) -> bool:
    return any(
        one == "*" or (one and (host == one or host.endswith("." + one)))
        for one in (part.strip().lstrip(".") for part in spared)
    )


def _loaded(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if preload := environ.get("LD_PRELOAD"):
        yield f"LD_PRELOAD = {preload} is loaded into every program that is started here", "unset LD_PRELOAD"
    if home := environ.get("PYTHONHOME"):
        yield f"PYTHONHOME = {home} replaces Python's own library", "unset PYTHONHOME"
    for folder in filter(None, environ.get("PYTHONPATH", "").split(os.pathsep)):
        for name in _OURS:
            if _shadows(Path(folder), name):
                yield (
                    f"PYTHONPATH has {folder}, whose {name} hides the one that is installed",
                    f"take {folder} out of PYTHONPATH",
                )


def _shadows(folder: Path, name: str) -> bool:
    """Whether Python would find another module of this name there than the one that belongs to this farm."""
    installed = {Path(__file__).parents[3], *(Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib"))}
    if folder.resolve() in {path.resolve() for path in installed}:
        return False
    return (folder / name / "__init__.py").exists() or (folder / f"{name}.py").exists()


def _compiler(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    given = [name for name in _COMPILER if environ.get(name)]
    if given:
        yield (
            f"{', '.join(given)}: compilers that you call see it, the farm's do not",
            "give such folders and flags in the operators: source.include_dirs, options.flags",
        )


def celery_variables(subject: Subject) -> Finding:
    """Whether other Celery programs that are started here would be led to another farm."""
    try:
        ours = {subject.addresses.broker_url, subject.addresses.result_url}
    except FarmError:
        ours = set()
    found = [
        f"{name} = {public(value)}" for name in _CELERY if (value := subject.environ.get(name)) and value not in ours
    ]
    if found:
        return Finding(
            False, f"{', '.join(found)}: the farm does not follow it, other Celery programs would",
            "unset it, or expect Flower and scripts of your own to look elsewhere than celery -A farm",
        )  # fmt: skip
    return Finding(True, "none that would lead other Celery programs elsewhere")
