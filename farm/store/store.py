"""The store: bundles, sources and markers as immutable objects under paths relative to one root.

Layout, below the root that ``FARM_STORE_URL`` names (members and workers may mount it differently):

    farm.json                             whose store this is; written once
    sources/<sha256>-<epoch>              sources and include files, content addressed
    <cache>/<soc>/generations/<n>         marker: the namespace was purged up to generation n
    <cache>/<soc>/<generation>/<key>-<token>     a bundle
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import asdict, dataclass

from farm.errors import FarmRefused, FarmUnavailable, InputError
from farm.namespace import Namespace
from farm.store.errors import StoreDamaged, StoreMissing
from farm.store.forked import HelperObjects, mark_used, must_use_helper
from farm.store.objects import Objects, open_objects
from farm.store.sourcepath import source_path

#: Larger objects are no objects of ours: a bundle of the largest content that does not shrink fits.
OBJECT_CAP_BYTES = (1 << 30) + (128 << 20)

IDENTITY_PATH = "farm.json"
_SELF_TEST_FOLDER = "farm.selftest"
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@=-]{0,254}")


@dataclass(frozen=True, slots=True)
class FarmIdentity:
    """Which farm an index or a store belongs to, and the version of its layout."""

    farm_id: str
    schema: int


class Store:
    """One farm's store. Safe to use from several threads, and in children forked from a process that used it.

    Every object is whole as soon as it can be seen, and never changes. All operations may be repeated.
    Any of them raises FarmUnavailable (naming URL and cause) when the store does not do its part, DiskFull
    when the disk is the cause; the operator mends it.
    """

    def __init__(self, url: str, objects: Objects) -> None:
        self.url = url
        self._direct = objects
        self._helper: HelperObjects | None = None
        self._identity_seen = False

    @classmethod
    def open(cls, url: str) -> Store:
        """Open ``file:///absolute/folder`` (made when absent) or ``s3://bucket/prefix`` (not contacted yet).

        Raises:
            InputError: the URL has another form.
            FarmUnavailable: the folder can not be made or is none.
        """
        return cls(url, open_objects(url))

    def get(self, path: str) -> bytes:
        """Read one object.

        Raises:
            StoreMissing: the store is there, the object is not; the reader drops its entry.
            StoreDamaged: it is larger than any good object; the reader drops its entry.
        """
        try:
            return self._objects.get(_checked(path), OBJECT_CAP_BYTES)
        except StoreMissing:
            # A share that was unmounted looks empty. Nobody may conclude from that that entries are gone.
            if self._identity_seen and not self._objects.exists(IDENTITY_PATH):
                raise FarmUnavailable(
                    f"store {self.url}: its {IDENTITY_PATH} has gone: not mounted, or emptied",
                    fix="mount the store again; if it was emptied on purpose, run cache rebuild",
                ) from None
            raise

    def put(self, path: str, data: bytes) -> None:
        """Put an object; the same bytes again are fine, so two may put the same at once.

        Raises:
            StoreDamaged: other bytes lie at that path already; they stay.
        """
        if not self._objects.create(_checked(path), data) and self.get(path) != data:
            raise StoreDamaged(
                f"store {self.url}: object {path} exists with other bytes; nothing was overwritten",
                fix="paths are unique to a take: report this with the path",
            )

    def exists(self, path: str) -> bool:
        """Whether an object lies at that path."""
        return self._objects.exists(_checked(path))

    def settings_file(self, path: str, generated: bytes, at_most_bytes: int) -> bytes:
        """Read a file that people edit; where there is none, one is written first.

        Raises:
            StoreDamaged: something else lies there, or it is too long, or may not be read; its owner mends it.
        """
        try:
            return self._objects.get(_checked(path), at_most_bytes)
        except StoreMissing:
            if self._objects.create(path, generated):
                return generated
            return self._written_meanwhile(path, at_most_bytes)
        except FarmUnavailable as error:
            if not self._objects.exists(IDENTITY_PATH):
                raise
            raise StoreDamaged(error.message, fix="let this process read it") from None

    def _written_meanwhile(self, path: str, at_most_bytes: int) -> bytes:
        try:
            return self._objects.get(path, at_most_bytes)
        except StoreMissing:
            raise StoreDamaged(f"{path} is there and is no file", fix="move what lies there") from None

    def put_source(self, sha256: bytes, epoch: int, data: bytes) -> None:
        """Put a source under its digest and the epoch in force; damaged bytes there are replaced.

        Raises:
            InputError: the digest is not that of the bytes.
        """
        if hashlib.sha256(data).digest() != sha256:
            raise InputError(f"source {sha256.hex()}: the digest is not that of its {len(data)} bytes")
        path = source_path(sha256, epoch)
        if self._objects.create(path, data):
            return
        try:
            self.get_source(sha256, epoch)
        except StoreDamaged:
            self._objects.replace(path, data)

    def get_source(self, sha256: bytes, epoch: int) -> bytes:
        """Read a source by its digest and the epoch in which it was put.

        Raises:
            StoreMissing: it was never put, or was removed; the submitter puts it again.
            StoreDamaged: the bytes are not those of the digest; putting it again mends it.
        """
        data = self.get(source_path(sha256, epoch))
        if hashlib.sha256(data).digest() != sha256:
            raise StoreDamaged(
                f"store {self.url}: source {sha256.hex()} is damaged", fix="submit again: it is then replaced"
            )
        return data

    def read_identity(self) -> FarmIdentity | None:
        """Whose store this is; None for a new one.

        Raises:
            FarmRefused: ``farm.json`` is not one of ours; the operator chooses another folder.
        """
        try:
            data = self._objects.get(IDENTITY_PATH, OBJECT_CAP_BYTES)
        except StoreMissing:
            return None
        try:
            row = json.loads(data)
            identity = FarmIdentity(str(row["farm_id"]), int(row["schema"]))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise FarmRefused(
                f"store {self.url}: {IDENTITY_PATH} is not the identity of a farm",
                fix="set FARM_STORE_URL to an empty folder or to a farm's store",
            ) from None
        self._identity_seen = True
        return identity

    def write_identity(self, identity: FarmIdentity) -> FarmIdentity:
        """Make this store the farm's, unless it is one's already.

        Returns:
            The identity that holds: of several that write at once, all get the first one's.
        """
        self._objects.create(IDENTITY_PATH, json.dumps(asdict(identity)).encode())
        held = self.read_identity()
        if held is None:
            raise FarmUnavailable(f"store {self.url}: {IDENTITY_PATH} was written and can not be read back")
        return held

    def largest_generation(self, namespace: Namespace) -> int:
        """The largest generation that has a marker; 0 when the namespace was never purged."""
        names = self._objects.names(f"{namespace}/generations")
        return max((int(name) for name in names if name.isascii() and name.isdigit()), default=0)

    def mark_generation(self, namespace: Namespace, generation: int) -> None:
        """Write the immutable marker of a generation, before the index opens it; safe to repeat."""
        self._objects.create(f"{namespace}/generations/{generation}", b"")

    def names(self) -> list[str]:
        """The paths of all objects, in no order, foreign ones included, and of what killed writers left (``#``)."""
        return self._objects.names("")

    def delete(self, path: str) -> None:
        """Remove one object; only the coordinator does: its sweep the condemned, its search old sources."""
        name, mark, number = path.partition("#")
        self._objects.delete(_checked(name) + mark + (str(int(number)) if mark else ""))

    def self_test(self) -> None:
        """Write, replace, read back and delete a small object: no process shall start on a store it can not use.

        Raises:
            FarmUnavailable: one of these failed, or other bytes came back.
        """
        path, data = f"{_SELF_TEST_FOLDER}/{secrets.token_hex(8)}", secrets.token_bytes(4096)
        self._objects.create(path, data)
        try:
            self._check_it_came_back(path, data)
            self._objects.replace(path, data[::-1])
            self._check_it_came_back(path, data[::-1])
        finally:
            self._objects.delete(path)

    def _check_it_came_back(self, path: str, data: bytes) -> None:
        try:
            came_back = self._objects.get(path, OBJECT_CAP_BYTES)
        except StoreMissing:
            came_back = b""
        if came_back != data:
            raise FarmUnavailable(
                f"store {self.url}: what was written did not come back",
                fix="check the filesystem or bucket below it",
            )

    @property
    def _objects(self) -> Objects:
        if not must_use_helper():
            mark_used()
            return self._direct
        if self.url == "memory://":
            raise FarmUnavailable("store memory:// belongs to the process that opened it; a fork can not use it")
        self._helper = self._helper or HelperObjects(self.url)
        return self._helper


def _checked(path: str) -> str:
    if not all(_PART.fullmatch(part) for part in path.split("/")):
        raise InputError(
            f"object path {path!r} is not valid",
            fix="a path is relative; each part is letters, digits and . _ + @ = -, not beginning with . or -",
        )
    return path
