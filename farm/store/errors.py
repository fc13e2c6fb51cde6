"""What can be wrong with one object of the store, as opposed to the store as a whole."""

from __future__ import annotations

from farm.errors import FarmError, FarmUnavailable


class StoreMissing(FarmError):
    """The store answered, and no object lies at that path; the reader drops the entry and asks again."""

    code = "missing"


class StoreDamaged(FarmError):
    """An object is not what its name promises, or other bytes already lie where some were to be put."""

    code = "damaged"


class BadBundle(StoreDamaged):
    """The bytes are not the bundle that was asked for; the reader drops the entry and asks again."""

    code = "bad_bundle"

    @property
    def reason(self) -> str:
        """What is wrong with the bytes, for the one warning that the reader gives."""
        return self.message


class DiskFull(FarmUnavailable):
    """A write failed for want of space; names the disk. Nothing readable was left behind."""

    code = "disk_full"
