"""Which operators a job shares, by mode, debug level and debug values: Ascend's rules as its documents state them.

    mode           op_debug_level  op_debug_config  op_debug_list  private   effective mode
    disable        any             any              any            all       disable
    enable, force  not 0           any              any            all       disable, nothing is purged
    enable, force  0               none             -              none      the mode
    enable, force  0               given            none, empty    all       disable, nothing is purged
    enable, force  0               given            given          listed    the mode

Private: compiled for this job alone, neither looked up nor shared. The level reaches every compile, the values of
op_debug_config reach the listed operators, or all where there is no list. An empty list counts as none, as in CANN:
whoever debugs gets the values everywhere rather than nowhere. CANN's source turns its cache off for all operators in
the last row too; its documents, and this farm, only for the listed ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from farm.errors import InputError

ENABLE, FORCE, DISABLE = "enable", "force", "disable"
MODES = (ENABLE, FORCE, DISABLE)
LEVELS = ("0", "1", "2", "3", "4")
_TYPE_MARK = "::"


@dataclass(frozen=True, slots=True)
class Debug:
    """A job's debug options.

    Raises:
        InputError: the level is none; the submitter mends it.
    """

    level: int = 0
    #: Of ``op_debug_config=``.
    values: tuple[str, ...] = ()
    #: Of ``op_debug_list=``: an operator's name, or ``x::Type`` for every operator of a type; None: no such line.
    listed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if type(self.level) is not int or str(self.level) not in LEVELS:
            raise _no_level(self.level)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a job's operators."""

    effective_mode: str
    #: Why the mode is not, or not for all, what was asked for; one sentence, empty when it is.
    reason: str
    debug: Debug
    _names: frozenset[str] = field(default=frozenset(), repr=False)
    _types: frozenset[str] = field(default=frozenset(), repr=False)

    def private(self, op_name: str, op_type: str) -> bool:
        """Whether this operator is compiled for this job alone."""
        return self.effective_mode == DISABLE or (bool(self.debug.values) and self._is_listed(op_name, op_type))

    def debug_for(self, op_name: str, op_type: str) -> tuple[str, ...]:
        """The values of op_debug_config that reach this operator's compiler."""
        return self.debug.values if not self.debug.listed or self._is_listed(op_name, op_type) else ()

    def unmatched(self, names: Collection[str], types: Collection[str]) -> tuple[str, ...]:
        """The entries of op_debug_list, as written, that select none of the job's operators."""
        return tuple(
            entry for entry in self.debug.listed or () if selected(entry) not in (types if is_type(entry) else names)
        )

    def _is_listed(self, op_name: str, op_type: str) -> bool:
        return op_name in self._names or op_type in self._types


def decide(mode: str, debug: Debug) -> Decision:
    """Apply the table.

    Raises:
        InputError: there is no such mode; the submitter mends it.
    """
    if mode not in MODES:
        raise InputError(f"op_compiler_cache_mode {mode!r} is not known", fix=f"use {', '.join(MODES)}")
    listed = debug.listed or ()
    names = frozenset(selected(entry) for entry in listed if not is_type(entry))
    types = frozenset(selected(entry) for entry in listed if is_type(entry))
    cause = _cause(debug)
    if mode != DISABLE and cause:
        nothing = "nothing is purged or shared" if mode == FORCE else "nothing is shared"
        reason = f"{cause}: mode {mode} is ignored, every operator is compiled for this job alone and {nothing}"
        return Decision(DISABLE, reason, debug, names, types)
    reason = ""
    if mode != DISABLE and debug.values:
        reason = f"op_debug_list: what it selects is compiled for this job alone, mode {mode} holds for the rest"
    return Decision(mode, reason, debug, names, types)


def is_type(entry: str) -> bool:
    """Whether this entry of op_debug_list selects by type: ``x::Type``, whatever x is (documents write OpType)."""
    return _TYPE_MARK in entry


def selected(entry: str) -> str:
    """The name or type that this entry of op_debug_list selects."""
    return entry.partition(_TYPE_MARK)[2].strip() if is_type(entry) else entry


def read_level(text: str) -> int:
    """The op_debug_level that this text is; only the digits 0 to 4.

    Raises:
        InputError: it is none; the submitter mends it.
    """
    trimmed = text.strip(" \t")
    if trimmed not in LEVELS:
        raise _no_level(text)
    return int(trimmed)


def _no_level(given: object) -> InputError:
    return InputError(f"op_debug_level {given!r} is not valid", fix="use 0, 1, 2, 3 or 4")


def _cause(debug: Debug) -> str:
    """What makes every operator private; empty when nothing does."""
    if debug.level:
        return f"op_debug_level is {debug.level}"
    if debug.values and not debug.listed:
        return "op_debug_config without op_debug_list" if debug.listed is None else "op_debug_list is empty"
    return ""
