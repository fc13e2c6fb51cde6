"""What a job's options make of one operator: they reach the compiler, and are in the key."""

from __future__ import annotations

from dataclasses import dataclass

from farm.request.values import FieldError, label, shown, text

#: Ascend's ``op_debug_level``.
DEBUG_LEVELS = range(5)
_DEBUG_VALUES_MAX = 64
_CORES = range(1, 2**16)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The part of a job's options that shapes one operator's compile; the default shapes nothing.

    Raises:
        FieldError: (an InputError) a value is not valid; the submitter mends it.
    """

    #: The run (``job@incarnation``) that has this compile for itself; empty: everybody shares it.
    private: str = ""
    op_debug_level: int = 0
    op_debug_config: tuple[str, ...] = ()
    #: Cube and vector cores to compile for; None: all that the processor has, or without effect here.
    aicore_num: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        text(self.private, "private")
        if type(self.op_debug_level) is not int or self.op_debug_level not in DEBUG_LEVELS:
            raise FieldError(f"{shown(self.op_debug_level)} is not a level", "valid: 0 to 4", "op_debug_level")
        if not isinstance(self.op_debug_config, tuple) or len(self.op_debug_config) > _DEBUG_VALUES_MAX:
            raise FieldError(f"must be up to {_DEBUG_VALUES_MAX} texts", "", "op_debug_config")
        for value in self.op_debug_config:
            label(value, "op_debug_config")
        cores = self.aicore_num
        if cores is not None and not (
            isinstance(cores, tuple) and len(cores) == 2 and all(type(one) is int and one in _CORES for one in cores)
        ):
            raise FieldError(f"{shown(cores)} is not two numbers of cores", "valid: 1 to 65535 each", "aicore_num")
        if (self.op_debug_level or self.op_debug_config) and not self.private:
            raise FieldError("a debug compile must be private", "", "private")


SHARED = JobOptions()
