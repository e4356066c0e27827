"""Queries in Python: the same trees as their texts (docs/patterns.md).

    g, t, v, s = event("Gas"), event("Temp").many(), event("Vent"), event("Smoke")
    fire = (
        query("fire", seq(g, t, no(v), s))
        .where(g.percent > param("limit"), t[i + 1].temperature > t[i].temperature, same("room"))
        .within(30 * SECOND)
        .using(ANY)
        .select(room=g.room, n=count(t))
        .build()
    )

Each step gives a new value and changes none. Components are called t0, t1, … by their place,
`.named("g")` gives one a name. What cannot be written at all is a TypeError or ValueError at
once; whether the query means something is asked by `topology.pattern.language.check`, as of a text.

A function may be a condition, `test(close, g, s)`: it gets an event for each single, a list for
each group, and must be pure. Its name and version stand for it in the query's fingerprint.

Proved by: tests/topology/pattern/language/test_builder.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from topology.pattern.language.build_values import (
    DAY,
    HOUR,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    NANOSECOND,
    SECOND,
    Aliases,
    Key,
    Operand,
    Reference,
    abs_,
    alias_of,
    between,
    call,
    checked_name,
    coalesce,
    element,
    i,
    is_not_null,
    is_null,
    length,
    like,
    lower,
    none_of,
    one_of,
    param,
    same,
    sqrt,
    tree,
    trees,
    upper,
)
from topology.pattern.language.unparse import expression_text
from topology.pattern.tree import syntax
from topology.pattern.tree.defaults import Options, settled
from topology.pattern.tree.syntax import (
    LIMIT,
    NOWHERE,
    UNBOUNDED,
    Edge,
    Emit,
    Late,
    Matches,
    Query,
    Strategy,
    Ties,
    Uncertain,
)
from topology.pattern.tree.walk import flat

__all__ = [
    "ALL",
    "AMEND",
    "ANY",
    "BY_KEY",
    "DAY",
    "EAGER",
    "FINAL",
    "HOUR",
    "IGNORE",
    "MAXIMAL",
    "MICROSECOND",
    "MILLISECOND",
    "MINUTE",
    "NANOSECOND",
    "NEXT",
    "NOMINAL",
    "NONE",
    "ONE",
    "PARTITION",
    "PAST_LAST",
    "POSSIBLE",
    "REFETCH",
    "REPORT",
    "SECOND",
    "SLACK",
    "STRICT",
    "TO_FIRST",
    "TO_LAST",
    "TO_NEXT",
    "Operand",
    "PatternEvent",
    "QueryBuilder",
    "Reference",
    "abs_",
    "all_of",
    "any_",
    "any_of",
    "avg",
    "between",
    "call",
    "coalesce",
    "count",
    "event",
    "greedy",
    "i",
    "is_not_null",
    "is_null",
    "length",
    "like",
    "loop_any",
    "loop_next",
    "loop_strict",
    "lower",
    "max_",
    "min_",
    "next_",
    "no",
    "none_of",
    "one_of",
    "param",
    "query",
    "same",
    "seq",
    "sqrt",
    "stddev",
    "strict",
    "sum_",
    "test",
    "upper",
]  # fmt: skip

STRICT: Final = "strict"
PARTITION: Final = "partition"
NEXT: Final = "next"
ANY: Final = "any"
ONE: Final = "one"
MAXIMAL: Final = "maximal"
ALL: Final = "all"
NONE: Final = "none"
TO_NEXT: Final = "next"
PAST_LAST: Final = "past_last"
TO_FIRST: Final = "first"
TO_LAST: Final = "last"
EAGER: Final = "eager"
FINAL: Final = "final"
SLACK: Final = "slack"
BY_KEY: Final = "key"
REPORT: Final = "report"
AMEND: Final = "amend"
REFETCH: Final = "refetch"
IGNORE: Final = "ignore"
NOMINAL: Final = "nominal"
POSSIBLE: Final = "possible"


@dataclass(frozen=True, slots=True, eq=False)
class PatternEvent:
    """A component. `event.x` is its attribute x; `many()` and the like give the same component
    with another count, so what was said of the one holds for the other."""

    _types: tuple[str, ...]
    _key: Key = field(default_factory=object)
    _alias: str = ""
    _minimum: int = 1
    _maximum: int = 1
    _loop: Edge | None = None
    _greedy: bool = False
    _until: Operand | None = None

    def __getattr__(self, name: str) -> Reference:
        if name.startswith("__"):
            raise AttributeError(name)
        return element(self._key, name)

    def __getitem__(self, index: Any) -> Reference:
        return element(self._key, index)

    def named(self, alias: str) -> PatternEvent:
        return replace(self, _alias=checked_name(alias))

    def many(self) -> PatternEvent:
        """One or more; `.many().optional()` is none or more."""
        return replace(self, _minimum=1, _maximum=UNBOUNDED)

    def optional(self) -> PatternEvent:
        if self._minimum > 1:
            raise ValueError("none or several is no count; use any_of for two patterns")
        return replace(self, _minimum=0)

    def times(self, minimum: int, maximum: int | None = -2) -> PatternEvent:
        """So many, or from so many to so many; a maximum of None is no maximum."""
        most = minimum if maximum == -2 else UNBOUNDED if maximum is None else maximum
        return replace(self, _minimum=minimum, _maximum=most)

    def until(self, condition: Operand) -> PatternEvent:
        return replace(self, _until=condition)


@dataclass(frozen=True, slots=True, eq=False)
class Absent:
    event: PatternEvent


@dataclass(frozen=True, slots=True, eq=False)
class PatternStep:
    """`edge` overrides the strategy for the step into the part."""

    part: Pattern | Absent
    edge: Edge


@dataclass(frozen=True, slots=True, eq=False)
class Compound:
    kind: Literal["seq", "all", "any"]
    parts: tuple[Pattern | Absent | PatternStep, ...]


Pattern = PatternEvent | Compound
Part = PatternEvent | Compound | Absent | PatternStep


def event(*types: str) -> PatternEvent:
    """An event of one of these types; of every type if none is named."""
    return PatternEvent(tuple(map(checked_name, types)))


def no(event: PatternEvent) -> Absent:
    if (event._minimum, event._maximum) != (1, 1) or event._until is not None:
        raise ValueError("only one event can be negated, not a group")
    return Absent(event)


def seq(*parts: Part) -> Compound:
    return Compound("seq", parts)


def all_of(*parts: Pattern) -> Compound:
    return Compound("all", parts)


def any_of(*parts: Pattern) -> Compound:
    return Compound("any", parts)


def strict(part: Pattern | Absent) -> PatternStep:
    return PatternStep(part, STRICT)


def next_(part: Pattern | Absent) -> PatternStep:
    return PatternStep(part, NEXT)


def any_(part: Pattern | Absent) -> PatternStep:
    return PatternStep(part, ANY)


def loop_strict(group: PatternEvent) -> PatternEvent:
    return replace(group, _loop=STRICT)


def loop_next(group: PatternEvent) -> PatternEvent:
    return replace(group, _loop=NEXT)


def loop_any(group: PatternEvent) -> PatternEvent:
    return replace(group, _loop=ANY)


def greedy(group: PatternEvent) -> PatternEvent:
    return replace(group, _greedy=True)


def count(of: PatternEvent | Reference) -> Operand:
    return _aggregate("count", of)


def sum_(of: Reference) -> Operand:
    return _aggregate("sum", of)


def avg(of: Reference) -> Operand:
    return _aggregate("avg", of)


def min_(of: Reference) -> Operand:
    return _aggregate("min", of)


def max_(of: Reference) -> Operand:
    return _aggregate("max", of)


def stddev(of: Reference) -> Operand:
    return _aggregate("stddev", of)


def _aggregate(function: str, of: PatternEvent | Reference) -> Operand:
    whole = Reference(of._key) if isinstance(of, PatternEvent) else of
    return whole.aggregated(function)


def test(
    function: Callable[..., Any],
    *events: PatternEvent,
    name: str = "",  # noqa: PT028 - a condition, not a test of pytest's
    version: int = 1,  # noqa: PT028
) -> Operand:
    told = checked_name(name or function.__name__)
    return Operand(
        lambda aliases: syntax.Test(
            told, version, tuple(alias_of(each._key, aliases) for each in events), function
        )
    )


def query(name: str, pattern: Pattern) -> QueryBuilder:
    """`name` may be empty."""
    return QueryBuilder(name and checked_name(name), pattern)


@dataclass(frozen=True, slots=True, eq=False)
class QueryBuilder:
    """What the methods do not say has the defaults of the text."""

    _name: str
    _pattern: Pattern
    _where: tuple[Operand, ...] = ()
    _within_ns: int = 0
    _options: Options = field(default_factory=Options)
    _columns: tuple[tuple[str, Any], ...] = ()
    _into: str = ""

    def where(self, *conditions: Operand) -> QueryBuilder:
        """All of them, and those of earlier calls, must hold."""
        return replace(self, _where=self._where + conditions)

    def within(self, length_ns: int) -> QueryBuilder:
        return replace(self, _within_ns=int(length_ns))

    def using(self, strategy: Strategy) -> QueryBuilder:
        return self._with(strategy=strategy)

    def matches(self, which: Matches, limit: int = LIMIT, *, as_sets: bool = False) -> QueryBuilder:
        """`as_sets`: those of an end event are one result, with their number."""
        if limit < 1:
            raise ValueError(f"a limit of {limit} lets no match pass")
        return self._with(matches=which, limit=limit, sets=as_sets)

    def skip(self, to: syntax.Skip, event: PatternEvent | None = None) -> QueryBuilder:
        """TO_FIRST and TO_LAST take the event, the others none."""
        if (to in {TO_FIRST, TO_LAST}) is not (event is not None):
            raise ValueError("an event goes with TO_FIRST and TO_LAST, and with these only")
        skip_to = alias_of(event._key, self._aliases()) if event is not None else ""
        return self._with(skip=to, skip_to=skip_to)

    def emit(self, when: Emit, slack_ns: int | None = None) -> QueryBuilder:
        if slack_ns is not None and when != SLACK:
            raise ValueError("a length goes with SLACK only")
        return self._with(emit=when, slack_ns=None if slack_ns is None else int(slack_ns))

    def ties(self, rule: Ties) -> QueryBuilder:
        return self._with(ties=rule)

    def late(self, policy: Late, amend_ns: int | None = None) -> QueryBuilder:
        if (policy == AMEND) is not (amend_ns is not None):
            raise ValueError("a length goes with AMEND, and with it only")
        return self._with(late=policy, amend_ns=int(amend_ns or 0))

    def uncertain(self, policy: Uncertain) -> QueryBuilder:
        return self._with(uncertain=policy)

    def select(self, *columns: Any, **named: Any) -> QueryBuilder:
        """Without any: all that a match holds."""
        for name in named:
            checked_name(name)
        unnamed = tuple(("", column) for column in columns)
        return replace(self, _columns=(*self._columns, *unnamed, *named.items()))

    def into(self, type_name: str) -> QueryBuilder:
        return replace(self, _into=checked_name(type_name))

    def build(self) -> Query:
        aliases = self._aliases()
        conditions = trees(self._where, aliases)
        node = _node(self._pattern, aliases)
        assert not isinstance(node, syntax.Negation)
        return settled(
            self._options,
            node=node,
            within_ns=self._within_ns,
            name=self._name,
            where=flat(syntax.And, conditions) if conditions else None,
            columns=tuple(_column(*column, aliases) for column in self._columns) or None,
            into=self._into,
            span=NOWHERE,
        )

    def _with(self, **options: Any) -> QueryBuilder:
        return replace(self, _options=replace(self._options, **options))

    def _aliases(self) -> Aliases:
        aliases: dict[Key, str] = {}
        for place, each in enumerate(_events(self._pattern)):
            if each._key in aliases:
                raise ValueError(f"{each._types} stands twice in the pattern; make a second event")
            aliases[each._key] = each._alias or f"t{place}"
        return aliases


def _column(name: str, value: Any, aliases: Aliases) -> syntax.Column:
    expr = tree(value, aliases)
    return syntax.Column(expr, name or expression_text(expr))


def _events(part: Part) -> list[PatternEvent]:
    """In the order of the pattern."""
    match part:
        case PatternEvent():
            return [part]
        case Absent(event):
            return [event]
        case PatternStep(inner):
            return _events(inner)
        case Compound(_, parts):
            return [event for each in parts for event in _events(each)]


def _node(part: Pattern | Absent, aliases: Aliases) -> syntax.Node | syntax.Negation:
    match part:
        case PatternEvent():
            until = None if part._until is None else tree(part._until, aliases)
            return syntax.EventNode(
                part._types,
                aliases[part._key],
                part._minimum,
                part._maximum,
                part._loop,
                part._greedy,
                until,
            )
        case Absent(event):
            return syntax.Negation(event._types, aliases[event._key])
        case Compound("seq", parts):
            return syntax.Seq(tuple(_item(each, aliases) for each in parts))
        case Compound(kind, parts):
            nodes = tuple(_positive(each, aliases) for each in parts)
            return syntax.AllOf(nodes) if kind == "all" else syntax.AnyOf(nodes)


def _item(part: Part, aliases: Aliases) -> syntax.Item:
    if isinstance(part, PatternStep):
        return syntax.Item(_node(part.part, aliases), part.edge)
    return syntax.Item(_node(part, aliases))


def _positive(part: Part, aliases: Aliases) -> syntax.Node:
    if isinstance(part, Absent | PatternStep):
        raise TypeError("no() and steps like strict() stand in seq() only")
    node = _node(part, aliases)
    assert not isinstance(node, syntax.Negation)
    return node
