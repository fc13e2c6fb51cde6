"""A toolchain's options: what may be given, of which kind, and what is meant by leaving one out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args

from farm.errors import FarmRefused, InputError
from farm.request.values import FieldError, Value, normal_mapping, normal_value, printable, shown

Kind = Literal["str", "int", "bool", "strings", "map"]

KINDS: dict[Kind, str] = {
    "str": "text",
    "int": "a whole number",
    "bool": "true or false",
    "strings": "a list of texts",
    "map": "a mapping of names to texts, numbers, true, false or null",
}


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option of a toolchain; a default of None means that leaving it out is a choice of its own."""

    kind: Kind
    default: Value = None
    #: For ``str`` and ``strings``: the only valid texts; empty means any.
    choices: tuple[str, ...] = ()
    doc: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"option kind {self.kind!r} is not one of {', '.join(KINDS)}")
        object.__setattr__(self, "default", normal_value(self.default, "default"))


def resolve(options: Mapping[str, Value], schema: Mapping[str, OptionSpec], where: str) -> dict[str, Value]:
    """Check the options and fill in every default, so that a default and its explicit value are one request.

    Args:
        where: how messages name the operator: ``ops.yaml: operator 'add'``.

    Returns:
        A value for every option of the schema.
    Raises:
        InputError: an option is unknown or of the wrong kind; the submitter mends it.
    """
    try:
        given = normal_mapping(options, "options")
        for name in given:
            if name not in schema:
                raise FieldError("is not an option of this toolchain", _nearest(name, schema), _path(name))
        return {name: _checked(given.get(name, spec.default), name, spec) for name, spec in schema.items()}
    except FieldError as error:
        raise InputError(f"{where}: {error.message}", error.fix) from None


def to_wire(schema: Mapping[str, OptionSpec]) -> dict[str, dict[str, Any]]:
    """The schema as plain dicts and lists, for the registry (JSON or msgpack)."""
    return {
        name: {"kind": spec.kind, "default": spec.default, "choices": list(spec.choices), "doc": spec.doc}
        for name, spec in schema.items()
    }


def from_wire(packed: object) -> dict[str, OptionSpec]:
    """The schema that ``to_wire`` was given.

    Raises:
        FarmRefused: a worker of another version wrote it; the operator brings them to one version.
    """
    try:
        if not isinstance(packed, Mapping):
            raise TypeError("not a mapping")
        return {
            str(name): OptionSpec(one["kind"], one["default"], tuple(map(str, one["choices"])), str(one["doc"]))
            for name, one in packed.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError, FieldError) as error:
        raise FarmRefused(
            f"the registry holds an option schema that can not be read ({type(error).__name__}: {error})",
            "run the same version of opfarm on clients and workers",
        ) from None


def _checked(value: Value, name: str, spec: OptionSpec) -> Value:
    if value is None and spec.default is None:
        return None
    if not _FITS[spec.kind](value):
        raise FieldError(f"must be {KINDS[spec.kind]}, given {shown(value)}", "", _path(name))
    chosen = value if isinstance(value, tuple) else (value,)
    for one in chosen if spec.choices else ():
        if one not in spec.choices:
            valid = ", ".join(spec.choices)
            raise FieldError(
                f"{shown(one)} is not valid; valid: {valid}", _nearest(str(one), spec.choices), _path(name)
            )
    return value


def _is_int(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_strings(value: Value) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


def _is_flat_map(value: Value) -> bool:
    return isinstance(value, Mapping) and not any(isinstance(item, tuple | Mapping) for item in value.values())


_FITS: dict[Kind, Callable[[Value], bool]] = {
    "str": lambda value: isinstance(value, str),
    "int": _is_int,
    "bool": lambda value: isinstance(value, bool),
    "strings": _is_strings,
    "map": _is_flat_map,
}
assert set(_FITS) == set(KINDS) == set(get_args(Kind))


def _path(name: str) -> str:
    return f"options.{printable(name)}"


def _nearest(name: str, valid: Mapping[str, object] | tuple[str, ...]) -> str:
    if near := get_close_matches(name, list(valid), n=1):
        return f"did you mean {near[0]}?"
    return f"valid: {', '.join(sorted(valid))}" if valid else "it takes no options"
