"""Defines the tree of a pattern query, which is read from text and then checked.

Trees are values: equal trees mean equal queries. The place of a node in the text (`span`) does not
count. docs/guides/patterns.md describes the language.

A tree may be nonsense, like a negation of everything; `topology.pattern.language.check` finds that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Generic, Literal, Self, TypeVar

Edge = Literal["strict", "next", "any"]
"""The way a step follows the one before: directly, as the first eligible event, or freely."""

Strategy = Literal["strict", "partition", "next", "any"]
Matches = Literal["one", "best", "maximal", "all"]
Skip = Literal["none", "next", "past_last", "first", "last"]
Emit = Literal["eager", "final", "slack"]
Ties = Literal["strict", "key"]
Uncertain = Literal["ignore", "nominal", "possible"]

FROM_START: Final[frozenset[Matches]] = frozenset({"one", "best"})
"""The values of MATCHES that find at most one match for each start."""

UNBOUNDED: Final = -1
"""The maximum of `+`, `*` and `{n,}`."""

EVERY_FIELD: Final = "*"
"""The column that stands for all fields of an event, if each event has a result."""

LIMIT: Final = 10_000
"""The largest number of results of a unit (an end or a start event); more are an overflow."""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in the text. Line and column count from 1; column and length are in characters."""

    line: int = 0
    column: int = 0
    length: int = 0


NOWHERE: Final = Span()

Below = TypeVar("Below")


@dataclass(frozen=True, slots=True)
class TreeNode(Generic[Below]):
    """The base of all nodes of a tree.

    A class lists in BELOW those of its fields that have nodes, one or several of them, in the order
    of the text. `span` is the node's place, which does not affect equality.
    """

    BELOW: ClassVar[tuple[str, ...]] = ()

    span: Span = field(default=NOWHERE, kw_only=True, compare=False)

    @property
    def children(self) -> tuple[Below, ...]:
        """The nodes directly below."""
        found: list[Below] = []
        for name in self.BELOW:
            part = getattr(self, name)
            found += part if isinstance(part, tuple) else (part,)
        return tuple(found)

    def rebuilt(self, children: Sequence[Any]) -> Self:
        """Return the node with other children, as many as it has."""
        rest = iter(children)
        parts: dict[str, Any] = {}
        for name in self.BELOW:
            part = getattr(self, name)
            one_or_all = tuple(next(rest) for _ in part) if isinstance(part, tuple) else next(rest)
            parts[name] = one_or_all
        return replace(self, **parts)


# -- expressions ------------------------------------------------------------------------------


class Expr(TreeNode["Expr"]):
    """An expression: a node with a value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant(Expr):
    """A literal of the text; None is NULL."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Duration(Expr):
    ns: int


@dataclass(frozen=True, slots=True)
class Param(Expr):
    """A parameter, bound when the query starts. A bare name is a parameter too."""

    name: str


@dataclass(frozen=True, slots=True)
class Each:
    """`[i+offset]`: each element of a group in turn."""

    offset: int = 0


@dataclass(frozen=True, slots=True)
class At:
    """`[position]`: one element, counted from 1, or backwards from -1 (`first` is 1, `last` -1)."""

    position: int


Index = Each | At


@dataclass(frozen=True, slots=True)
class Ref(Expr):
    """`alias.path` or `alias[index].path`.

    Without an index it means each element of a group. `path` begins with a reserved attribute
    (RESERVED) or a field of the payload.
    """

    alias: str
    path: tuple[str, ...]
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Previous(Expr):
    """`PREV(alias.path, back)`: the attribute of the event `back` places earlier.

    The places are those of the events that a STRICT step looks at. The value is NULL if there is no
    such event, or if it is more than WITHIN earlier. A group has a value for each element.
    """

    alias: str
    path: tuple[str, ...]
    back: int = 1


RESERVED: Final = frozenset({"time", "ts", "error", "source", "seq", "type", "payload"})
"""First names of a path that are not fields of the payload; `.payload.name` is always one."""


