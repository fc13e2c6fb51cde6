"""Celery's broker and result backend: there, and reached as workers and clients reach them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from farm.client.connection import public
from farm.commands.doctor.subject import Finding, NotExamined, Subject
from farm.errors import FarmError

if TYPE_CHECKING:
    from celery import Celery

_ANSWER_SECONDS = 5


def broker(subject: Subject) -> Finding:
    """Whether compile messages can be sent."""
    url = _examinable(subject, "broker_url")
    try:
        with _application(subject).connection_for_write() as connection:
            connection.default_channel.close()
    except Exception as error:  # each transport has errors of its own
        raise _no_answer("broker", url, "FARM_BROKER_URL", error) from None
    return Finding(True, f"{public(url)} answers")


def results(subject: Subject) -> Finding:
    """Whether results of Celery tasks can be stored."""
    url = _examinable(subject, "result_url")
    try:
        backend = _application(subject).backend
        if not hasattr(backend, "client"):
            return Finding(True, f"{public(url)}: a backend of this kind is not asked")
        backend.client.ping()
    except Exception as error:  # as above
        raise _no_answer("result backend", url, "FARM_RESULT_URL", error) from None
    return Finding(True, f"{public(url)} answers")


def _examinable(subject: Subject, name: str) -> str:
    try:
        url = str(getattr(subject.addresses, name))
    except FarmError as error:
        raise NotExamined(f"not examined: {error.message}", error.fix) from None
    if isinstance(subject.reached, FarmError) and _place(url) == _place(subject.index_url or ""):
        raise NotExamined(f"not examined: {public(url)} is the index's server", "mend check server first")
    return url


def _place(url: str) -> tuple[str | int | None, ...]:
    """Host and port, or the path of a socket."""
    parts = urlsplit(url)
    return (parts.hostname, parts.port or 6379) if parts.hostname else (parts.path,)


def _application(subject: Subject) -> Celery:
    from farm.celery import create  # noqa: PLC0415 - Celery's own parts take a while

    application = create(subject.addresses)
    application.conf.broker_transport_options |= {"socket_timeout": _ANSWER_SECONDS}
    application.conf.redis_socket_timeout = _ANSWER_SECONDS
    return application


def _no_answer(what: str, url: str, variable: str, error: Exception) -> FarmError:
    return FarmError(
        f"the {what} {public(url)} does not answer: {type(error).__name__}: {error}",
        fix=f"start it, or correct {variable}",
    )
