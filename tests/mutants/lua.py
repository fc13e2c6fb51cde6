"""Every mutant of a Lua file: conditions, their operands and bounds, writes, calls, flags and limits, one at a time.

Nothing is marked in the files, so nothing can be forgotten. What is known of Lua is its tokens, and where a statement
begins: at a name that follows the end of an expression or of a block's head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tests.mutants.mutant import Mutant, mutant, quoted

_TOKEN = re.compile(
    r"(?P<skip>--\[\[.*?\]\]|--[^\n]*|\s+)|(?P<string>'(?:\\.|[^'\\])*')|(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\.\.\.?|[=~<>]=|[-+*/%^#<>=(){}\[\];:,.])",
    re.DOTALL,
)
_OPENS, _CLOSES = {"(", "[", "{"}, {")", "]", "}"}
_KEYWORDS = {
    "and", "break", "do", "else", "elseif", "end", "for", "function", "if", "in", "local", "not", "or", "repeat",
    "return", "then", "until", "while",
}  # fmt: skip
#: After these a name begins a statement; so it does after the end of an expression.
_HEADS = {"", "then", "else", "do", "end", "repeat", ";"}
_BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "+": "-", "-": "+"}
#: Options of commands, and how many arguments each takes along.
_OPTIONS = {"'NX'": 1, "'XX'": 1, "'GT'": 1, "'PX'": 2, "'COUNT'": 2, "'LIMIT'": 3, "'MAXLEN'": 3}
#: Commands that take any number of members, and where these begin; of one alone the whole call is dropped.
_MEMBERS = {"UNLINK": 1, "DEL": 1, "HDEL": 2}
_OPEN_ENDS = {"ZRANGEBYSCORE": ("'-inf'", "'+inf'"), "ZREMRANGEBYSCORE": ("'-inf'", "'+inf'"), "XRANGE": ("'-'", "'+'")}


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the language; ``depth`` counts the brackets around it."""

    text: str
    kind: str
    start: int
    end: int
    depth: int


#: Tokens [first, last), start and end in the text.
Span = tuple[int, int]


