"""Defines the tree of a pattern query, which is read from text and then checked.

Trees are compared by value, without the places of their nodes in the text (`span`).
docs/guides/patterns.md describes the language.

A tree may have no meaning, like a pattern of nothing but negations.
`topology.queries.pattern.language.check` reports that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Generic, Literal, Self, TypeVar

Edge = Literal["strict", "next", "any"]
"""The contiguity of a step: to the very next event, the next eligible one, or any eligible one."""

Strategy = Literal["strict", "partition", "next", "any"]
Matches = Literal["one", "best", "maximal", "all"]
Skip = Literal["none", "next", "past_last", "first", "last"]
Emit = Literal["eager", "final", "slack"]
Ties = Literal["strict", "key"]
Uncertain = Literal["ignore", "nominal", "possible"]

FROM_START: Final[frozenset[Matches]] = frozenset({"one", "best"})
"""The values of MATCHES that report at most one match for each start event."""

UNBOUNDED: Final = -1
"""The maximum of a count without an upper bound: `+`, `*` or `{n,}`."""

EVERY_FIELD: Final = "*"
"""The name of a column that stands for all fields of an event, if each event is a result."""

LIMIT: Final = 10_000
"""The default of LIMIT: the maximum number of results of one start or end event."""


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
    """The base class of all nodes of a tree.

    Each class lists in BELOW the fields that contain its child nodes, in the order of the text.
    Such a field has one node or a tuple of nodes. `span` is the node's place in the text, which
    does not affect equality.
    """

    BELOW: ClassVar[tuple[str, ...]] = ()

    span: Span = field(default=NOWHERE, kw_only=True, compare=False)

    @property
    def children(self) -> tuple[Below, ...]:
        """The child nodes, in the order of the text."""
        found: list[Below] = []
        for name in self.BELOW:
            part = getattr(self, name)
            found += part if isinstance(part, tuple) else (part,)
        return tuple(found)

    def rebuilt(self, children: Sequence[Any]) -> Self:
        """Return a copy of the node with other children; their number must stay the same."""
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
    """A literal in the text; NULL is None."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Duration(Expr):
    ns: int


@dataclass(frozen=True, slots=True)
class Param(Expr):
    """A parameter, whose value is bound when the query starts. A bare name is a parameter too."""

    name: str


@dataclass(frozen=True, slots=True)
class Each:
    """The index `[i+offset]`, which stands for each element of a group in turn."""

    offset: int = 0


@dataclass(frozen=True, slots=True)
class At:
    """The index of one element, from 1, or from -1 backwards (`first` is 1, `last` is -1)."""

    position: int


Index = Each | At


@dataclass(frozen=True, slots=True)
class Ref(Expr):
    """An attribute of an event: `alias.path` or `alias[index].path`.

    Without an index, it refers to each element of a group. `path` begins with a reserved attribute
    (RESERVED) or a field of the payload.
    """

    alias: str
    path: tuple[str, ...]
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Previous(Expr):
    """`PREV(alias.path, back)`: an attribute of the event `back` positions before another.

    Positions are counted among the events that a STRICT step considers. The value is NULL if there
    is no such event, or if it is more than WITHIN earlier. For a group, there is one value for each
    element.
    """

    alias: str
    path: tuple[str, ...]
    back: int = 1


RESERVED: Final = frozenset({"time", "ts", "error", "source", "seq", "type", "payload"})
"""First names of a path that do not name a field of the payload; `.payload.name` always does."""


