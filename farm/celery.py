"""The Celery application: ``celery -A farm ...``.

Compile messages say only where there is work: (namespace, queue). Which claim is compiled, the index decides, so a
lost, doubled or late message harms nothing; they are acknowledged early and never prefetched. Submissions of clients
that have only Celery come in as messages too, and are kept in the index before they are acknowledged.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from celery import Celery
from celery.loaders.app import AppLoader

from farm.addresses import Addresses
from farm.errors import FarmError
from farm.settings import Settings

COMPILE_TASK = "farm.compile"
SUBMIT_TASK = "farm.submit"
STEP_TASK = "farm.step"
#: The planners' queue, for both of theirs.
JOBS_QUEUE = "farm.jobs"

#: Bounds for a broker that does not answer: an error within seconds, never a hang.
_TRANSPORT = {
    "socket_connect_timeout": 2,
    "socket_timeout": 30,
    "socket_keepalive": True,
    "max_retries": 0,
    # Only the planner acknowledges late: what one that died had in hand is given to another after this time; looked
    # for at every turn of kombu's timer (10 s), not at every tenth.
    "visibility_timeout": 20,
    "unacked_restore_throttle": 1,
}
_MESSAGES_A_TRIP = 500
_NO_RETRY = {"max_retries": 0, "interval_start": 0, "interval_step": 0, "interval_max": 0, "timeout": 2}


class _Loader(AppLoader):  # type: ignore[misc]
    """Reads no module that CELERY_CONFIG_MODULE names: the farm's settings are its own."""

    def read_configuration(self, env: str = "") -> dict[str, Any]:
        """Nothing but what is configured here."""
        return {}


class FarmCelery(Celery):  # type: ignore[misc]
    """Celery, with our own broker, backend and settings whatever the environment says to Celery."""

    loader_cls = _Loader

    def _get_default_loader(self) -> Any:
        """Not CELERY_LOADER's, which is somebody else's."""
        return self.loader_cls

    def connection_for_read(self, url: str | None = None, **options: Any) -> Any:
        """The farm's broker, also when CELERY_BROKER_READ_URL names another."""
        return super().connection_for_read(url or self.conf.get("broker_url"), **options)

    def connection_for_write(self, url: str | None = None, **options: Any) -> Any:
        """The farm's broker, also when CELERY_BROKER_WRITE_URL names another."""
        return super().connection_for_write(url or self.conf.get("broker_url"), **options)

    @property
    def backend_cls(self) -> Any:
        """The backend as configured here; Celery's own look-up lets the environment win."""
        return self.conf.first("result_backend")


def create(addresses: Addresses | None = None) -> Celery:
    """An application for these addresses; without them they are looked up when they are first needed."""
    application = FarmCelery("farm", include=["workers.tasks", "farm.planner.tasks"], set_as_current=addresses is None)
    application.add_defaults(lambda: _configuration(addresses or _find()))
    return application


def _find() -> Addresses:
    try:
        return Addresses.find(Settings.read())
    except FarmError as error:  # Celery's own commands would show a traceback
        sys.stderr.write(f"Error: {error}\n")
        raise SystemExit(error.exit_code) from None


def _configuration(addresses: Addresses) -> dict[str, Any]:
    return {
        "broker_url": addresses.broker_url,
        # These two beat CELERY_BROKER_URL in the environment, which would beat the first.
        "broker_read_url": addresses.broker_url,
        "broker_write_url": addresses.broker_url,
        "result_backend": addresses.result_url,
        "broker_transport_options": _TRANSPORT,
        "result_backend_transport_options": {"retry_policy": _NO_RETRY},
        "redis_socket_connect_timeout": 2,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_publish_retry": False,
        "worker_disable_prefetch": True,
        "worker_prefetch_multiplier": 1,
        "worker_pool": "workers.pool:TaskPool",
        "worker_cancel_long_running_tasks_on_connection_loss": False,
    }


def send_compiles(application: Celery, namespace: str, queue: str, count: int) -> None:
    """Send ``count`` compile messages to a queue, over a connection of its own (safe after a fork).

    Raises:
        kombu.exceptions.OperationalError: the broker did not take them; claims stay, wake-ups follow.
    """
    with (
        application.connection_for_write() as connection,
        application.amqp.Producer(connection) as producer,
        producer.batch(_MESSAGES_A_TRIP),
    ):
        for _ in range(count):
            application.send_task(
                COMPILE_TASK, args=[namespace, queue], queue=queue, producer=producer,
                ignore_result=True, argsrepr="", kwargsrepr="",
            )  # fmt: skip


def send_step(application: Celery, id: str) -> None:
    """Send a planner to a submission that was taken in.

    Raises:
        kombu.exceptions.OperationalError: the broker did not take it; the coordinator looks again.
    """
    with application.connection_for_write() as connection, application.amqp.Producer(connection) as producer:
        application.send_task(STEP_TASK, args=[id], queue=JOBS_QUEUE, producer=producer, ignore_result=True)


def waiting_messages(application: Celery, queue: str) -> int:
    """How many messages of a queue no worker has fetched yet."""
    with application.connection_for_write() as connection:
        return int(connection.default_channel.queue_declare(queue).message_count)


def _bind_workers() -> None:
    """Bind the name ``workers`` to our package before Celery puts the user's folder first on the path."""
    spec = PathFinder.find_spec("workers", [str(Path(__file__).parents[1])])
    if "workers" not in sys.modules and spec is not None and spec.loader is not None:
        sys.modules["workers"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


_bind_workers()
app = create()
