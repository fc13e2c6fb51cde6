"""What is compiled: one operator as a frozen, checked and normalised value.

Every instance that exists is valid. Treat mappings as frozen too: they are copies in normalised form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from farm.request.filenames import MAX_FOLDERS_UP, check_layout, relative_name
from farm.request.job_options import SHARED, JobOptions
from farm.request.values import (
    INT64,
    FieldError,
    Value,
    digest,
    join,
    label,
    normal_mapping,
    printable,
    shown,
    within,
    word,
)

#: The toolchain whose compiler is named by the request itself (``options.argv``).
COMMAND = "command"

MAX_SOURCE_BYTES = 16 * 2**20
MAX_INCLUDE_BYTES = 64 * 2**20
MAX_INCLUDE_FILES = 10_000
MAX_ENTRY_CHARACTERS = 4096

_DTYPE = re.compile(r"[A-Za-z0-9_]{1,64}")
_SUFFIX = re.compile(r"(\.[A-Za-z0-9_+-]{1,16})?")
_NAME_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")
_NAME_PART_WORDS = "1 to 64 letters, digits and . _ + -, the first a letter, digit or _"
_FINGERPRINT = re.compile(r"[0-9a-f]{4,64}")


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape, element type and memory format of one input or output; dimension -1 is dynamic."""

    shape: tuple[int, ...]
    dtype: str
    format: str = "ND"

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple | list):
            raise FieldError(f"must be a list of dimensions, given {shown(self.shape)}", "", "shape")
        for at, size in enumerate(self.shape):
            if type(size) is not int or size < -1 or size not in INT64:
                raise FieldError(
                    f"{shown(size)} is not a dimension",
                    "valid: 0 or more, or -1 for dynamic",
                    join("shape", at),
                )
        _put(self, "shape", tuple(self.shape))
        for name in ("dtype", "format"):
            _put(self, name, word(getattr(self, name), name, _DTYPE, "1 to 64 letters, digits and _"))


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of one file, named by their content; equal when the content is.

    ``data`` is None when the bytes lie in the store as ``sources/<sha256 hex>``.
    """

    sha256: bytes
    size_bytes: int
    data: bytes | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        digest(self.sha256, "sha256")
        if type(self.size_bytes) is not int or self.size_bytes not in range(2**63):
            raise FieldError(f"{shown(self.size_bytes)} is not a size in bytes", "", "size_bytes")
        if self.data is not None and (type(self.data) is not bytes or len(self.data) != self.size_bytes):
            raise FieldError("is not bytes of the stated size", "", "data")

    @classmethod
    def of(cls, data: bytes) -> Blob:
        """The blob of these bytes."""
        return cls(hashlib.sha256(data).digest(), len(data), data)


@dataclass(frozen=True, slots=True)
class Source:
    """The operator's code: the main file, the files beside it, and include folders in search order."""

    #: ``.cpp``, ``.cu``, ``.py`` …; empty when unknown.
    suffix: str
    main: Blob
    #: By name relative to the main file's folder; up to eight leading ``..``.
    files: Mapping[str, Blob] = field(default_factory=dict)
    include_dirs: tuple[Mapping[str, Blob], ...] = ()

    def __post_init__(self) -> None:
        word(self.suffix, "suffix", _SUFFIX, "a dot and 1 to 16 letters, digits and _ + -, or nothing")
        if not isinstance(self.main, Blob):
            raise FieldError(f"must be a Blob, given {shown(self.main)}", "", "main")
        if self.main.size_bytes > MAX_SOURCE_BYTES:
            raise FieldError(f"has {self.main.size_bytes} bytes; valid: up to {MAX_SOURCE_BYTES}", "", "main")
        _put(self, "files", _named_blobs(self.files, "files", MAX_FOLDERS_UP))
        _put(
            self,
            "include_dirs",
            tuple(_named_blobs(one, join("include_dirs", at)) for at, one in enumerate(self.include_dirs)),
        )
        sizes_bytes = [blob.size_bytes for blob in self.blobs()][1:]
        check_include_set(len(sizes_bytes), sum(sizes_bytes))

    def blobs(self) -> Iterator[Blob]:
        """Every blob, the main file's first."""
        yield self.main
        yield from self.files.values()
        for folder in self.include_dirs:
            yield from folder.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One operator to compile, for one soc, by one toolchain.

    Raises:
        FieldError: (an InputError) a field is not valid; the submitter mends it.
    """

    #: What the submitter calls it; never in the key.
    name: str
    type: str
    soc: str
    toolchain: str
    #: Digits with which the toolchain's fingerprint shall begin; empty leaves the choice to the farm. Which one it
    #: became is in the key, how it was named is not.
    fingerprint: str = ""
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    attrs: Mapping[str, Value] = field(default_factory=dict)
    source: Source
    entry: str | None = None
    #: Name to sha256 of content; the content itself does not travel.
    depends: Mapping[str, bytes] = field(default_factory=dict)
    options: Mapping[str, Value] = field(default_factory=dict)
    #: Not None only for toolchain ``command``: ``executable_digest`` of argv[0], as the submitter has it.
    executable: bytes | None = None
    #: What the job that asks makes of it; never in a manifest.
    job_options: JobOptions = SHARED

    def __post_init__(self) -> None:
        _put(self, "name", label(self.name, "name"))
        _put(self, "type", label(self.type, "type"))
        for name in ("soc", "toolchain"):
            _put(self, name, word(getattr(self, name), name, _NAME_PART, _NAME_PART_WORDS))
        _put(self, "fingerprint", self.fingerprint and fingerprint_digits(self.fingerprint, "fingerprint"))
        if not isinstance(self.source, Source):
            raise FieldError(f"must be a Source, given {shown(self.source)}", "", "source")
        for name in ("inputs", "outputs"):
            _put(self, name, _tensors(getattr(self, name), name))
        for name in ("attrs", "options"):
            _put(self, name, normal_mapping(getattr(self, name), name))
        if self.entry is not None:
            _put(self, "entry", label(self.entry, "entry", MAX_ENTRY_CHARACTERS))
        _put(self, "depends", _digests(self.depends))
        if self.executable is not None:
            digest(self.executable, "executable")
            if self.toolchain != COMMAND:
                raise FieldError(f"belongs to toolchain {COMMAND} only", "leave it out", "executable")


def fingerprint_digits(value: object, field: str) -> str:
    """The digits with which somebody names a fingerprint."""
    return word(value, field, _FINGERPRINT, "4 to 64 hex digits, as toolchain ls shows them")


def check_include_set(files: int, size_bytes: int) -> None:
    """Refuse more files or bytes beside one source than a claim may carry along.

    Raises:
        FieldError: without a field, which the caller adds; the submitter names smaller include folders.
    """
    if files > MAX_INCLUDE_FILES or size_bytes > MAX_INCLUDE_BYTES:
        raise FieldError(
            f"has too many headers; valid: up to {MAX_INCLUDE_FILES} files, {MAX_INCLUDE_BYTES // 2**20} MiB",
            "name a folder that holds only headers",
        )


def _named_blobs(given: object, where: str, folders_up: int = 0) -> dict[str, Blob]:
    if not isinstance(given, Mapping):
        raise FieldError(f"must be a mapping of names to files, given {shown(given)}", "", where)
    named: dict[str, Blob] = {}
    for raw, blob in given.items():
        name = relative_name(raw, where, folders_up)
        if name in named:
            raise FieldError("is given twice, in two Unicode spellings", "keep one", join(where, name))
        if not isinstance(blob, Blob):
            raise FieldError(f"must be a Blob, given {shown(blob)}", "", join(where, name))
        named[name] = blob
    check_layout(named, where)
    return named


def _tensors(given: object, where: str) -> tuple[Tensor, ...]:
    if not isinstance(given, tuple | list) or not all(isinstance(one, Tensor) for one in given):
        raise FieldError(f"must be a list of Tensor, given {shown(given)}", "", where)
    return tuple(given)


def _digests(given: object) -> dict[str, bytes]:
    if not isinstance(given, Mapping):
        raise FieldError(f"must be a mapping of names to digests, given {shown(given)}", "", "depends")
    result: dict[str, bytes] = {}
    for raw, content in given.items():
        with within("depends"):
            name = label(raw, printable(raw) if isinstance(raw, str) else "")
            if name in result:
                raise FieldError("is given twice, in two Unicode spellings", "keep one", name)
            result[name] = digest(content, name)
    return result


def _put(instance: object, name: str, value: object) -> None:
    """Set a field of a frozen instance while it is being built."""
    object.__setattr__(instance, name, value)
