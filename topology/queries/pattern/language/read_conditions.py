"""Turns parse trees into conditions, names and counts, for the pattern language and for SQL.

Each method reads one rule of the grammars. Nested ANDs become one AND, and nested ORs one OR, with
or without parentheses. `-5` becomes a negative number and not a `Negative`. Errors are collected;
after an error the tree is never used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from lark import Token
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive, v_args

from topology.base.paths import unquote
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.errors import Findings, shorten, suggest
from topology.queries.pattern.tree.walk import flatten
from topology.queries.pattern.tree.words import AGGREGATES, FUNCTIONS, MAX_NS, UNITS_NS

MAX_PREV: Final = 1_000
"""The maximum number of events that PREV can go back."""

MAX_DIGITS: Final = 100
"""The maximum length of a numeric literal, in characters; in a duration, in digits."""

_LENGTH: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?\s*(\w+)")


class Name(NamedTuple):
    text: str
    quoted: bool
    span: syntax.Span


class Quant(NamedTuple):
    """A count of events or turns; if it is `reluctant`, a match with fewer of them is preferred.

    A count that permits only one number is never reluctant.
    """

    minimum: int = 1
    maximum: int = 1
    reluctant: bool = False

    @classmethod
    def of(cls, node: syntax.CountedNode) -> Quant:
        return cls(node.minimum, node.maximum, node.reluctant)


ONCE: Final = Quant()
_COUNTS: Final = {
    "+": Quant(1, syntax.UNBOUNDED),
    "*": Quant(0, syntax.UNBOUNDED),
    "?": Quant(0, 1),
}


class Group(NamedTuple):
    """The argument `b[].x` or `b[..i-1].x`, which only aggregates accept."""

    alias: str
    path: tuple[str, ...]
    before: int | None
    span: syntax.Span


def place(rule: Callable[..., Any], _: str, children: list[Any], meta: Meta) -> Any:
    """Call the method of a rule with the rule's place in the text and its children."""
    return rule(syntax.Span(meta.line, meta.column, meta.end_pos - meta.start_pos), children)


def place_of(token: Token) -> syntax.Span:
    return syntax.Span(token.line or 0, token.column or 0, max(1, len(token)))


