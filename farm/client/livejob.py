"""A job that lives, as somebody sees it who has not submitted it: its part in each namespace, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from farm.client.connection import Connection
from farm.client.identity import checked, member_id, owner_labels
from farm.client.link import Link
from farm.client.part import Part
from farm.errors import InputError
from farm.index.index import Index
from farm.index.joblist import JobRow, find_jobs
from farm.index.jobs import Member
from farm.namespace import Namespace

How = Literal["keep", "cancel"]


class LiveJob:
    """Finds a job in all namespaces of the farm; does not become a member of it.

    Raises:
        InputError: no job has such an id.
    """

    def __init__(self, connection: Connection, job_id: str, say: Callable[[str], None]) -> None:
        settings = connection.settings
        self.id = checked(job_id)
        self.link = Link(connection.addresses.index_url, settings.reconnect_seconds, say)
        self._connection = connection
        self._member = member_id()

    def look(self) -> dict[Namespace, JobRow]:
        """Where the job is now, lapsed or not."""
        return self.link.call(lambda: dict(self._rows()))

    def _rows(self) -> Iterator[tuple[Namespace, JobRow]]:
        for namespace in self._connection.namespaces():
            found = find_jobs(Index(self._connection.server, namespace), [self.id])
            if self.id in found:
                yield namespace, found[self.id]

    def part(self, namespace: Namespace, row: JobRow) -> Part:
        """A stand of our own in that namespace, for this incarnation; a member from its first heartbeat on."""
        lease_ms = round(self._connection.settings.job_lease_seconds * 1000)
        who = Member(self.id, self._member, row.mode, row.priority, row.owner, lease_ms, row.incarnation, row.floor)
        return Part(Index(self._connection.server, namespace), self._connection.store, self.link, who)

    def end(self, how: How) -> dict[Namespace, JobRow]:
        """End the job for all its members, wherever it is; its pins are given back. Safe to repeat.

        Returns where it was.

        Raises:
            InputError: it is not there: it never was, or has ended.
        """
        labels = owner_labels(self._connection.settings.owner)
        by = f"{labels['user']}@{labels['host']}"
        rows = self.look()
        ended = {namespace: row for namespace, row in rows.items() if self.part(namespace, row).end(how, by)}
        if not ended:
            raise unknown(self.id)
        return ended


def unknown(job_id: str) -> InputError:
    """No such job."""
    return InputError(f"no live job has the id {job_id}", fix="see: celery -A farm job ls")
