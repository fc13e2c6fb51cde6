"""A namespace is cache x soc: limits, generations and purges are per namespace; all its names are made here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from farm.errors import InputError

PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """One cache for one processor type."""

    cache: str
    soc: str

    def __post_init__(self) -> None:
        for field in ("cache", "soc"):
            value = getattr(self, field)
            if not PART.fullmatch(value):
                raise InputError(
                    f"{field} {value[:_SHOWN_CHARACTERS]!r} is not a valid name",
                    fix="use 1 to 64 letters, digits and . _ + -, the first a letter, a digit or _",
                )

    def __str__(self) -> str:
        return f"{self.cache}/{self.soc}"

    @classmethod
    def parse(cls, text: str) -> Namespace:
        """Read ``cache/soc`` back."""
        cache, _, soc = text.partition("/")
        return cls(cache, soc)


#: Holds what one job has for itself (modes disable and debug). Never the current one: it goes with its job.
PRIVATE_GENERATION = 0


def bundle_path(namespace: Namespace | str, generation: int, key: bytes, token: int) -> str:
    """Where the bundle of one take lies, relative to the store's root; unique, so nothing is overwritten."""
    return f"{namespace}/{generation}/{key.hex()}-{token}"


@dataclass(frozen=True, slots=True)
class BundleId:
    """Which bundle an object of the store is: its generation and key, and the token of the take that made it."""

    generation: int
    key: bytes
    token: int

    def path(self, namespace: Namespace) -> str:
        """Where it lies, relative to the store's root."""
        return bundle_path(namespace, self.generation, self.key, self.token)

    @classmethod
    def parse(cls, name: str) -> BundleId | None:
        """Read ``<generation>/<key>-<token>`` back; None for anything else that lies there."""
        found = _BUNDLE_NAME.fullmatch(name)
        return cls(int(found[1]), bytes.fromhex(found[2]), int(found[3])) if found else None


_BUNDLE_NAME = re.compile(r"(0|[1-9][0-9]{0,14})/([0-9a-f]{64})-([1-9][0-9]{0,17})", re.ASCII)
