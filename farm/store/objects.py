"""The six things the farm does to an object store, done with obstore; all failures are the farm's errors.

``Objects`` is also what the helper process of a forked client offers (``forked.py``), so ``Store`` need not
know which of the two it talks to.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote_to_bytes, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore, S3Store

from farm.errors import FarmError, FarmUnavailable, InputError
from farm.store.disk import FULL, disk_full
from farm.store.errors import DiskFull, StoreDamaged, StoreMissing
from farm.store.tree import files_below, look_again

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig


class Objects(Protocol):
    """Whole objects by path; what is created is complete when it becomes visible, or never visible."""

    def get(self, path: str, at_most_bytes: int) -> bytes:
        """The object; raises StoreMissing, or StoreDamaged when it is larger than any good one."""

    def create(self, path: str, data: bytes) -> bool:
        """Put an object where none is; False (and nothing done) when one is there already."""

    def replace(self, path: str, data: bytes) -> None:
        """Put an object, whatever lies there."""

    def exists(self, path: str) -> bool:
        """Whether an object lies at that path."""

    def names(self, folder: str) -> list[str]:
        """Names of all objects below a folder, relative to it, in no order.

        Of the whole store ("") also what a killed writer left of an object, as ``<path>#<number>``, where the kind
        of store has such a thing.
        """

    def delete(self, path: str) -> None:
        """Remove one object; it may be gone already."""


def open_objects(url: str) -> Objects:
    """Open the store at a URL, making the root folder of a ``file://`` store where it is not there yet.

    Raises:
        InputError: the URL is none of the forms below.
        FarmUnavailable: the root can not be made or is not a folder.
    """
    if folder := folder_of(url):
        return _FolderObjects(url, folder)
    if url.startswith("s3://") and urlsplit(url).netloc:
        return _ObstoreObjects(url, _open_bucket(url))
    if url == "memory://":
        return _ObstoreObjects(url, MemoryStore())
    raise InputError(
        f"store URL {url!r} is not understood",
        fix="FARM_STORE_URL is file:///absolute/folder or s3://bucket/prefix",
    )


def folder_of(url: str) -> Path | None:
    """The folder of a ``file://`` store; None for any other."""
    scheme, _, rest = url.partition("://")
    if scheme != "file" or not rest.startswith("/"):
        return None
    return Path(os.fsdecode(unquote_to_bytes(os.fsencode(rest))))


def _open_bucket(url: str) -> S3Store:
    # Options given here replace those of the environment, so a plain http endpoint must be allowed here too.
    endpoints = [value for name, value in os.environ.items() if name.startswith("AWS_ENDPOINT")]
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=1.4),
        "timeout": timedelta(seconds=300),
        "allow_http": any(endpoint.startswith("http://") for endpoint in endpoints),
    }
    try:
        return S3Store.from_url(url, client_options=options, retry_config=_RETRY)
    except (BaseError, ValueError) as error:
        cause = str(error).partition("\n\n")[0]
        raise InputError(f"store URL {url!r}: {cause}", fix="check the URL and the AWS_ variables") from None


#: A store that does not answer is said to be unavailable within 5 s: three tries to connect.
_RETRY: RetryConfig = {"max_retries": 2, "retry_timeout": timedelta(seconds=5)}

#: Modes of files: what the farm put there nobody changes; settings are for people to edit.
_KEPT, _EDITED = 0o440, 0o640
_OS_ERROR = re.compile(r"os error (\d+)")


