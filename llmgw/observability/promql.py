"""Which metrics and labels a PromQL expression speaks of.

Not a parser of the language: it reads the tokens (of Prometheus' lexer, and Grafana's `$variables`)
and finds what a name belongs to. Prometheus itself says whether an expression is right.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llmgw.base.errors import Unreadable

KEYWORDS = frozenset({"and", "or", "unless", "bool", "offset", "start", "end", "inf", "nan"})
GROUPINGS = frozenset({"by", "without"})
MATCHINGS = frozenset({"on", "ignoring", "group_left", "group_right"})

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
      | (?P<span>\[[^\]]*\])
      | (?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
      | (?P<number>(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?:ms|[smhdwy]|\d)*)
      | (?P<variable>\$\{\w+\}|\$\w+)
      | (?P<op>=~|!~|!=|==|<=|>=|[-+*/%^=<>(){},@])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label: `=`, `!=`, `=~` or `!~`, and the value without its quotes."""

    label: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """One metric, and what its labels have to be."""

    metric: str
    matchers: tuple[Matcher, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels that its matchers name."""
        return tuple(one.label for one in self.matchers)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Labels after `by`, `on` and the like, and the metrics that they are about."""

    word: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


def selectors(expr: str) -> tuple[Selector, ...]:
    """Return the metrics of an expression in their order, each as often as it stands there.

    Raises:
        Unreadable: something in it is no PromQL.
    """
    return tuple(selector for _, selector in _selectors(_tokens(expr)))


def metrics(expr: str) -> frozenset[str]:
    """Return the names of all metrics in an expression."""
    return frozenset(one.metric for one in selectors(expr))


def groupings(expr: str) -> tuple[Grouping, ...]:
    """Return what an expression groups, matches and joins by.

    What `by` and `without` are about is what their aggregation is over; the others may be about
    any metric of the expression.
    """
    tokens = _tokens(expr)
    found = []
    for at, token in enumerate(tokens):
        if token.text in GROUPINGS | MATCHINGS and _text(tokens, at + 1) == "(":
            end = _closing(tokens, at + 1)
            labels = tuple(t.text for t in tokens[at + 2 : end] if t.kind == "name")
            reach = _reach(tokens, at, end) if token.text in GROUPINGS else tokens
            about = tuple(one.metric for _, one in _selectors(reach))
            found.append(Grouping(token.text, labels, about))
    return tuple(found)


def _tokens(expr: str) -> list[_Token]:
    found, at = [], 0
    while at < len(expr):
        match = _TOKEN.match(expr, at)
        if match is None:
            raise Unreadable(f"not PromQL from {expr[at : at + 20]!r} on: {expr!r}")
        at = match.end()
        if match.lastgroup != "space":
            found.append(_Token(match.lastgroup or "", match[0]))
    return found


def _selectors(tokens: Sequence[_Token]) -> Iterator[tuple[int, Selector]]:
    at = 0
    while at < len(tokens):
        token, after = tokens[at], _text(tokens, at + 1)
        if token.text in GROUPINGS | MATCHINGS and after == "(":
            at = _closing(tokens, at + 1)
        elif token.kind == "name" and after == "{":
            end = _closing(tokens, at + 1)
            yield at, Selector(token.text, tuple(_matchers(tokens[at + 2 : end])))
            at = end
        elif token.kind == "name" and not _is_word(tokens, at):
            yield at, Selector(token.text)
        at += 1


def _matchers(inside: Sequence[_Token]) -> Iterator[Matcher]:
    for at, token in enumerate(inside):
        if token.kind == "name" and at + 2 < len(inside):
            yield Matcher(token.text, inside[at + 1].text, inside[at + 2].text[1:-1])


def _is_word(tokens: Sequence[_Token], at: int) -> bool:
    """Say whether a name is a function, an operator or a part of one, and no metric."""
    token, after = tokens[at], _text(tokens, at + 1)
    if token.text.lower() in KEYWORDS | GROUPINGS | MATCHINGS:
        return True
    return after in ("(", *GROUPINGS)


def _reach(tokens: Sequence[_Token], at: int, end: int) -> Sequence[_Token]:
    """Return what an aggregation is over: its argument stands after `by (...)`, or before."""
    if _text(tokens, end + 1) == "(":
        return tokens[end + 2 : _closing(tokens, end + 1)]
    depth = 0
    for begin in range(at - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(tokens[begin].text, 0)
        if depth == 0:
            return tokens[begin + 1 : at - 1]
    raise Unreadable(f"{tokens[at].text!r} belongs to no aggregation")


def _closing(tokens: Sequence[_Token], at: int) -> int:
    """Return where the bracket at `at` is closed."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index
    raise Unreadable("a bracket is not closed")


def _text(tokens: Sequence[_Token], at: int) -> str:
    return tokens[at].text if at < len(tokens) else ""
