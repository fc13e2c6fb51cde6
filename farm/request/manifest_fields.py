"""The fields of a manifest as people write them; unknown ones are errors, and nothing is converted."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, ValidationError
from pydantic_core import PydanticCustomError

from farm.errors import InputError
from farm.request.places import place
from farm.request.values import shown

T = TypeVar("T")


def _list_or_tuple(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("list_type", "must be a list")
    return list(value)


ListOf: TypeAlias = Annotated[list[T], BeforeValidator(_list_or_tuple)]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class TensorFields(_Fields):
    """One input or output; -1 is a dynamic dimension."""

    shape: ListOf[StrictInt]
    dtype: str
    format: str = "ND"


class SourceFields(_Fields):
    """The code: a file's path, or its text; and what it includes beyond what can be followed."""

    path: str | None = None
    text: str | None = None
    files: dict[str, str] = Field(default_factory=dict)
    include_dirs: ListOf[str] = Field(default_factory=list)


class OperatorFields(_Fields):
    """One operator; soc and toolchain fall back to the manifest's."""

    name: str
    type: str
    soc: str | None = None
    toolchain: str | None = None
    inputs: ListOf[TensorFields] = Field(default_factory=list)
    outputs: ListOf[TensorFields] = Field(default_factory=list)
    attrs: dict[str, Any] = Field(default_factory=dict)
    source: SourceFields
    entry: str | None = None
    depends: ListOf[str] = Field(default_factory=list)
    options: dict[str, Any] = Field(default_factory=dict)


class ManifestFields(_Fields):
    """The whole file."""

    version: int
    soc: str | None = None
    toolchain: str | None = None
    ops: ListOf[OperatorFields]


_SHAPES: dict[str, type[BaseModel]] = {
    "source": SourceFields,
    "inputs": TensorFields,
    "outputs": TensorFields,
    "ops": OperatorFields,
}
_WORDS = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "string_type": "must be text",
    "invalid_key": "must be text",
    "string_unicode": "holds text that is not valid Unicode",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list",
}


def check_fields(document: dict[str, Any], where: str) -> ManifestFields:
    """The document with every field of the right kind.

    Raises:
        InputError: names the first field that is not, and how many more there are.
    """
    try:
        return ManifestFields.model_validate(document)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        raise _refusal(found[0], len(found) - 1, document, where) from None


def _refusal(first: Any, others: int, document: dict[str, Any], where: str) -> InputError:
    path, kind, fix = list(first["loc"]), first["type"], ""
    if path[-1:] == ["[key]"]:  # said of a name, which stands just before
        path.pop()
        path[-1] = shown(path[-1])
    elif kind == "invalid_key" and path:
        path[-1] = shown(path[-1])
    if kind == "extra_forbidden":
        what, fix = "is not a known field", _nearest(path)
    else:
        what = _WORDS.get(kind, first["msg"])
        if kind != "missing":
            what += f", given {shown(first['input'])}"
        if kind == "model_type":
            fix = f"with {', '.join(_known(path))}"
    ops = document.get("ops")
    op = ops[path[1]] if isinstance(ops, list | tuple) and path[:1] == ["ops"] and len(path) > 1 else None
    more = f" (and {others} more)" if others else ""
    return InputError(f"{where}: {place(path, op)}{what}{more}", fix)


def _nearest(path: list[str | int]) -> str:
    fields = _known(path[:-1])
    near = get_close_matches(str(path[-1]), fields, n=1)
    return f"did you mean {near[0]}?" if near else f"valid: {', '.join(fields)}"


def _known(path: list[str | int]) -> list[str]:
    """The fields of the mapping at that place."""
    names = [step for step in path if isinstance(step, str)]
    return list(_SHAPES.get(names[-1] if names else "", ManifestFields).model_fields)
