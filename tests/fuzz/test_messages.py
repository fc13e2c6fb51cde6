"""Celery messages that anybody could send: each submission gets an answer, and no message harms a planner or worker."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from hypothesis import strategies as st

from farm.embedded.server import Server
from farm.errors import FarmError, InputError
from farm.index import names
from farm.index.registry import Offer, Registry, Worker
from farm.namespace import Namespace
from farm.planner import tasks as planner
from farm.planner.options import SubmitOptions
from tests.fuzz.bounds import bounded, fuzz, one_line, outcome
from tests.fuzz.mutations import documents, odd_values, texts, values
from tests.fuzz.test_manifests import MANIFEST, OP
from workers import tasks

OPTIONS: dict[str, Any] = {
    "mode": "enable", "cache": "c", "soc": "sm_90", "toolchain": "cuda", "priority": "normal", "owner": "k=v",
    "op_debug_level": 0, "op_debug_config": "op_debug_config=oom", "aicore_num": "2|4", "jit_compile": "auto",
    "timeout": 5,
    "hold": 1.5,
}  # fmt: skip
_ids = itertools.count()


def as_sent(value: Any) -> Any:
    """What is left of a value on its way through Celery's JSON, or None if it would not get there."""
    try:
        return json.loads(json.dumps(value))
    except (ValueError, TypeError, RecursionError):
        return None


OFFERS = [
    Offer(
        name, "abcd" * 16, "1.0",
        schema={"flags": {"kind": "strings", "default": [], "choices": [], "doc": ""},
                "argv": {"kind": "strings", "default": [], "choices": [], "doc": ""},
                "outputs": {"kind": "strings", "default": [], "choices": [], "doc": ""},
                "env": {"kind": "map", "default": {}, "choices": [], "doc": ""},
                "defines": {"kind": "map", "default": {}, "choices": [], "doc": ""}},
    )
    for name in ("cuda", "host", "command")
]  # fmt: skip


def offer_all(server: Server) -> None:
    """Toolchains of a worker that was there once: keys can be made, and nothing is compiled."""
    with redis.Redis.from_url(server.url) as client:
        Registry(client).register(Worker("gone", "host", 1, 1, tuple(offer.queue for offer in OFFERS)), OFFERS, 1)


@pytest.fixture
def planned(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A planner in this process, of a farm without workers that live."""
    offer_all(server)
    monkeypatch.setenv("FARM_INDEX_URL", server.url)
    monkeypatch.setenv("FARM_STORE_URL", f"file://{tmp_path}/store")
    monkeypatch.setenv("FARM_RECONNECT_SECONDS", "0.2")
    monkeypatch.setenv("FARM_FORCE_TIMEOUT_SECONDS", "0.1")
    planner._connection.cache_clear()
    logging.disable(logging.CRITICAL)
    yield server
    logging.disable(logging.NOTSET)
    planner._connection.cache_clear()


@fuzz(55, documents([OPTIONS]))
def test_options(given: Any) -> None:
    given = as_sent(given)
    if isinstance(given, dict):
        read = outcome(lambda: SubmitOptions.read(given))
        if not isinstance(read, FarmError):
            found = outcome(read.shaping)
            assert not isinstance(found, FarmError) or isinstance(found, InputError)


TEXT_ONLY = {"version": 1, "soc": "sm_90", "ops": [OP, OP | {"name": "b", "toolchain": "host@abcd"}]}


@fuzz(
    30,
    documents([[MANIFEST], [TEXT_ONLY], [json.dumps(TEXT_ONLY)]]) | st.lists(values, max_size=3),
    st.just({}) | documents([OPTIONS]),
)
def test_each_submission_is_answered_or_kept(planned: Server, arguments: Any, options: Any) -> None:
    arguments, options, id = as_sent(arguments), as_sent(options), f"fuzz-{next(_ids)}"
    if not isinstance(arguments, list) or not isinstance(options, dict):
        return
    answers: list[Any] = []
    backend = SimpleNamespace(store_result=lambda id, answer, state: answers.append(answer))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "app", SimpleNamespace(backend=backend))
        with bounded():
            result = planner.submit.apply(args=arguments, kwargs=options, task_id=id)
        assert result.state == "SUCCESS", (result.state, result.result)
    is_kept = planner._connection().server.zscore(names.PLANS, id) is not None
    assert answers or is_kept
    for answer in answers:
        one_line(answer["error"]["message"])
        assert answer["error"]["code"] not in ("error",), answer


@fuzz(15, odd_values | texts)
def test_steps_of_nothing(planned: Server, id: Any) -> None:
    if (id := as_sent(id)) is not None:
        result = planner.step.apply(args=[id])
        assert result.state == "SUCCESS", (result.state, result.result)


QUEUE = "compile.host.00ff"


@fuzz(30, documents([["default/sm_90", QUEUE]]) | st.lists(values, max_size=3))
def test_compile_messages(arguments: Any) -> None:
    if not isinstance(arguments := as_sent(arguments), list):
        return
    served: list[Any] = []
    worker = SimpleNamespace(queues=(QUEUE,), serve=lambda *where: served.append(where), has_more=lambda *where: False)
    logging.disable(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "_worker", worker)
        result = tasks.compile.apply(args=arguments)
    logging.disable(logging.NOTSET)
    assert result.state == "SUCCESS", (result.state, result.result)
    assert all(isinstance(namespace, Namespace) and queue == QUEUE for namespace, queue in served)