class _ObstoreObjects:
    def __init__(self, url: str, store: LocalStore | MemoryStore | S3Store) -> None:
        self.url = url
        self._store = store

    def get(self, path: str, at_most_bytes: int) -> bytes:
        try:
            found = obstore.get(self._store, path)
            if found.meta["size"] > at_most_bytes:
                raise StoreDamaged(f"object {path} has {found.meta['size']} bytes; at most {at_most_bytes} are read")
            return bytes(found.bytes())
        except (BaseError, OSError) as error:
            raise self._failed(f"read {path}", error) from None

    def create(self, path: str, data: bytes) -> bool:
        try:
            obstore.put(self._store, path, data, mode="create")
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise self._failed(f"write {path}", error) from None
        return True

    def replace(self, path: str, data: bytes) -> None:
        try:
            obstore.put(self._store, path, data, mode="overwrite", use_multipart=False)
        except (BaseError, OSError) as error:
            raise self._failed(f"write {path}", error) from None

    def exists(self, path: str) -> bool:
        try:
            obstore.head(self._store, path)
        except FileNotFoundError:
            return False
        except (BaseError, OSError) as error:
            raise self._failed(f"look at {path}", error) from None
        return True

    def names(self, folder: str) -> list[str]:
        try:
            rows = obstore.list(self._store, folder or None)
            above = f"{folder}/" if folder else ""
            return [str(row["path"]).removeprefix(above) for chunk in rows for row in chunk]
        except (BaseError, OSError) as error:
            raise self._failed(f"list {folder}", error) from None

    def delete(self, path: str) -> None:
        try:
            obstore.delete(self._store, path)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise self._failed(f"delete {path}", error) from None

    def _failed(self, what: str, error: Exception) -> FarmError:
        # obstore appends pages of debug output after the first blank line.
        cause = str(error).partition("\n\n")[0][:500]
        if isinstance(error, FileNotFoundError) and what.startswith("read"):
            return StoreMissing(f"store {self.url}: can not {what}: there is no such object")
        return FarmUnavailable(
            f"store {self.url}: can not {what}: {cause}",
            fix="check that the store is reachable and writable with the credentials in use",
        )


class _FolderObjects(_ObstoreObjects):
    """A shared folder. Whoever may read the root may read every object, whatever the umask of the writer."""

    def __init__(self, url: str, root: Path) -> None:
        try:
            root.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._mode = root.stat().st_mode & 0o7777
            # obstore would follow a root that is moved later; the whole store lives below this one.
            self._root = root.resolve(strict=True)
            super().__init__(url, LocalStore(self._root))
        except (BaseError, OSError) as error:
            cause = error.strerror if isinstance(error, OSError) else str(error).partition("\n\n")[0]
            raise FarmUnavailable(
                f"store {url}: can not use {root} as its folder: {cause}",
                fix="mount the shared filesystem, or set FARM_STORE_URL to a folder this user can use",
            ) from None

    def get(self, path: str, at_most_bytes: int) -> bytes:
        try:
            return super().get(path, at_most_bytes)
        except StoreMissing:
            look_again(self._root, path)
        except FarmUnavailable as error:
            if f"os error {errno.ESTALE}" not in error.message:
                raise
        return super().get(path, at_most_bytes)

    def names(self, folder: str) -> list[str]:
        if folder:
            return super().names(folder)
        try:
            return list(files_below(self._root))
        except OSError as error:
            raise self._failed("list all objects", error) from None

    def delete(self, path: str) -> None:
        if "#" not in path:
            return super().delete(path)
        try:
            (self._root / path).unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(f"delete {path}", error) from None

    def create(self, path: str, data: bytes) -> bool:
        self._make_folders(path)
        made = super().create(path, data)
        self._share(path)
        return made

    def replace(self, path: str, data: bytes) -> None:
        self._make_folders(path)
        super().replace(path, data)
        self._share(path)

    def _make_folders(self, path: str) -> None:
        folder = self._root
        try:
            if not (folder / path).parent.is_dir():
                for part in path.split("/")[:-1]:
                    folder /= part
                    with suppress(FileExistsError):
                        folder.mkdir()
                        folder.chmod(self._mode)
        except OSError as error:
            # Also when the root itself is gone: it is not made anew, the filesystem is probably not mounted.
            raise self._failed(f"make folder {folder}", error) from None

    def _share(self, path: str) -> None:
        # Also after "exists already": the process that put it may have died between the two steps.
        with suppress(OSError):
            (self._root / path).chmod((_EDITED if path.endswith(".ini") else _KEPT) | (self._mode & 0o004))

    def _failed(self, what: str, error: Exception) -> FarmError:
        match = _OS_ERROR.search(str(error))
        number = error.errno if isinstance(error, OSError) and error.errno else match and int(match[1])
        if number in FULL:
            return disk_full(self._root, number, DiskFull)
        return super()._failed(what, error)
