"""The limits of the shared caches: whether what people wrote into their op_cache.ini counts."""

from __future__ import annotations

from farm.commands.doctor.subject import Finding, Subject
from farm.index.inforce import in_force


def limits(subject: Subject) -> Finding:
    """Faults that the coordinator found in a cache's op_cache.ini."""
    faults = [fault for found in in_force(subject.server).faults.values() for fault in found]
    if faults:
        return Finding(False, "; ".join(faults), "mend the file; the coordinator reads it again within seconds")
    return Finding(True, "nothing in any op_cache.ini is passed over")