@dataclass(frozen=True, slots=True)
class AggregateCall(Expr):
    """`function(alias[].path)`: an aggregate over the elements of a group.

    With `before` = k it is over the elements up to i-k only. `count` may have an empty path; with a
    path it counts the values that are not NULL. `others` has aliases whose events are elements too,
    after those of the first alias (turns of a group, written out).
    """

    function: str
    alias: str
    path: tuple[str, ...] = ()
    before: int | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call(Expr):
    BELOW = ("arguments",)

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Negative(Expr):
    BELOW = ("operand",)

    operand: Expr


@dataclass(frozen=True, slots=True)
class Arithmetic(Expr):
    BELOW = ("left", "right")

    operator: Literal["+", "-", "*", "/", "%"]
    left: Expr
    right: Expr


class Test(Expr):
    """A test of values, which is TRUE or FALSE."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Compare(Test):
    BELOW = ("left", "right")

    operator: Literal["=", "!=", "<", "<=", ">", ">="]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class In(Test):
    BELOW = ("operand", "values")

    operand: Expr
    values: tuple[Constant, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Test):
    BELOW = ("operand", "low", "high")

    operand: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class IsNull(Test):
    BELOW = ("operand",)

    operand: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(Test):
    """`operand LIKE pattern`: `%` matches any characters, `_` matches one."""

    BELOW = ("operand",)

    operand: Expr
    pattern: str


@dataclass(frozen=True, slots=True)
class Same(Expr):
    """`[a, b]`: all events of the match, negated ones too, agree on each of the paths."""

    paths: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Not(Expr):
    BELOW = ("operand",)

    operand: Expr


@dataclass(frozen=True, slots=True)
class And(Expr):
    """`a AND b AND c` as one node."""

    BELOW = ("parts",)

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or(Expr):
    """`a OR b OR c` as one node."""

    BELOW = ("parts",)

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RowRef(Expr):
    """`path` of a row of the match, as SQL names it; NULL if there is no such row.

    The search for the row begins at the last event of `aliases`, or at the first without
    `from_last`. It goes `offset` of their events back from the last, or on from the first. From
    there it goes `shift` on among all events of the match. With `beyond` this last step is among
    all events that a STRICT step looks at, no further away than WITHIN. Without aliases the search
    is among the events of all components.

    `is_label`: the value is the name of the row's variable, instead of a path. `final`: the row is
    sought in the whole match, if each row has a result of its own.
    """

    aliases: tuple[str, ...]
    path: tuple[str, ...]
    from_last: bool = True
    offset: int = 0
    shift: int = 0
    beyond: bool = False
    is_label: bool = False
    final: bool = False


@dataclass(frozen=True, slots=True)
class RowAggregate(Expr):
    """`function(operand)` over the events of `aliases`, or of the whole match if there are none.

    Each of these events has the alias `""` in the operand. Without an operand the events themselves
    are counted. `final`: see RowRef.
    """

    function: str
    aliases: tuple[str, ...]
    operand: Expr | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Running(Expr):
    """A condition of SQL's DEFINE.

    `test` must hold for each event of `alias`. It sees the match up to that event.
    """

    BELOW = ("test",)

    alias: str
    test: Expr


# -- patterns ---------------------------------------------------------------------------------


class PatternNode(TreeNode["Node | Negation"]):
    """A node of a pattern, which events match."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EventNode(PatternNode):
    """A component: `minimum` to `maximum` events of `types`, or of any type if none is named.

    `alias` is never empty in a finished tree: a component without one has a hidden alias (`_1`,
    `_2`, … by its place in the text). `loop` overrides the strategy for steps inside the group.
    `loop_within_ns` is the longest time from one of its events to the next.

    `greedy`: an event that fits both the group and its successor belongs to the group. MATCHES ALL
    and MAXIMAL then report no match that leaves out an event that the group could take. `until`: an
    event of the group's types for which it is TRUE ends the group and is no member. `reluctant`:
    MATCHES BEST prefers fewer events of it; otherwise it prefers more.

    `label`: the name of the events in a match, if it is not the alias (SQL writes a variable in
    several places). `hidden`: the events have no result of their own (`Query.all_rows`).
    """

    types: tuple[str, ...]
    alias: str
    minimum: int = 1
    maximum: int = 1
    loop: Edge | None = None
    greedy: bool = False
    until: Expr | None = None
    reluctant: bool = False
    label: str = ""
    loop_within_ns: int | None = None
    hidden: bool = False

    @property
    def is_group(self) -> bool:
        return self.maximum != 1