@v_args(wrapper=place)
class ConditionReader(Transformer_NonRecursive[Token, Any]):
    def __init__(self, findings: Findings) -> None:
        super().__init__()
        self.findings = findings

    def disjunction(self, span: syntax.Span, children: list[syntax.Expr]) -> syntax.Expr:
        return flatten(syntax.Or, children, span)

    def conjunction(self, span: syntax.Span, children: list[syntax.Expr]) -> syntax.Expr:
        return flatten(syntax.And, children, span)

    def negated(self, span: syntax.Span, children: list[syntax.Expr]) -> syntax.Expr:
        return syntax.Not(children[0], span=span)

    def same(self, span: syntax.Span, children: list[tuple[str, ...]]) -> syntax.Expr:
        return syntax.Same(tuple(children), span=span)

    def compare(self, span: syntax.Span, children: list[Any]) -> syntax.Expr:
        left, operator, right = children
        sign: Any = str(operator)
        return syntax.Compare(sign, left, right, span=span)

    def is_in(self, span: syntax.Span, children: list[Any]) -> syntax.Expr:
        return syntax.In(children[0], children[-1], negated=len(children) > 2, span=span)

    def values(
        self, _: syntax.Span, children: list[syntax.Constant | syntax.Duration]
    ) -> tuple[syntax.Constant, ...]:
        return tuple(
            syntax.Constant(child.ns, span=child.span)
            if isinstance(child, syntax.Duration)
            else child
            for child in children
        )

    def between(self, span: syntax.Span, children: list[syntax.Expr]) -> syntax.Expr:
        return syntax.Between(*children, span=span)

    def is_null(self, span: syntax.Span, children: list[Any]) -> syntax.Expr:
        return syntax.IsNull(children[0], negated=len(children) > 2, span=span)

    def like(self, span: syntax.Span, children: list[Any]) -> syntax.Expr:
        return syntax.Like(children[0], _unquote(children[1]), span=span)

    def arithmetic(self, span: syntax.Span, children: list[Any]) -> syntax.Expr:
        left, operator, right = children
        sign: Any = str(operator)
        return syntax.Arithmetic(sign, left, right, span=span)

    def negative(self, span: syntax.Span, children: list[Any]) -> syntax.Expr:
        return syntax.Negative(children[-1], span=span)

    def minus_measure(self, span: syntax.Span, children: list[Any]) -> syntax.Expr:
        measure = children[-1]
        if isinstance(measure, syntax.Duration):
            return syntax.Duration(-measure.ns, span=span)
        return syntax.Constant(-measure.value, span=span)

    def literal(self, span: syntax.Span, children: list[Token]) -> syntax.Expr:
        token = children[0]
        if token.type == "STRING":
            return syntax.Constant(_unquote(token), span=span)
        value = {"TRUE": True, "FALSE": False}.get(token.type)
        return syntax.Constant(value, span=span)

    def measure(self, span: syntax.Span, children: list[Token]) -> syntax.Expr:
        token = children[0]
        if token.type == "DURATION":
            return syntax.Duration(self.duration_ns(token), span=span)
        if token.type == "INT":
            return syntax.Constant(self.int_of(token), span=span)
        value = float(token)
        if value in {float("inf")} or len(token) > MAX_DIGITS:
            self.findings.add("E_LITERAL", span, "the number is too long", "shorten it")
        return syntax.Constant(value, span=span)

    def bare(self, span: syntax.Span, children: list[Name]) -> syntax.Expr:
        return syntax.Param(children[0].text, span=span)

    dollar = bare

    def call(self, span: syntax.Span, children: list[Any]) -> syntax.Expr:
        name, *arguments = children
        function = name.text
        if not name.quoted and function.lower() in AGGREGATES | FUNCTIONS.keys():
            function = function.lower()
        if function in AGGREGATES and not name.quoted:
            return self._make_aggregate(function, arguments, span)
        if not name.quoted and function.lower() == "prev":
            return self._make_previous(arguments, span)
        groups = [argument for argument in arguments if isinstance(argument, Group)]
        for group in groups:
            message = f"`{shorten(function)}` is not an aggregate, so it cannot take a group"
            self.findings.add("E_FUNCTION", group.span, message, suggest(function, AGGREGATES))
        return syntax.Call(function, () if groups else tuple(arguments), span=span)

    def _make_previous(self, arguments: Sequence[Any], span: syntax.Span) -> syntax.Expr:
        match arguments:
            case [syntax.Ref(alias, path, None)]:
                return syntax.Previous(alias, path, span=span)
            case [syntax.Ref(alias, path, None), syntax.Constant(back)]:
                if type(back) is int and 0 < back <= MAX_PREV:
                    return syntax.Previous(alias, path, back, span=span)
        message = f"PREV takes an attribute and a number of events to go back, 1 to {MAX_PREV}"
        self.findings.add("E_FUNCTION", span, message, "write it like PREV(b.x), PREV(b.x, 2)")
        return syntax.Constant(None, span=span)

    def _make_aggregate(
        self, function: str, arguments: Sequence[Any], span: syntax.Span
    ) -> syntax.Expr:
        match arguments:
            case [Group(alias, path, before)]:
                return syntax.AggregateCall(function, alias, path, before, span=span)
            case [syntax.Ref(alias, path, None)]:
                return syntax.AggregateCall(function, alias, path, span=span)
            case [syntax.Param(alias)]:
                return syntax.AggregateCall(function, alias, span=span)
        example = f"write it like {function}(b[].x)" if function != "count" else "write count(b)"
        message = f"`{function}` takes one attribute of one group"
        self.findings.add("E_FUNCTION", span, message, example)
        return syntax.Constant(None, span=span)

    def group(self, span: syntax.Span, children: list[Any]) -> Group:
        name, *rest = children
        before = rest.pop(0) if rest and isinstance(rest[0], int) else None
        return Group(name.text, rest[0] if rest else (), before, span)

    def before(self, _: syntax.Span, children: list[Any]) -> int:
        self._check_index_name(children[0])
        return self.int_of(children[-1]) if len(children) > 1 else 0

    def ref(self, span: syntax.Span, children: list[Any]) -> syntax.Expr:
        name, *index, path = children
        return syntax.Ref(name.text, path, index[0] if index else None, span=span)

    def index(self, _: syntax.Span, children: list[Any]) -> syntax.Index:
        sign = -1 if "-" in children else 1
        if not isinstance(children[0], Name):
            return syntax.At(sign * self.int_of(children[-1]))
        name = children[0]
        if name.text.lower() in {"first", "last"} and len(children) == 1:
            return syntax.At(1 if name.text.lower() == "first" else -1)
        self._check_index_name(name)
        return syntax.Each(sign * self.int_of(children[-1]) if len(children) > 1 else 0)

    def _check_index_name(self, name: Name) -> None:
        if name.text.lower() != "i":
            message = f"`{shorten(name.text)}` is not an index"
            hint = "write i, i-1, first, last or a number from 1"
            self.findings.add("E_INDEX", name.span, message, hint)

    def path(self, _: syntax.Span, children: list[Name]) -> tuple[str, ...]:
        return tuple(name.text for name in children)

    def name(self, span: syntax.Span, children: list[Token]) -> Name:
        token = children[0]
        quoted = token.type == "QUOTED"
        return Name(unquote(str(token)) if quoted else str(token), quoted, span)

    def quant(self, _: syntax.Span, children: list[Any]) -> Quant:
        count: Quant = children[0]
        return count._replace(reluctant=len(children) > 1 and count.minimum != count.maximum)

    def count(self, _: syntax.Span, children: list[Token]) -> Quant:
        if children[0] in _COUNTS:
            return _COUNTS[children[0]]
        # Between braces: `{n}` (both variables are the same token), `{n,}`, `{n,m}`; SQL: `{,m}`.
        low, high = children[1], children[-2]
        return Quant(
            self.int_of(low) if low.type == "INT" else 0,
            self.int_of(high) if high.type == "INT" else syntax.UNBOUNDED,
        )

    def int_of(self, token: Token) -> int:
        if len(token) > MAX_DIGITS:
            self.findings.add("E_LITERAL", place_of(token), "the number is too long", "shorten it")
            return 1
        return int(token)

    def duration_ns(self, token: Token) -> int:
        found = _LENGTH.fullmatch(token)
        assert found is not None, token
        whole, fraction, unit = found.groups(default="")
        if len(whole) + len(fraction) > MAX_DIGITS:
            self._report_too_long(token)
            return 1
        ns: int
        ns, rest = divmod(int(whole + fraction) * UNITS_NS[unit.lower()], 10 ** len(fraction))
        if rest:
            message = "the duration is not a whole number of nanoseconds"
            self.findings.add("E_WINDOW", place_of(token), message, f"write {ns + 1} ns")
            return ns + 1
        if ns > MAX_NS:
            self._report_too_long(token)
        return ns

    def _report_too_long(self, token: Token) -> None:
        message = "the duration is longer than 2^62 ns (146 years)"
        self.findings.add("E_WINDOW", place_of(token), message, "write a shorter one")


def _unquote(token: Token) -> str:
    return token[1:-1].replace("''", "'")
