"""The compile task, and what Celery's signals mean for it. Only wiring: the work is done in ``compile.py``.

celeryd_init            find the farm and the toolchains; refuse to start where a promise would break
celeryd_after_setup     consume the queues of the toolchains found
worker_ready            register, begin to renew claims
worker_shutting_down    stop running compiles, give their claims back (the pool's stop does it in any case)
worker_shutdown, exit   leave (not every end sends the signal)
"""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Sequence
from typing import Any

from celery import signals
from celery.concurrency import get_implementation
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from farm.celery import COMPILE_TASK, app, send_compiles, waiting_messages
from farm.errors import FarmError, FarmRefused, InputError
from farm.namespace import Namespace
from farm.request.values import shown
from farm.settings import Settings
from workers.pool import TaskPool
from workers.worker import CompileWorker

logger = logging.getLogger(__name__)

#: Queues of compile work begin so; a worker that is given others only is none of ours.
PREFIX = "compile."

_worker: CompileWorker | None = None


@app.task(name=COMPILE_TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def compile(*arguments: Any) -> None:
    """Take and finish the next claim of a queue: ``args=[namespace, queue]``, which say only where there is work."""
    if _worker is None:
        raise RuntimeError("this worker serves no compile queue")
    try:
        namespace, queue = _place(arguments, _worker.queues)
    except InputError as error:
        logger.warning("a compile message is passed over: %s", error)
        return
    _worker.serve(namespace, queue)
    if _worker.has_more(namespace, queue) and _is_drained(queue):
        _send(namespace, queue)


def _place(arguments: Sequence[Any], queues: Sequence[str]) -> tuple[Namespace, str]:
    """Where a message says that there is work. Of another toolchain's queue nothing may be taken: it would be lost."""
    match arguments:
        case (str(namespace), str(queue)) if queue in queues:
            return Namespace.parse(namespace), queue
    raise InputError(f"{shown(arguments)} does not name a namespace and a queue of this worker")


@signals.celeryd_init.connect  # type: ignore[untyped-decorator]
def _prepare(conf: Any = None, options: Any = None, **_: Any) -> None:
    global _worker  # noqa: PLW0603 - what a process shares has no other place in Celery's signals
    given = options or {}
    queues, excluded = given.get("queues"), given.get("exclude_queues") or ()
    if queues and not any(queue.startswith(PREFIX) for queue in queues):
        return
    try:
        if get_implementation(given.get("pool") or conf.worker_pool) is not TaskPool:
            raise FarmRefused("compile workers bring their own pool of threads", fix="leave -P (--pool) out")
        _worker = CompileWorker(
            Settings.read(), _send, lambda queue: queue not in excluded and (not queues or queue in queues)
        )
        TaskPool.before_stop = staticmethod(_worker.shut_down)
    except FarmError as error:  # Celery would log any other exception of a signal and go on
        sys.stderr.write(f"Error: {error}\n")
        raise SystemExit(error.exit_code) from None


@signals.celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def _choose_queues(instance: Any = None, conf: Any = None, **_: Any) -> None:
    chosen = instance.app.amqp.queues
    if _worker is not None and set(chosen.consume_from) <= {conf.task_default_queue}:
        chosen.select(_worker.queues)


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def _start(sender: Any = None, **_: Any) -> None:
    if _worker is not None and not _worker.started:  # it is sent again after each reconnect to the broker
        _worker.start(slots=sender.controller.concurrency)


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _shut_down(**_: Any) -> None:
    if _worker is not None:
        _worker.shut_down()


@atexit.register
@signals.worker_shutdown.connect  # type: ignore[untyped-decorator]
def _close(**_: Any) -> None:
    if _worker is not None:
        _worker.close()


def _is_drained(queue: str) -> bool:
    """Whether claims wait without a message: they were thrown away, or the broker was emptied."""
    try:
        return waiting_messages(app, queue) == 0
    except (KombuError, RedisError, OSError):
        return False


def _send(namespace: Namespace, queue: str) -> None:
    """Send the message that a claim queued again is owed; without it the wake-ups make up for it."""
    try:
        send_compiles(app, str(namespace), queue, 1)
    except (KombuError, RedisError, OSError) as error:
        logger.warning("the broker does not take a compile message: %s", error)
