"""The coordinator's messages to workers; a broker that is away costs nothing but time."""

from __future__ import annotations

import logging

from celery import Celery
from kombu.exceptions import OperationalError

from farm.celery import send_compiles, send_step, waiting_messages
from farm.namespace import Namespace

logger = logging.getLogger(__name__)


class Messages:
    """Sends compile messages through one Celery application."""

    def __init__(self, application: Celery) -> None:
        self._application = application

    def send(self, namespace: Namespace, queue: str, count: int) -> None:
        """Send; what the broker does not take is sent again by a later wake-up."""
        try:
            send_compiles(self._application, str(namespace), queue, count)
        except (OperationalError, OSError) as error:
            logger.warning("the broker does not take compile messages: %s", error)

    def send_step(self, id: str) -> None:
        """Send a planner to a submission; what the broker does not take is sent after the next look."""
        try:
            send_step(self._application, id)
        except (OperationalError, OSError) as error:
            logger.warning("the broker does not take a planner's message: %s", error)

    def is_drained(self, queue: str) -> bool:
        """Whether no message of the queue waits at the broker."""
        try:
            return waiting_messages(self._application, queue) == 0
        except (OperationalError, OSError):
            return False
