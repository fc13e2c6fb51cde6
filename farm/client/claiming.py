"""Claims absent keys: packs their requests, puts large sources into the store, and sends the messages owed."""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING

from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from farm.addresses import Addresses
from farm.client.ask import Ask
from farm.client.connection import public
from farm.client.part import Part
from farm.errors import FarmUnavailable
from farm.failpoint import reach
from farm.index.jobs import Scope, Want
from farm.index.outcomes import Answer, Claimed, Stale
from farm.request.model import Blob
from farm.request.wire import pack

if TYPE_CHECKING:
    from celery import Celery

#: A source up to this size travels in its claim; larger ones are objects of the store.
INLINE_LIMIT_BYTES = 64 * 1024
#: Together, the sources of one submission that travel in claims: the index is not a store.
INLINE_BUDGET_BYTES = 16 * 1024 * 1024


class Claiming:
    """The claims of one submission."""

    def __init__(self, addresses: Addresses, say: Callable[[str], None], patience_seconds: float = 60) -> None:
        self._addresses = addresses
        self._say = say
        self._budget_bytes = INLINE_BUDGET_BYTES
        #: Put already, in this epoch; and what the claims that are being packed name.
        self._stored: set[bytes] = set()
        self._epoch = 0
        self._through_store: dict[bytes, bytes] = {}
        self._patience_seconds = patience_seconds
        #: Since when the broker does not answer.
        self._lost_since: float | None = None

    @cached_property
    def _application(self) -> Celery:
        """Made when the first claim is sent: hits need no Celery, which takes a while to import."""
        from farm.celery import create  # noqa: PLC0415

        return create(self._addresses)

    def claim(self, part: Part, asks: Sequence[Ask]) -> list[Answer]:
        """Claim the keys of these asks, all of one scope, and send one message for each claim that is now queued."""
        wants = [Want(ask.key, pack(ask.request, self._inline), ask.offer.queue) for ask in asks]
        blobs, self._through_store = self._through_store, {}
        answers = self._claim(part, wants, asks[0].scope, blobs)
        reach("claim.after_claim")
        owed = Counter(want.queue for want, answer in zip(wants, answers, strict=True) if isinstance(answer, Claimed))
        self.send(part, owed)
        return answers

    def _claim(self, part: Part, wants: Sequence[Want], scope: Scope, blobs: Mapping[bytes, bytes]) -> list[Answer]:
        """Put the sources that the requests name, then claim; again when that took longer than they are kept for us."""
        nonce = secrets.token_hex(16)
        while True:
            lease = part.source_lease() if blobs else None
            if lease:
                self._store_sources(part, lease.epoch, blobs)
                reach("claim.after_sources")
            answers = part.claim(wants, nonce, scope, lease)
            if not isinstance(answers, Stale):
                return answers

    def _store_sources(self, part: Part, epoch: int, blobs: Mapping[bytes, bytes]) -> None:
        if epoch != self._epoch:
            self._epoch, self._stored = epoch, set()
        for sha256 in blobs.keys() - self._stored:
            part.put_source(sha256, epoch, blobs[sha256])
            self._stored.add(sha256)

    def _inline(self, blob: Blob) -> bool:
        """Decide how a blob travels; called by pack for each, once."""
        if blob.data is None:
            return False
        lies_there = blob.sha256 in self._stored or blob.sha256 in self._through_store
        if not lies_there and blob.size_bytes <= min(INLINE_LIMIT_BYTES, self._budget_bytes):
            self._budget_bytes -= blob.size_bytes
            return True
        self._through_store[blob.sha256] = blob.data
        return False

    def send(self, part: Part, owed: Counter[str]) -> None:
        """Send compile messages; a broker that does not take them now is made up for by wake-ups."""
        if not owed:
            return
        try:
            with _MESSAGING:
                from farm.celery import send_compiles  # noqa: PLC0415

                for queue, count in owed.items():
                    send_compiles(self._application, str(part.namespace), queue, count)
            self._lost_since = None
        except _BROKER_ERRORS as error:
            self._lose(error)

    def is_drained(self, queue: str) -> bool:
        """Whether no message of the queue waits at the broker; False when it does not answer."""
        try:
            with _MESSAGING:
                from farm.celery import waiting_messages  # noqa: PLC0415

                drained = waiting_messages(self._application, queue) == 0
            self._lost_since = None
        except _BROKER_ERRORS as error:
            self._lose(error)
            return False
        return drained

    def check_broker(self, queue: str) -> None:
        """While messages could not be sent: look whether the broker is back.

        Raises:
            FarmUnavailable: it has been away for longer than the settings allow.
        """
        if self._lost_since is None or self.is_drained(queue):
            return
        if self._lost_since is not None and time.monotonic() - self._lost_since >= self._patience_seconds:
            raise FarmUnavailable(
                f"the broker {public(self._addresses.broker_url)} takes no compile messages",
                fix="start it, or correct FARM_BROKER_URL",
            )

    def _lose(self, error: Exception) -> None:
        if self._lost_since is None:
            self._lost_since = time.monotonic()
            self._say(f"the broker does not answer ({error}); trying for {self._patience_seconds:g} s")


#: Held around all that imports or uses Celery: a fork in another thread waits, as the child would inherit locks
#: that nobody there lets go.
_MESSAGING = RLock()
os.register_at_fork(before=_MESSAGING.acquire, after_in_parent=_MESSAGING.release, after_in_child=_MESSAGING.release)
_BROKER_ERRORS = (KombuError, RedisError, OSError)
