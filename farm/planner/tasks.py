"""The Celery tasks of the planner: ``farm.submit`` for clients, ``farm.step`` for the coordinator.

A message is acknowledged when its step is over; one that comes twice, or late, finds the plan as it is by then.
"""

from __future__ import annotations

import json
import logging
from functools import cache
from typing import Any

from celery import Task
from celery.exceptions import Reject
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from farm.celery import STEP_TASK, SUBMIT_TASK, app
from farm.client.connection import Connection, open_connection
from farm.client.link import Link
from farm.errors import FarmError, FarmUnavailable, InputError
from farm.failpoint import reach
from farm.index.plans import Plan, Plans
from farm.planner.step import Step, refused
from farm.request.values import shown
from farm.settings import Settings

logger = logging.getLogger(__name__)

#: Between two steps when nothing is told meanwhile: what was dropped or lost is asked for again.
POLL_MS = 30_000
#: After a part of the farm was away.
RETRY_MS = 5_000
#: The coordinator looks this long after a step for the first time.
LOOK_MS = 1_000


@app.task(name=SUBMIT_TASK, bind=True, ignore_result=True, acks_late=True)  # type: ignore[untyped-decorator]
def submit(self: Task, *arguments: Any, **options: Any) -> None:
    """Take a submission in: ``args=[manifest]``; options as ``celery -A farm submit`` has them. The job's id is the
    task's; the result comes when the job is done.
    """
    manifest = arguments[0] if len(arguments) == 1 else {"arguments": len(arguments)}
    _advance(self.request.id, {} if manifest is None else manifest, options)


@app.task(name=STEP_TASK, ignore_result=True, acks_late=True)  # type: ignore[untyped-decorator]
def step(*arguments: Any) -> None:
    """Go on with a submission that was taken in: ``args=[id]``."""
    _advance(arguments[0] if len(arguments) == 1 else None, None, None)


@cache
def _connection() -> Connection:
    return open_connection(Settings.read())


def _advance(id: Any, manifest: Any, options: dict[str, Any] | None) -> None:
    if not _is_id(id):
        logger.warning("a message about %s is passed over: that is no task's id", shown(id))
        return
    try:
        connection = _connection()
        settings = connection.settings
        link = Link(connection.addresses.index_url, settings.reconnect_seconds, logger.warning)
        plans = Plans(connection.server)
        reach("planner.before_begin")
        # A planner that died in a step is waited for as long as a worker that died in a compile.
        plan = link.call(lambda: plans.begin(id, manifest, options, round(settings.claim_lease_seconds * 1000)))
        if plan is not None:
            reach("planner.after_begin")
            _go_on(connection, link, plans, plan)
    except FarmUnavailable as error:
        logger.warning("%s: %s; another step will come", id, error)
        raise Reject(str(error), requeue=True) from None
    except InputError as error:  # what can not be kept is answered at once
        if not _give_out(id, _encoded(refused(error))):
            raise Reject(str(error), requeue=True) from None


def _is_id(id: Any) -> bool:
    """Whether something can be kept, and answered, under it; what can not would come again for ever."""
    try:
        return bool(id.encode())
    except (AttributeError, UnicodeEncodeError):
        return False


def _go_on(connection: Connection, link: Link, plans: Plans, plan: Plan) -> None:
    now_ms = link.call(plans.clock_ms)
    step = Step(connection, plan, now_ms)
    answer = plan.answer or _answer(step)
    if answer is not None:
        link.call(lambda: plans.keep_answer(plan.id, answer, plan.progress))
        reach("planner.before_result")
        if _give_out(plan.id, answer):
            reach("planner.after_result")
            hold = connection.settings.job_lease_seconds if step.options.hold is None else step.options.hold
            hold_until_ms = now_ms + round(hold * 1000)
            link.call(lambda: plans.answered(plan.id, hold_until_ms, now_ms + LOOK_MS))
            return
    is_waiting = answer is None and not plan.progress.away_since_ms
    poll_ms = min(POLL_MS, round(connection.settings.no_worker_seconds * 250) + LOOK_MS) if is_waiting else RETRY_MS
    link.call(lambda: plans.leave_off(plan.id, plan.progress, now_ms + LOOK_MS, now_ms + poll_ms))


def _answer(step: Step) -> bytes | None:
    """What is to be told, or None; a fault of ours is told too, as nobody else would."""
    try:
        document = step.run()
    except FarmUnavailable as error:
        document = step.away(error)
    except FarmError as error:
        document = refused(error)
    except Exception as error:
        logger.exception("a step failed")
        document = refused(FarmError(f"internal error: {type(error).__name__}: {error}", "please report this"))
    return None if document is None else _encoded(document)


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace")


def _give_out(id: str, answer: bytes) -> bool:
    """Store the result where the client waits for it; False: not now."""
    try:
        app.backend.store_result(id, json.loads(answer), "SUCCESS")
    except (KombuError, RedisError, OSError) as error:
        logger.warning("%s: the result backend does not take the result: %s; trying again", id, error)
        return False
    logger.info("%s: answered", id)
    return True
