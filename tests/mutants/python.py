"""Every mutant of a module of the coordinator: conditions, their operands and bounds, calls and assignments."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.mutants.mutant import Mutant, mutant, quoted

_BOUNDS: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
#: They tell of the work, or are places for tests to stop at.
_TELLS = ("logger.", "reach(")


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All mutants of the module."""
    seen = set()
    for one in Module(file, text).mutants():
        if (one.start, one.end, one.new) not in seen:
            seen.add((one.start, one.end, one.new))
            yield one


class Module:
    """One module as a tree, and what can be changed in it."""

    def __init__(self, file: str, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._lines = [0]
        for line in text.encode().splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        assert text.isascii(), "offsets count bytes"
        self._mutant = partial(mutant, file, text)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _source(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self.text[start:end]

    def _change(self, node: ast.expr | ast.stmt, new: str) -> Mutant:
        is_left_out = new == "pass"
        what = quoted(self._source(node))
        return self._mutant(*self._span(node), new, f"without {what}" if is_left_out else f"{what} is {quoted(new)}")

    def mutants(self) -> Iterator[Mutant]:
        """The changes in the functions; what stands outside of them declares."""
        functions = (one for one in ast.walk(self.tree) if isinstance(one, ast.FunctionDef))
        for function in functions:
            for node in ast.walk(function):
                yield from self._of(node)

    def _of(self, node: ast.AST) -> Iterator[Mutant]:
        yield from self._of_condition(node)
        if self._does(node):
            yield self._change(node, "pass")  # type: ignore[arg-type]

    def _of_condition(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.If(test=test) | ast.IfExp(test=test):
                yield from (self._change(test, new) for new in ("True", "False"))
            case ast.While(test=test) if not isinstance(test, ast.Constant):
                yield self._change(test, "False")
            case ast.comprehension(ifs=tests):
                yield from (self._change(test, "True") for test in tests)
            case ast.BoolOp(op=op, values=values):
                neutral = "True" if isinstance(op, ast.And) else "False"
                yield from (self._change(value, neutral) for value in values)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _BOUNDS:
                yield self._change(node, f"{self._source(left)} {_BOUNDS[type(op)]} {self._source(right)}")
            case ast.Call(func=ast.Name(id="max" | "min"), args=[first, second], keywords=[]):
                yield from (self._change(node, self._source(one)) for one in (first, second))

    def _does(self, node: ast.AST) -> bool:
        """Whether it is a statement that does something by itself."""
        match node:
            case ast.Expr(value=ast.Call()):
                return not self._source(node).startswith(_TELLS)
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                return True
            case ast.Expr(value=ast.YieldFrom()) | ast.AugAssign() | ast.Break():
                return True
        return False


def function_of(text: str, at: int) -> int:
    """The line by which the interpreter knows the outermost function around a place."""
    line = text.count("\n", 0, at) + 1
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            return min([node.lineno, *(one.lineno for one in node.decorator_list)])
    raise AssertionError(f"line {line} is in no function")


def swap(root: Path, file: str) -> None:
    """Give the functions of a module that is imported already the code that its file has now."""
    module = sys.modules.get(file.removesuffix(".py").replace("/", "."))
    if module is None or not file.endswith(".py"):
        return
    fresh = types.ModuleType(module.__name__)
    fresh.__file__ = str(root / file)
    sys.modules[module.__name__] = fresh  # dataclasses look their module up
    exec(compile((root / file).read_text(), str(root / file), "exec"), fresh.__dict__)
    sys.modules[module.__name__] = module
    _swap_all(vars(module), vars(fresh), module.__name__)


def _swap_all(old: dict[str, object], new: dict[str, object], module: str) -> None:
    for name, value in new.items():
        was, now = _function(old.get(name)), _function(value)
        if was and now and was.__module__ == module:
            was.__code__ = now.__code__
        elif isinstance(value, type) and value.__module__ == module:
            _swap_all(dict(vars(old[name])), dict(vars(value)), module)


def _function(value: object) -> types.FunctionType | None:
    value = getattr(value, "fget", value)
    value = getattr(value, "__wrapped__", value)
    return value if isinstance(value, types.FunctionType) else None
