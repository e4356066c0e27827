"""Turns a parse tree into the clauses of a MATCH_RECOGNIZE, with names not yet resolved.

A column is a `RowRef` whose path is the whole name, including a variable before it. FIRST, LAST,
PREV and NEXT set fields of that `RowRef`. SQL features that make no sense for streams are refused
with the reason. Errors are collected; after an error the tree is never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from lark import Token
from lark.visitors import v_args

from topology.queries.pattern.language.read_conditions import (
    ONCE,
    ConditionReader,
    Name,
    Quant,
    place,
)
from topology.queries.pattern.tree.errors import Findings, shorten
from topology.queries.pattern.tree.syntax import (
    UNBOUNDED,
    AllOf,
    AnyOf,
    Call,
    Compare,
    Constant,
    CountedNode,
    Duration,
    EventNode,
    Expr,
    Item,
    Node,
    Not,
    Or,
    RowAggregate,
    RowRef,
    Seq,
    Skip,
    Span,
)
from topology.queries.pattern.tree.walk import (
    find_too_deep_in,
    flatten,
    rewrite,
    rewrite_events,
    walk,
)
from topology.queries.pattern.tree.words import AGGREGATES, UNITS_NS

UNITS: Final = frozenset({"second", "minute", "hour", "day"})
NAVIGATION: Final = frozenset({"first", "last", "prev", "next"})


class QuotedName(str):
    """A part of a name that was written in quotes, and therefore keeps its case."""

    __slots__ = ()


class NamedValue(NamedTuple):
    """An expression with its name: `expr AS name`."""

    name: Name
    expr: Expr


class ColumnName(NamedTuple):
    """The name of a column, split at its dots. `called` is the name that AS gives to the column."""

    parts: tuple[str, ...]
    span: Span
    called: str = ""


class SkipClause(NamedTuple):
    """The clause AFTER MATCH SKIP. `kind`: see syntax.Query. `to`: the variable after TO."""

    kind: Skip
    to: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class RecognizeClause:
    """The clauses of one MATCH_RECOGNIZE, and of the SELECT around it.

    `chosen`: the names after SELECT, or None for `*`. `tables`: the names that FROM and AS give to
    the rows. `subset`: one entry for each SUBSET, its name followed by its members.
    """

    pattern: Node
    span: Span
    partition: tuple[ColumnName, ...] = ()
    order: tuple[ColumnName, ...] = ()
    measures: tuple[NamedValue, ...] | None = None
    skip: SkipClause | None = None
    within: Duration | None = None
    subset: tuple[tuple[Name, ...], ...] = ()
    define: tuple[NamedValue, ...] = ()
    chosen: tuple[ColumnName, ...] | None = None
    all_rows: bool = False
    stream: str = ""
    tables: tuple[str, ...] = ()


@v_args(wrapper=place)
class RecognizeReader(ConditionReader):
    """A visitor that builds the `RecognizeClause` of one MATCH_RECOGNIZE.

    `_moved`: the positions of the columns inside FIRST, LAST, PREV and NEXT. `_finals`: the
    positions of FINAL outside MEASURES.
    """

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._moved: set[tuple[str, int, int]] = set()
        self._finals: list[Span] = []

    def __default__(
        self, data: Token, children: list[Any], _: object
    ) -> tuple[str, tuple[Any, ...]]:
        """Return a rule's name and its items; this applies to all rules without a method."""
        return str(data), tuple(children)

    def select(self, _: Span, children: list[Any]) -> RecognizeClause:
        chosen, source, *rest = children
        clause = next(each for each in rest if isinstance(each, RecognizeClause))
        names = tuple(each.text for each in rest if isinstance(each, Name))
        stream: str = source.parts[-1]
        return replace(clause, chosen=chosen, stream=str(stream), tables=(stream, *names))

    def clause(self, span: Span, children: list[Any]) -> RecognizeClause:
        return RecognizeClause(span=span, **dict(children))

    def selected(self, _: Span, children: list[Any]) -> tuple[ColumnName, ...] | None:
        return None if isinstance(children[0], Token) else tuple(children)

    def chosen(self, _: Span, children: list[Any]) -> ColumnName:
        path: ColumnName = children[0]
        return path._replace(called=str(children[1].text) if len(children) > 1 else "")

    def ordered(self, span: Span, children: list[Any]) -> ColumnName:
        if len(children) > 1 and children[1].upper() == "DESC":
            message = "rows are always in ascending order of ref_time"
            self._refuse(span, message, "leave DESC out")
        path: ColumnName = children[0]
        return path

    def measures(self, _: Span, children: list[NamedValue]) -> tuple[str, tuple[NamedValue, ...]]:
        self._finals.clear()
        return "measures", tuple(children)

    def measured(self, _: Span, children: list[Any]) -> NamedValue:
        return self._name(children[1], children[0])

    def rows(self, span: Span, children: list[Token]) -> tuple[str, bool]:
        words = [word.upper() for word in children]
        if "UNMATCHED" in words:
            message = "a row is certainly unmatched only after its window has passed"
            hint = "leave WITH UNMATCHED ROWS out; the ordered topic has all rows"
            self._refuse(span, message, hint)
        return "all_rows", words[0] == "ALL"

    def skip(self, span: Span, children: list[Any]) -> tuple[str, SkipClause]:
        words = [str(each).upper() for each in children if isinstance(each, Token)]
        name = next((each for each in children if isinstance(each, Name)), None)
        kind: Skip = "past_last" if words[0] == "PAST" else "none"
        if name is not None:
            kind = "first" if "FIRST" in words else "last"
        return "skip", SkipClause(kind, name, span)

    def pattern(self, _: Span, children: list[Node]) -> tuple[str, Node]:
        return "pattern", children[0]

    def within(self, _: Span, children: list[Duration]) -> tuple[str, Duration]:
        return "within", children[0]

    def union(self, _: Span, children: list[Name]) -> tuple[Name, ...]:
        return tuple(children)

    def define(self, _: Span, children: list[NamedValue]) -> tuple[str, tuple[NamedValue, ...]]:
        for span in self._finals:
            message = "FINAL needs the whole match, which is not known while its rows are tested"
            self._refuse(span, message, "leave FINAL out")
        return "define", tuple(children)

    def defined(self, _: Span, children: list[Any]) -> NamedValue:
        return self._name(*children)

    def _name(self, name: Name, expr: Expr) -> NamedValue:
        deep = find_too_deep_in(expr)
        if deep is not None:
            self._refuse(deep.span, "the expression is nested too deep", "split it into parts")
            expr = Constant(None, span=deep.span)
        return NamedValue(name, expr)

    # -- the row pattern ----------------------------------------------------------------------

    def either(self, _: Span, children: list[Node]) -> Node:
        return AnyOf(tuple(children))

    def row_sequence(self, _: Span, children: list[Node]) -> Node:
        return Seq(tuple(map(Item, children)))

    def quantified(self, span: Span, children: list[Any]) -> Node:
        row, count = children
        return row if count == ONCE else CountedNode(row, **count._asdict(), span=span)

    def quant(self, span: Span, children: list[Any]) -> Quant:
        low, high, _ = count = super().quant(span, children)
        if high != UNBOUNDED and (high < low or high == 0):
            hint = f"write {{{high},{low}}}" if high else "leave the variable out"
            self.findings.add("E_QUANT", span, f"{low} to {high} is not a range", hint)
            return ONCE
        return count

    def variable(self, span: Span, children: list[Name]) -> Node:
        return EventNode((), children[0].text, span=span)

    def excluded(self, _: Span, children: list[Node]) -> Node:
        row: Node = rewrite_events(children[0], lambda event: replace(event, hidden=True))
        return row

    def permuted(self, _: Span, children: list[Node]) -> Node:
        return AllOf(tuple(children))

    def nothing(self, span: Span, _: list[Any]) -> Node:
        message = "an empty match has no event, so it has no place in a stream"
        self._refuse(span, message, "leave () out, or write ? after an optional part")
        return EventNode((), "")

    def anchor(self, span: Span, _: list[Any]) -> Node:
        message = "^ and $ have no meaning, because a stream has no first and no last row"
        hint = "leave it out; if an event marks the beginning, match it with a variable"
        self._refuse(span, message, hint)
        return EventNode((), "")

    # -- expressions --------------------------------------------------------------------------

    def is_in(self, span: Span, children: list[Any]) -> Expr:
        operand, *negating, values = children
        if all(isinstance(each, Constant) for each in values):
            return super().is_in(span, children)
        found = flatten(Or, [Compare("=", operand, each, span=span) for each in values], span=span)
        return Not(found, span=span) if negating else found

    def not_between(self, span: Span, children: list[Expr]) -> Expr:
        return Not(self.between(span, children), span=span)

    def not_like(self, span: Span, children: list[Any]) -> Expr:
        return Not(self.like(span, children), span=span)

    def column(self, span: Span, children: list[ColumnName]) -> Expr:
        return RowRef((), children[0].parts, span=span)

    def column_name(self, span: Span, children: list[Any]) -> ColumnName:
        return ColumnName(tuple(name.text for name in children), span)

    def interval(self, span: Span, children: list[Any]) -> Duration:
        text, unit = children
        word = unit.text.lower().removesuffix("s")
        whole, _, fraction = str(text[1:-1]).strip().partition(".")
        if word not in UNITS:
            message = f"`{shorten(unit.text)}` is not a supported unit of an interval"
            self.findings.add("E_WINDOW", span, message, "units are DAY, HOUR, MINUTE and SECOND")
        elif not whole.isdecimal() or not (fraction or "0").isdecimal() or len(text) > 40:
            message = f"{shorten(text)} is not a number of {unit.text.upper()}"
            self.findings.add("E_WINDOW", span, message, "write it like INTERVAL '10' SECOND")
        else:
            ns, rest = divmod(int(whole + fraction) * UNITS_NS[word], 10 ** len(fraction))
            if rest:
                message = "the interval is not a whole number of nanoseconds"
                self.findings.add("E_WINDOW", span, message, "write fewer digits")
            return Duration(ns, span=span)
        return Duration(1, span=span)

    def final(self, span: Span, children: list[Expr]) -> Expr:
        self._finals.append(span)

        def change(part: Expr) -> Expr:
            if isinstance(part, RowRef | RowAggregate):
                return replace(part, final=True)
            return part

        return rewrite(children[0], change)

    def count_rows(self, span: Span, children: list[Any]) -> Expr:
        name, *of, _ = children
        if name.text.lower() != "count":
            message = f"only COUNT takes *; `{shorten(name.text)}` takes a column"
            self.findings.add("E_FUNCTION", span, message, "name a column in place of *")
        return RowAggregate("count", tuple(each.text for each in of), None, span=span)

    def call(self, span: Span, children: list[Any]) -> Expr:
        name, *arguments = children
        function = name.text.lower()
        if function == "match_number":
            message = "a late event would renumber all later matches"
            self._refuse(span, message, "use the `id` of the match, which does not change")
        elif function == "classifier":
            return self._read_classifier(arguments, span)
        elif function in NAVIGATION:
            return self._navigate(function, arguments, span)
        elif function in AGGREGATES:
            if len(arguments) == 1:
                return RowAggregate(function, (), arguments[0], span=span)
            self.findings.add("E_FUNCTION", span, f"`{function}` takes one value", "name a column")
        else:
            return super().call(span, [name._replace(quoted=False), *arguments])
        return Constant(None, span=span)

    def _read_classifier(self, arguments: Sequence[Expr], span: Span) -> Expr:
        """Read CLASSIFIER(), the label of the last row of the match, or CLASSIFIER(U).

        The latter is the label of the last row of U, which is a variable or a SUBSET.
        """
        of = arguments[0] if arguments else RowRef((), ("*",), span=span)
        if len(arguments) > 1 or not isinstance(of, RowRef) or len(of.path) != 1:
            message, hint = "CLASSIFIER takes one variable, or none", "write CLASSIFIER(A)"
            self.findings.add("E_FUNCTION", span, message, hint)
            return Constant(None, span=span)
        return replace(of, is_label=True, span=span)

    def _navigate(self, function: str, arguments: Sequence[Expr], span: Span) -> Expr:
        """Return the first argument with FIRST, LAST, PREV or NEXT applied to each column."""
        physical = function in {"prev", "next"}
        step = arguments[1] if len(arguments) == 2 else Constant(1 if physical else 0)
        refs = [each for part in arguments[:1] for each in walk(part)]
        if (
            len(arguments) not in (1, 2)
            or not isinstance(step, Constant)
            or type(step.value) is not int
            or step.value < 0
            or not any(isinstance(each, RowRef) for each in refs)
        ):
            hint = f"write it like {function.upper()}(A.price), or {function.upper()}(A.price, 2)"
            message = f"{function.upper()} takes a column and, optionally, a number of rows"
            self.findings.add("E_FUNCTION", span, message, hint)
            return Constant(None, span=span)
        count = step.value
        kind = "physical" if physical else "logical"

        def move(expr: Expr) -> Expr:
            if isinstance(expr, RowAggregate | Call) and expr.function in AGGREGATES:
                message = f"{function.upper()} takes columns, not an aggregate"
                self.findings.add("E_FUNCTION", span, message, "leave one of them out")
            if not isinstance(expr, RowRef):
                return expr
            place = (kind, expr.span.line, expr.span.column)
            if place in self._moved or (kind == "logical" and expr.shift):
                message = f"{function.upper()} cannot be applied to another such function"
                hint = "PREV and NEXT accept FIRST and LAST; no other nesting is possible"
                self.findings.add("E_FUNCTION", span, message, hint)
            self._moved.add(place)
            if physical:
                return replace(expr, shift=-count if function == "prev" else count)
            return replace(expr, from_last=function == "last", offset=count)

        return rewrite(arguments[0], move)

    def name(self, span: Span, children: list[Token]) -> Name:
        token = children[0]
        if token.type != "QUOTED":
            return Name(str(token), quoted=False, span=span)
        mark = token[0]
        text = QuotedName(token[1:-1].replace(2 * mark, mark))
        return Name(text, quoted=True, span=span)

    def _refuse(self, span: Span, message: str, hint: str) -> None:
        self.findings.add("E_SQL", span, message, hint)
