"""The store in a process that was forked from one which used it: obstore would hang there for ever.

Its worker threads do not survive a fork, and a new store object in the child hangs as well. So the child
talks to a helper, started with exec, that does the same six things:

    child ── frame [method, arguments] ──► stdin   serve(URL)
    child ◄── frame [error or None, result] ── stdout

A frame is its length in 8 bytes, then msgpack. The helper ends when its stdin closes, so it never outlives
the child.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import weakref
from typing import Any

import msgpack

from farm.errors import FarmError, FarmRefused, FarmUnavailable, InputError
from farm.store.errors import DiskFull, StoreDamaged, StoreMissing
from farm.store.objects import Objects, open_objects

#: Not ``-m``: the package may import this module before it would run as the main one.
_HELPER = "import sys; from farm.store.forked import serve; serve(sys.argv[1])"
_LENGTH = struct.Struct(">Q")
_ERRORS: dict[str, type[FarmError]] = {
    kind.__name__: kind for kind in (InputError, FarmUnavailable, FarmRefused, DiskFull, StoreDamaged, StoreMissing)
}


class _Process:
    """What this process knows of obstore; a fork hands it on to the child."""

    #: obstore was used here, so it must not be used in a child.
    used = False
    #: obstore was used before this process was forked off.
    forked = False


_helpers: weakref.WeakSet[HelperObjects] = weakref.WeakSet()


def mark_used() -> None:
    """Called before every use of obstore in this process."""
    _Process.used = True


def must_use_helper() -> bool:
    """Whether this process was forked from one that had used obstore."""
    return _Process.forked


def _after_fork() -> None:
    _Process.forked = _Process.forked or _Process.used
    for helper in list(_helpers):
        helper.forget()


os.register_at_fork(after_in_child=_after_fork)


class HelperObjects:
    """``Objects`` through a helper process; safe to use from several threads, one call at a time.

    A helper that dies is started again once per call: every call may be repeated without harm.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        _helpers.add(self)

    def get(self, path: str, at_most_bytes: int) -> bytes:
        """See Objects."""
        data: bytes = self._call("get", path, at_most_bytes)
        return data

    def create(self, path: str, data: bytes) -> bool:
        """See Objects."""
        return bool(self._call("create", path, data))

    def replace(self, path: str, data: bytes) -> None:
        """See Objects."""
        self._call("replace", path, data)

    def exists(self, path: str) -> bool:
        """See Objects."""
        return bool(self._call("exists", path))

    def names(self, folder: str) -> list[str]:
        """See Objects."""
        names: list[str] = self._call("names", folder)
        return names

    def delete(self, path: str) -> None:
        """See Objects."""
        self._call("delete", path)

    def forget(self) -> None:
        """After another fork: the helper is the parent's; this process closes its copies of the pipes."""
        self._lock = threading.Lock()
        if self._process:
            # Not a child of this process: never to be waited for or killed from here.
            self._process.returncode = 0
            _close(self._process)
            self._process = None

    def _call(self, method: str, *arguments: Any) -> Any:
        with self._lock:
            try:
                error, result = self._exchange(method, arguments)
            except (OSError, EOFError):
                try:
                    error, result = self._exchange(method, arguments)
                except (OSError, EOFError) as lost:
                    raise FarmUnavailable(
                        f"store {self.url}: the helper process of a forked client ended ({lost})",
                        fix="see the lines it wrote to stderr",
                    ) from None
        if error:
            kind, message, fix = error
            raise _ERRORS.get(kind, FarmUnavailable)(message, fix)
        return result

    def _exchange(self, method: str, arguments: tuple[Any, ...]) -> Any:
        process = self._process = self._process or self._start()
        assert process.stdin and process.stdout
        try:
            _write(process.stdin.fileno(), [method, arguments])
            return _read(process.stdout.fileno())
        except BaseException:
            # Interrupted between question and answer, the pipe can not be used for another question.
            self._process = None
            _end(process)
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _HELPER, self.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C is for the client, which then closes the pipe.
            start_new_session=True,
        )
        weakref.finalize(self, _end, process)
        return process


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        _close(process)
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _write(descriptor: int, frame: Any) -> None:
    body = msgpack.packb(frame)
    for part in (_LENGTH.pack(len(body)), body):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _read(descriptor: int) -> Any:
    (length,) = _LENGTH.unpack(_read_exactly(descriptor, _LENGTH.size))
    return msgpack.unpackb(_read_exactly(descriptor, length))


def _read_exactly(descriptor: int, length: int) -> bytearray:
    data = bytearray(length)
    rest = memoryview(data)
    while rest:
        got = os.readv(descriptor, [rest[: 1 << 20]])
        if not got:
            raise EOFError("its pipe is closed")
        rest = rest[got:]
    return data


def serve(url: str) -> None:
    """Answer frames from stdin until it closes."""
    answers = os.dup(sys.stdout.fileno())
    # Whatever prints from now on goes to stderr, never between two frames.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    objects: Objects | None = None
    while True:
        try:
            method, arguments = _read(sys.stdin.fileno())
        except EOFError:
            return
        try:
            objects = objects or open_objects(url)
            answer: tuple[Any, Any] = (None, getattr(objects, method)(*arguments))
        except FarmError as error:
            answer = ((type(error).__name__, error.message, error.fix), None)
        _write(answers, answer)
