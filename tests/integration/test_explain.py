"""``cache explain``: one thing is changed about an operator, and exactly that is told, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from farm.client.connection import Connection
from farm.client.explaining import Explainer, Explanation
from farm.client.toolchains import prepare
from farm.commands.cache.explain import in_words
from farm.embedded.server import Server
from farm.errors import FarmUnavailable, InputError
from farm.index.index import Index
from farm.index.record import Record
from farm.index.registry import Offer, Registry, Worker
from farm.index.slots import tensor_slot
from farm.index.snapshot import read_rows
from farm.namespace import BundleId, Namespace, bundle_path
from farm.request.model import Blob, Request, Tensor
from farm.request.options import OptionSpec, to_wire
from farm.request.wire import pack
from farm.store.bundle import Bundle, BundleFile
from farm.store.bundle import pack as pack_bundle
from farm.store.store import Store
from tests.support.kit import Kit, op, running, until
from tests.unit.request.sample import sample, source

SCHEMA = to_wire({"flags": OptionSpec("strings", ()), "defines": OptionSpec("map", {}), "std": OptionSpec("str", "")})
OLD, NEW, NEWER_BUILD = (
    Offer("cuda", digit * 64, version, ("sm_90",), schema=SCHEMA)
    for digit, version in (("a", "13.4"), ("b", "13.5"), ("c", "13.5"))
)
NAMESPACE = Namespace("default", "sm_90")


class Cache:
    """A farm without workers, whose entries are put in place."""

    def __init__(self, url: str) -> None:
        self.server = redis.Redis.from_url(url)
        self.index = Index(self.server, NAMESPACE)
        self.store = Store.open("memory://")
        self.registry = Registry(self.server)
        self.registry.register(Worker("w", "h", 1, 1, (OLD.queue,)), [OLD], 60_000)
        self.index.open(1)
        self.tokens = 0

    def put(self, request: Request, offer: Offer = OLD) -> bytes:
        """The entry of an operator; returns its key."""
        resolved, key = prepare(request, offer)
        self.tokens += 1
        about = {"toolchain": offer.toolchain, "version": offer.version, "fingerprint": offer.fingerprint}
        files = (BundleFile("kernel.cubin", 0o444, b"code"),)
        bundle = Bundle(key, files, pack(resolved, lambda blob: True), about)
        data = pack_bundle(bundle)
        self.store.put(bundle_path(NAMESPACE, 1, key, self.tokens), data)
        record = Record(
            self.tokens, len(data), bundle_sha256(data), request.name, request.type, offer.toolchain, 1,
            tensor_slot(request),
        )  # fmt: skip
        assert self.index.adopt([(BundleId(1, key, self.tokens), record)]) == 1
        return key

    def explain(self, *requests: Request) -> list[Explanation]:
        connection = Connection(None, None, self.server, self.store, self.registry)  # type: ignore[arg-type]
        return Explainer(connection, "default").explain(requests)

    def words(self, request: Request) -> list[str]:
        (one,) = self.explain(request)
        return in_words(one.differs)


def bundle_sha256(data: bytes) -> bytes:
    return Blob.of(data).sha256


@pytest.fixture
def cache(server: Server) -> Iterator[Cache]:
    cache = Cache(server.url)
    yield cache
    cache.server.close()


OTHER = Blob.of(b"other bytes")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"attrs": {**sample().attrs, "axis": 1}}, ["attr axis: -1 → 1"]),
        ({"attrs": {**sample().attrs, "more": True}}, ["attr more added: true"]),
        ({"attrs": {"axis": -1}}, ["attr nested.eps removed: 1.5", 'attr nested.list removed: [1, "x", null]']),
        ({"source": source(main=OTHER)}, ["source changed"]),
        ({"source": source(files={**source().files, "half.h": OTHER})}, ["header half.h changed"]),
        ({"source": source(files={**source().files, "new.h": OTHER})}, ["header new.h added"]),
        ({"source": source(files={"half.h": Blob.of(b"// half")})}, ["header ../up/one.h removed"]),
        ({"options": {"flags": ["-O2"], "defines": {"BLOCK": 128}}}, ["option defines.BLOCK: 256 → 128"]),
        ({"options": {"flags": ["-O3"], "defines": {"BLOCK": 256}}}, ['option flags: ["-O2"] → ["-O3"]']),
        ({"depends": {"bank": b"\2" * 32}}, ["depends bank changed"]),
        ({"entry": "other"}, ['entry: "add_kernel" → "other"']),
        ({"outputs": (Tensor((32, 64), "float16"),)}, ["output 0 shape: [32, 128] → [32, 64]"]),
    ],
)
def test_one_change_is_told_in_words(cache: Cache, changed: dict[str, Any], words: list[str]) -> None:
    there = cache.put(sample())
    (one,) = cache.explain(sample(**changed))
    assert (one.standing.state, one.nearest, one.nearest_name) == ("absent", there, "add_fp16")
    assert in_words(one.differs) == words


@pytest.mark.parametrize("changed", [{"name": "another"}, {"options": {**sample().options, "std": ""}}])
def test_what_is_not_in_the_key_is_no_difference(cache: Cache, changed: dict[str, Any]) -> None:
    there = cache.put(sample())
    (one,) = cache.explain(sample(**changed))
    assert (one.standing.state, one.nearest, one.differs) == ("present", there, ())


def test_a_compiler_is_told_by_its_version(cache: Cache) -> None:
    there = cache.put(sample())
    cache.registry.register(Worker("w", "h", 1, 1, (NEW.queue,)), [NEW], 60_000)
    assert cache.words(sample()) == ["toolchain: cuda 13.4 → 13.5"]
    assert cache.words(sample(fingerprint=OLD.fingerprint[:8])) == []
    both = cache.words(sample(entry="other"))
    assert both == ["toolchain: cuda 13.4 → 13.5", 'entry: "add_kernel" → "other"']
    cache.put(sample(), NEW)
    assert cache.explain(sample())[0].nearest != there


def test_two_builds_of_one_version_are_told_by_their_fingerprints(cache: Cache) -> None:
    cache.put(sample(), NEWER_BUILD)
    cache.registry.register(Worker("w", "h", 1, 1, (NEW.queue,)), [NEW], 60_000)
    assert cache.words(sample()) == [
        "toolchain: cuda 13.5 (fingerprint cccccccccccc) → 13.5 (fingerprint bbbbbbbbbbbb)"
    ]


def test_the_same_tensors_come_before_the_same_name_and_that_before_the_latest(cache: Cache) -> None:
    shapes = {n: (Tensor((n, 128), "float16"),) for n in (8, 16, 32, 64)}
    keys = {n: cache.put(sample(name=f"add_{n}", inputs=shapes[n])) for n in (8, 16, 32)}
    named = cache.explain(sample(name="add_8", inputs=shapes[64]), sample(name="new", inputs=shapes[64]))
    assert [one.nearest for one in named] == [keys[8], keys[32]]
    (alike,) = cache.explain(sample(name="add_8", inputs=shapes[16], entry="other"))
    assert alike.nearest == keys[16]
    assert cache.explain(sample(type="Sub"))[0].nearest is None


def test_entries_and_bundles_that_are_gone_or_bad_are_passed_over(cache: Cache, monkeypatch: Any) -> None:
    first, second = sample(name="first"), sample(name="second", inputs=(Tensor((8,), "float16"),))
    keys = cache.put(first), cache.put(second)
    asked = replace(second, entry="other")
    assert cache.explain(asked)[0].nearest == keys[1]
    path = bundle_path(NAMESPACE, 1, keys[1], 2)
    get = cache.store.get
    monkeypatch.setattr(cache.store, "get", lambda name: b"damaged" if name == path else get(name))
    assert cache.explain(asked)[0].nearest == keys[0]
    cache.index.drop(1, keys[1], 2)
    cache.index.drop(1, keys[0], 1)
    assert cache.explain(asked)[0].nearest is None


def test_a_store_that_does_not_answer_is_told(cache: Cache, monkeypatch: Any) -> None:
    cache.put(sample())

    def get(name: str) -> bytes:
        raise FarmUnavailable("the store does not answer")

    monkeypatch.setattr(cache.store, "get", get)
    with pytest.raises(FarmUnavailable):
        cache.explain(sample(entry="other"))


def test_a_look_leaves_no_trace(cache: Cache) -> None:
    cache.put(sample())
    before = read_rows(cache.index)
    names = set(cache.server.scan_iter())
    cache.explain(sample(), sample(entry="other"), sample(type="Sub"))
    assert read_rows(cache.index) == before
    assert set(cache.server.scan_iter()) == names
    with pytest.raises(InputError, match="unknown toolchain 'no-such'"):
        cache.explain(sample(toolchain="no-such"))


def explain(kit: Kit, manifest: Path, *words: str, code: int = 0) -> Any:
    done = kit.celery("cache", "explain", str(manifest), *words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout) if "--json" in words else done.stdout


def test_explain_on_a_farm_that_works(tmp_path: Path) -> None:
    with running(tmp_path, slots=1) as kit:
        bad = op(kit, "bad", exit=1, say="ops.c:3: error: no such type\n")
        kit.submit(kit.manifest(op(kit, "there"), bad, name="before.json"))
        edited = op(kit, "there", files={"kernel.o": 7}) | {"name": "edited"}
        ops = [op(kit, "there"), edited, bad, op(kit, "slow", seconds=100), op(kit, "new") | {"type": "New"}]
        manifest = kit.manifest(*ops)
        kit.submit(kit.manifest(ops[3], name="slow.json"), "--no-wait")
        until(lambda: kit.compiles("slow"), what="the slow one is compiled")
        rows = {row["name"]: row for row in explain(kit, manifest, "--json")["ops"]}
        assert {name: row["state"] for name, row in rows.items()} == {
            "there": "present", "edited": "absent", "bad": "remembered failure", "slow": "in flight", "new": "absent",
        }  # fmt: skip
        assert rows["there"]["nearest"] == rows["there"]["key"] == rows["edited"]["nearest"]
        assert rows["there"]["differs"] == []
        (difference,) = rows["edited"]["differs"]
        assert set(difference) == {"part", "here", "there"}
        assert difference["part"] == "source"
        assert (rows["new"]["nearest"], rows["new"]["differs"]) == (None, [])
        (one,) = explain(kit, manifest, "--op", "edited", "--json")["ops"]
        assert one == rows["edited"]
        text = explain(kit, manifest)
        assert "nearest: there" in text
        assert "source changed" in text
        assert "no such type" in text
        assert "the cache has nothing of this op type" in text
        error = explain(kit, manifest, "--op", "nobody", "--json", code=2)["error"]
        assert "no operator is named 'nobody'" in error["message"]
        assert explain(kit, manifest, "--cache", "empty", "--op", "there", "--json")["ops"][0]["state"] == "absent"
        assert kit.compiles() == 3
        assert "default/test-soc" in {str(namespace) for namespace in kit.farm().namespaces()}
        assert len(kit.farm().namespaces()) == 1