@dataclass(frozen=True, slots=True)
class Negation(PatternNode):
    """No event of these types, at this place of the sequence.

    With `for_ns` it lasts that long after the events before it. At the start of a pattern it lasts
    that long before the events after it.
    """

    types: tuple[str, ...]
    alias: str
    for_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A part of a sequence.

    `edge` overrides the strategy for the step into it. `within_ns` is the longest time of that
    step.
    """

    node: Node | Negation
    edge: Edge | None = None
    within_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Seq(PatternNode):
    items: tuple[Item, ...]

    @property
    def children(self) -> tuple[Node | Negation, ...]:
        return tuple(item.node for item in self.items)

    def rebuilt(self, children: Sequence[Any]) -> Self:
        pairs = zip(self.items, children, strict=True)
        return replace(self, items=tuple(replace(item, node=node) for item, node in pairs))


@dataclass(frozen=True, slots=True)
class AllOf(PatternNode):
    """AND: all of the nodes, in any order. A negation in it begins with the AND."""

    BELOW = ("nodes",)

    nodes: tuple[Node | Negation, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(PatternNode):
    """OR: one of the nodes; one may be a negation with FOR."""

    BELOW = ("nodes",)

    nodes: tuple[Node | Negation, ...]


@dataclass(frozen=True, slots=True)
class CountedNode(PatternNode):
    """A count of a node: `minimum` to `maximum` turns of it in a row.

    `loop` overrides the strategy for the step into a further turn. `name` is the name of the turns.
    `reluctant`: see EventNode.
    """

    BELOW = ("node",)

    node: Node
    minimum: int
    maximum: int
    name: str = ""
    loop: Edge | None = None
    reluctant: bool = False


Node = EventNode | Seq | AllOf | AnyOf | CountedNode


@dataclass(frozen=True, slots=True)
class Column:
    """A column of RETURN. `name` is never empty: without AS it is the expression's text."""

    expr: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query; each option that the text leaves out has its default value here.

    `sets`: the matches of an end event are one result (AS SETS). `skip_to`: the alias of SKIP TO
    FIRST/LAST. `skip_also`: other aliases that count as that one (SQL's SUBSET). `slack_ns`: the
    duration of EMIT SLACK, if it has one. `columns`: None is RETURN *. `all_rows`: each event of a
    match is a result. `text`: the text of the query. `clauses`: the places of the clauses that it
    has. `stream`: the name after FROM in SQL.
    """

    node: Node
    within_ns: int
    name: str = ""
    where: Expr | None = None
    strategy: Strategy = "next"
    matches: Matches = "one"
    limit: int = LIMIT
    sets: bool = False
    skip: Skip = "none"
    skip_to: str = ""
    emit: Emit = "eager"
    slack_ns: int | None = None
    ties: Ties = "strict"
    uncertain: Uncertain = "nominal"
    columns: tuple[Column, ...] | None = None
    into: str = ""
    span: Span = field(default=NOWHERE, compare=False)
    text: str = field(default="", compare=False)
    clauses: Mapping[str, Span] = field(default_factory=dict, compare=False)
    stream: str = field(default="", compare=False)
    skip_also: tuple[str, ...] = ()
    all_rows: bool = False

    def place_of(self, *clauses: str) -> Span:
        """Return the place of the first of these clauses that the query has.

        Without any of them it is the place of the query.
        """
        return next((self.clauses[each] for each in clauses if each in self.clauses), self.span)