@dataclass(frozen=True, slots=True)
class AggregateCall(Expr):
    """`function(alias[].path)`: an aggregate over the elements of a group.

    With `before` = k, it covers only the elements up to i-k. For `count` the path may be empty;
    with a path, `count` counts the values that are not NULL. `others`: further aliases whose events
    are elements too, after those of `alias`. These are the other turns of a group that was written
    out.
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
    """`[a, b]`: all events of the match agree on each of the paths, and so must negated events."""

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
    """The attribute `path` of a row of the match, as SQL names it; NULL if there is no such row.

    The search starts at the last event of `aliases`, or at the first one if `from_last` is False.
    It goes `offset` of their events back from the last, or forward from the first. From there it
    goes `shift` events forward, or backward if negative, among all events of the match. With
    `beyond`, this last step is among all events that a STRICT step considers, at most WITHIN away.
    If `aliases` is empty, the search is among the events of all components.

    `is_label`: the value is the name of the row's variable, in place of the attribute. `final`: the
    row is searched for in the whole match, also if each row has its own result.
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
    """`function(operand)` over the events of `aliases`, or of the whole match if that is empty.

    In the operand, the alias `""` stands for each of these events in turn. Without an operand, the
    events themselves are counted. `final`: see RowRef.
    """

    function: str
    aliases: tuple[str, ...]
    operand: Expr | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Running(Expr):
    """A condition from SQL's DEFINE.

    `test` must be true for each event of `alias`. It is evaluated on the rows of the match up to
    that event.
    """

    BELOW = ("test",)

    alias: str
    test: Expr


# -- patterns ---------------------------------------------------------------------------------


class PatternNode(TreeNode["Node | Negation"]):
    """The base class of a pattern's nodes, which match events."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EventNode(PatternNode):
    """A component: `minimum` to `maximum` events of `types`, or of any type if `types` is empty.

    `alias` is never empty in a finished tree: a component without one gets a hidden alias by its
    place in the text (`_1`, `_2`, …). `loop` overrides the strategy for steps inside the group.
    `loop_within_ns` is the longest time between two consecutive events of the group.

    `greedy`: an event that fits both the group and its successor belongs to the group. MATCHES ALL
    and MAXIMAL then report no match that leaves out an event that the group could take. `until`: an
    event of the group's types that satisfies this condition ends the group and does not belong to
    it. `reluctant`: MATCHES BEST prefers fewer events in the group. Otherwise it prefers more.

    `label`: the name of the events in a match, if it differs from the alias (SQL may use a variable
    in several places). `hidden`: the events have no separate result (see `Query.all_rows`).
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
    """The absence of events of these types, at this place in the sequence.

    With `for_ns`, the absence lasts that long after the events before it. At the start of a
    pattern, it lasts that long before the events after it.
    """

    types: tuple[str, ...]
    alias: str
    for_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a sequence.

    `edge` overrides the strategy for the step into the item. `within_ns` is the longest time that
    this step may take.
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
    """AND: all of the nodes match, in any order.

    A negation among the nodes forbids events from the start of the AND until its FOR is over.
    """

    BELOW = ("nodes",)

    nodes: tuple[Node | Negation, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(PatternNode):
    """OR: one of the nodes. One of them may be a negation with FOR."""

    BELOW = ("nodes",)

    nodes: tuple[Node | Negation, ...]


@dataclass(frozen=True, slots=True)
class CountedNode(PatternNode):
    """A node that occurs several times: `minimum` to `maximum` turns in a row.

    `loop` overrides the strategy for the step from one turn to the next. `name` is the group's
    name, for `count(name)`. `reluctant`: see EventNode.
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
    """A column of RETURN. `name` is never empty: without AS it is the text of the expression."""

    expr: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query. An option that the text leaves out has its default value here.

    `sets`: the matches of an end event are one result (AS SETS). `skip_to`: the alias in SKIP TO
    FIRST or SKIP TO LAST. `skip_also`: further aliases that count as that one (SQL's SUBSET).
    `slack_ns`: the duration of EMIT SLACK, or None. `columns`: None for RETURN *. `all_rows`: each
    event of a match is a result. `text`: the text of the query. `clauses`: the places of its
    clauses in the text, by keyword. `stream`: the name after FROM in SQL.
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

        If it has none of them, return the place of the query.
        """
        return next((self.clauses[each] for each in clauses if each in self.clauses), self.span)
