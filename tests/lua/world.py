"""A namespace on the real server, with its time in the test's hands and the invariants checked after every call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis

from farm.index.claims import RetryRules
from farm.index.index import Index
from farm.index.invariants import check
from farm.index.jobs import Holding, Member, Want, as_member
from farm.index.outcomes import Answer, Membership, Published, Taken
from farm.index.record import Record
from farm.index.scripts import Argument, Scripts
from farm.index.snapshot import Rows, Snapshot, read, read_rows
from farm.namespace import Namespace

T0 = 1_800_000_000_000
LEASE = 300_000
CLAIM_LEASE = 20_000
RULES = RetryRules()
QUEUE = "compile.host.0123456789ab"


def key(n: int | str) -> bytes:
    """A key; 0 to 5 hold the bytes that a careless pattern would trip over."""
    odd = {0: b"\0" * 32, 1: b"\n" * 32, 2: b"%d(." * 8, 3: b":-@ " * 8, 4: b"\xff\0:\r\n%" * 5 + b"\0\0", 5: b"0" * 32}
    return odd.get(n) or hashlib.sha256(str(n).encode()).digest()  # type: ignore[call-overload, no-any-return]


def keys(count: int) -> list[bytes]:
    """That many keys, the odd ones among them."""
    return [key(n) for n in range(count)]


class Watched(Scripts):
    """Runs scripts as in production, remembers every call, and checks the invariants after each."""

    def __init__(self, world: World, scripts: Scripts) -> None:
        super().__init__(scripts.server, scripts.meta_key)
        self.world = world
        self.sent: list[tuple[str, tuple[Argument, ...]]] = []

    def _send(self, name: str, batch: list[tuple[Argument, ...]]) -> list[Any]:
        replies = super()._send(name, batch)
        self.sent += [(name, arguments[:-1]) for arguments in batch]
        self.world.check()
        return replies


class World:
    """One namespace, open at generation 1."""

    def __init__(self, url: str) -> None:
        self.redis = redis.Redis.from_url(url)
        self.index = Index(self.redis, Namespace("default", "Ascend910B1"), now_ms=T0)
        self.scripts = Watched(self, self.index.scripts)
        self.index.scripts = self.scripts
        self.watched = True
        #: As it was after the last call.
        self.seen: Snapshot
        self.index.open(1)

    def pass_time(self, ms: int) -> None:
        """Let that much time go by."""
        assert self.index.now_ms
        self.index.now_ms += ms

    # -- looking ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """All invariants hold."""
        if self.watched:
            self.seen = self.snapshot()
            assert check(self.seen) == []

    def snapshot(self) -> Snapshot:
        return read(self.index)

    def rows(self) -> Rows:
        """Everything in the namespace but the answers to deliveries, which age by themselves."""
        return {name: value for name, value in read_rows(self.index).items() if not name.startswith(b"d:")}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Nothing in the namespace is another after the block."""
        before = self.rows()
        yield
        assert self.rows() == before

    def pins(self, *which: bytes, generation: int = 1) -> list[int]:
        """The number of jobs interested in each key."""
        counts = self.redis.hmget(f"{self.index.prefix}i:{generation}", which)
        return [int(count or 0) for count in counts]

    # -- calls sent again ------------------------------------------------------------------------------

    def resend(self, script: str) -> Any:
        """The last call of a script arrives once more, now."""
        arguments = next(sent for name, sent in reversed(self.scripts.sent) if name == script)
        return self.scripts.run(script, *arguments, now_ms=self.index.now_ms)

    def resend_unchanged(self, *scripts: str) -> None:
        """The last call of each script arrives once more and changes nothing."""
        for script in scripts:
            with self.unchanged():
                self.resend(script)

    # -- short ways to a state -------------------------------------------------------------------------

    def join(self, job: str = "job", member: str = "m", priority: int = 1, **fields: Any) -> Member:
        """A member of a job."""
        who = Member(job, member, fields.pop("mode", "enable"), priority, b"{}", LEASE, **fields)
        answer = self.index.join(who)
        assert isinstance(answer, Membership)
        return as_member(who, answer)

    def claim(self, who: Member, *which: bytes, queue: str = QUEUE, nonce: str = "n") -> list[Answer]:
        """Claim keys, asked for or not."""
        answers = self.index.claim(who, [Want(k, b"request of " + k, queue) for k in which], nonce)
        assert isinstance(answers, list)
        return answers

    def take(self, nonce: str, queue: str = QUEUE, worker: str = "w") -> Taken:
        """The next claim runs."""
        taken = self.index.take(queue, worker, nonce, CLAIM_LEASE)
        assert isinstance(taken, Taken)
        return taken

    def publish(self, taken: Taken) -> Record:
        """The claim's compile is done."""
        record = record_of(taken.claim.token)
        assert isinstance(self.index.publish(taken.claim, record), Published)
        return record

    def compiled(self, who: Member, *which: bytes) -> list[Holding]:
        """Entries that the job has pinned."""
        self.claim(who, *which)
        taken = [self.take(f"delivery {len(self.scripts.sent)}") for _ in which]
        done = {each.claim.key: Holding(each.claim.generation, each.claim.key, self.publish(each)) for each in taken}
        self.drain()
        return [done[k] for k in which]

    def idle(self, *which: bytes) -> list[Holding]:
        """Entries that nobody uses."""
        who = self.join("maker of idle entries")
        held = self.compiled(who, *which)
        self.end(who)
        return held

    def end(self, who: Member) -> None:
        """The only member leaves."""
        self.index.leave(who)
        self.drain()

    def drain(self) -> None:
        """Everything that is done in chunks is done."""
        while self.index.tell() or self.index.bury():
            pass

    def told(self, who: Member) -> set[bytes]:
        """The keys of all notices to a job's run."""
        return {row[b"k"] for _, row in self.redis.xrange(f"{self.index.prefix}n:{who.run}")}

    def lose_everything(self) -> None:
        """The server comes back empty; whoever finds it so opens the namespace."""
        self.redis.flushall()
        self.pass_time(1000)
        self.index.open(1)

    def lose(self, *which: bytes) -> None:
        """The server loses all rows of these kinds; without any: everything."""
        for name in self.redis.scan_iter(match=f"{self.index.prefix}*"):
            if not which or name[len(self.index.prefix) :].partition(b":")[0] in which:
                self.redis.delete(name)


def record_of(token: int, stored_bytes: int = 1000) -> Record:
    """A record as a worker writes it."""
    return Record(token, stored_bytes, b"\xaa" * 32, "add_fp16", "Add", "host.0123456789ab", 1234)


def kinds(answers: Sequence[Answer]) -> str:
    """The answers as one letter each: Hit, Joined, Claimed, Refused, Absent."""
    return "".join(type(answer).__name__[0] for answer in answers)