def tokens(text: str) -> list[Token]:
    """The file's tokens, without blanks and comments."""
    found: list[Token] = []
    at = depth = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match and match.lastgroup, f"not Lua as we write it: {text[at : at + 40]!r}"
        word, at = match[0], match.end()
        depth -= word in _CLOSES
        if match.lastgroup != "skip":
            kind = "keyword" if word in _KEYWORDS else match.lastgroup
            found.append(Token(word, kind, match.start(), at, depth))
        depth += word in _OPENS
    return found


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All mutants of the file, each once."""
    seen = set()
    lua = Lua(file, text)
    for find in (lua.conditions, lua.operands, lua.signs, lua.statements, lua.extremes, lua.commands):
        for one in find():
            if (one.start, one.end, one.new) not in seen and text[one.start : one.end] != one.new:
                seen.add((one.start, one.end, one.new))
                yield one


class Lua:
    """One file as tokens, and what can be changed in it."""

    def __init__(self, file: str, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self._mutant = partial(mutant, file, text)

    def _change(self, span: Span, new: str, change: str) -> Mutant:
        return self._mutant(self.tokens[span[0]].start, self.tokens[span[1] - 1].end, new, change)

    def _source(self, span: Span) -> str:
        return quoted(self.text[self.tokens[span[0]].start : self.tokens[span[1] - 1].end])

    def _starts(self, at: int) -> bool:
        """Whether a statement starts at the token."""
        token, before = self.tokens[at], self.tokens[at - 1] if at else None
        if token.kind == "keyword":
            return token.text not in ("and", "or", "not", "in", "then", "do", "function")
        if token.kind != "name":
            return False
        if before is None or before.text in _HEADS or before.text in _CLOSES:
            return True
        return before.kind in ("name", "string", "number")

    # -- conditions ------------------------------------------------------------------------------------

    def conditions(self) -> Iterator[Mutant]:
        """Each condition is true, and false."""
        for at, token in enumerate(self.tokens):
            if token.text in ("if", "elseif"):
                end = next(n for n in range(at, len(self.tokens)) if self.tokens[n].text == "then")
                for new in ("true", "false"):
                    yield self._change((at + 1, end), new, f"{self._source((at + 1, end))} is {new}")

    def operands(self) -> Iterator[Mutant]:
        """Each operand of ``and`` and ``or`` counts no more; what both lead to is met without them."""
        for at, token in enumerate(self.tokens):
            if token.text in ("and", "or"):
                neutral = "true" if token.text == "and" else "false"
                for span in (self._left(at), self._right(at)):
                    yield self._change(span, neutral, f"{self._source(span)} is {neutral}")

    def _left(self, at: int) -> Span:
        first = at
        while first > 0 and not self._bounds(first - 1, at):
            first -= 1
            if self._starts(first) and self.tokens[first].depth == self.tokens[at].depth:
                break
        return first, at

    def _right(self, at: int) -> Span:
        last = at + 1
        while last < len(self.tokens) and not self._bounds(last, at) and not (last > at + 1 and self._starts(last)):
            last += 1
        return at + 1, last

    def _bounds(self, n: int, at: int) -> bool:
        """Whether the token ends an operand of the operator at ``at``."""
        token, operator = self.tokens[n], self.tokens[at]
        if token.depth > operator.depth or (token.depth == operator.depth and token.text in _OPENS | _CLOSES):
            return False
        if token.text == "and":
            return operator.text == "and"
        keywords = _KEYWORDS - {"not"}
        return token.depth < operator.depth or token.text in {",", "=", *keywords}

    def signs(self) -> Iterator[Mutant]:
        """Each bound is off by one, each sum a difference."""
        for at, token in enumerate(self.tokens):
            is_binary = self.tokens[at - 1].kind in ("name", "number", "string") or self.tokens[at - 1].text in _CLOSES
            if token.text in _BOUNDS and is_binary:
                yield self._change((at, at + 1), _BOUNDS[token.text], f"{token.text} is {_BOUNDS[token.text]}")

    # -- statements ------------------------------------------------------------------------------------

    def statements(self) -> Iterator[Mutant]:
        """Each call and each assignment is left out."""
        for at, token in enumerate(self.tokens):
            if token.kind == "name" and self._starts(at):
                end = self._statement_end(at)
                yield self._change((at, end), "", f"without {self._source((at, end))}")

    def _statement_end(self, at: int) -> int:
        depth = self.tokens[at].depth
        end = at + 1
        while end < len(self.tokens) and not (self.tokens[end].depth == depth and self._starts(end)):
            end += 1
        return end

    # -- calls -----------------------------------------------------------------------------------------

    def _arguments(self, opening: int) -> list[Span]:
        """The arguments between the bracket at ``opening`` and its other half."""
        depth, first, found = self.tokens[opening].depth, opening + 1, []
        for n in range(opening + 1, len(self.tokens)):
            token = self.tokens[n]
            if token.depth == depth + 1 and token.text == ",":
                found.append((first, n))
                first = n + 1
            elif token.depth == depth:
                return [*found, (first, n)]
        raise AssertionError("a bracket is not closed")

    def extremes(self) -> Iterator[Mutant]:
        """Each largest or smallest of two is the one, and the other."""
        for at, token in enumerate(self.tokens):
            if token.text == "math" and self.tokens[at + 2].text in ("max", "min"):
                arguments = self._arguments(at + 3)
                for span in arguments:
                    whole = (at, arguments[-1][1] + 1)
                    piece = self.text[self.tokens[span[0]].start : self.tokens[span[1] - 1].end]
                    yield self._change(whole, piece, f"{self._source(whole)} is {quoted(piece)}")

    def commands(self) -> Iterator[Mutant]:
        """Options, fields and members of the server's commands are left out, ranges are open."""
        for at, token in enumerate(self.tokens):
            if token.text == "redis" and self.tokens[at + 2].text == "call":
                arguments = self._arguments(at + 3)
                words = [self._source(span) for span in arguments]
                yield from self._options(arguments, words)
                yield from self._members(arguments, words)
                yield from self._ranges(arguments, words)

    def _without(self, arguments: Sequence[Span]) -> Mutant:
        span = (arguments[0][0] - 1, arguments[-1][1])  # with the comma before it
        return self._change(span, "", f"without {self._source(span).removeprefix(', ')}")

    def _options(self, arguments: list[Span], words: list[str]) -> Iterator[Mutant]:
        for n, word in enumerate(words):
            if word in _OPTIONS:
                yield self._without(arguments[n : n + _OPTIONS[word]])

    def _members(self, arguments: list[Span], words: list[str]) -> Iterator[Mutant]:
        command = words[0].strip("'")
        if command == "HSET" and len(arguments) > 4:
            for n in range(2, len(arguments), 2):
                yield self._without(arguments[n : n + 2])
        elif command in _MEMBERS and len(arguments) > _MEMBERS[command] + 1:
            for span in arguments[_MEMBERS[command] :]:
                yield self._without([span])

    def _ranges(self, arguments: list[Span], words: list[str]) -> Iterator[Mutant]:
        for n, end in zip((2, 3), _OPEN_ENDS.get(words[0].strip("'"), ()), strict=False):
            if words[n] not in ("'-inf'", "'+inf'", "'-'", "'+'"):
                yield self._change(arguments[n], end, f"{words[n]} is {end}")
