"""The coordinator's jobs in the test's own process: a real server, a store in memory, messages only noted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import redis

from farm.addresses import Addresses
from farm.client.connection import Connection
from farm.coordinator.loop import Coordinator
from farm.coordinator.space import Space
from farm.index import names
from farm.index.index import Index
from farm.index.jobs import Member, as_member
from farm.index.outcomes import Membership
from farm.index.registry import Registry, Worker
from farm.namespace import BundleId, Namespace, bundle_path
from farm.request.wire import pack as pack_request
from farm.settings import Settings
from farm.store.bundle import Bundle, BundleFile
from farm.store.bundle import pack as pack_bundle
from farm.store.store import Store
from tests.lua.world import LEASE, record_of
from tests.unit.workers.requests import shell

MEGABYTE = 1048576
QUEUE = "compile.host.0123456789ab"


class Noted:
    """Messages, noted instead of sent; ``left`` wait at the broker."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.steps: list[str] = []
        self.left: set[str] = set()
        #: Queues that were looked at.
        self.seen: list[str] = []

    def send(self, namespace: Namespace, queue: str, count: int) -> None:
        self.sent[queue] += count

    def send_step(self, id: str) -> None:
        self.steps.append(id)

    def is_drained(self, queue: str) -> bool:
        self.seen.append(queue)
        return queue not in self.left


class Desk:
    """One farm, whose coordinators are called by hand."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.server: Any = redis.Redis.from_url(url)
        self.store = Store.open("memory://")
        self.messages = Noted()
        self.registry = Registry(self.server)
        #: Nobody is too young to be aged, and what is condemned goes at once, unless a test says otherwise.
        self.settings = Settings(min_idle_seconds=0, sweep_grace_seconds=0)
        self._token = time.time_ns() // 1000

    def set(self, **settings: Any) -> None:
        """Other settings from now on."""
        self.settings = self.settings.model_copy(update=settings)

    def space(self, soc: str = "a", cache: str = "default", *, listed: bool = True) -> Space:
        """A namespace, open at generation 1 and known to the farm."""
        index = Index(self.server, Namespace(cache, soc))
        if listed:
            self.server.sadd(names.NAMESPACES, str(index.namespace))
        index.open(1)
        return Space(
            index, self.store, self.registry, self.settings,
            lambda queue, count: self.messages.send(index.namespace, queue, count), self.messages.is_drained,
        )  # fmt: skip

    def coordinator(self, **environ: str) -> Coordinator:
        """One more coordinator."""
        addresses = Addresses(self.url, "", "", "memory://")
        connection = Connection(self.settings, addresses, self.server, self.store, self.registry)
        return Coordinator(connection, self.messages, environ)  # type: ignore[arg-type]

    def put(self, space: Space, keys: Sequence[bytes], size: int = 1000, generation: int = 1) -> list[BundleId]:
        """Idle entries whose bundles, not worth opening, lie in the store; used last in their order."""
        found = []
        for key in keys:
            self._token += 1
            at = BundleId(generation, key, self._token)
            self.store.put(self.path(space, at), b"a bundle")
            found.append(at)
        space.index.adopt([(at, record_of(at.token, size)) for at in found])
        now_ms = int(time.time() * 1000)
        scores = {at.key: now_ms - 1000 - len(found) + n for n, at in enumerate(found)}
        self.server.zadd(f"{space.index.prefix}idle:{generation}", scores, xx=True)
        return found

    def bundle(self, space: Space, key: bytes, generation: int = 1, *, damaged: bool = False) -> BundleId:
        """A whole bundle in the store, of which the index knows nothing."""
        self._token += 1
        at = BundleId(generation, key, self._token)
        files = (BundleFile("kernel.o", 0o444, b"code"),)
        data = pack_bundle(Bundle(key, files, pack_request(shell(""), lambda blob: True), {"compile_ms": 1}))
        self.store.put(self.path(space, at), data[:-1] if damaged else data)
        return at

    @staticmethod
    def path(space: Space, at: BundleId) -> str:
        return bundle_path(space.index.namespace, at.generation, at.key, at.token)

    def keys(self, space: Space) -> set[bytes]:
        """The keys of all entries."""
        return {key for chunk in space.index.entries() for _, key, _ in chunk}

    def join(self, space: Space, job: str = "job", lease_ms: int = LEASE) -> Member:
        """The only member of a job."""
        who = Member(job, "m", "enable", 1, b"{}", lease_ms)
        answer = space.index.join(who)
        assert isinstance(answer, Membership)
        return as_member(who, answer)

    def worker(self, *queues: str, slots: int = 2) -> None:
        """A worker that says it lives."""
        worker = Worker(id=f"w{slots}", slots=slots, queues=queues, host="h", pid=1)
        self.registry.register(worker, [], 60_000)
