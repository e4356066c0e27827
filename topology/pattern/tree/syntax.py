"""The tree of a pattern query: what the text says, and what the checks read.

Trees are values: equal trees mean equal queries, and where in the text a node was
(`span`) has no part in that (the language: docs/guides/patterns.md).

A tree may be nonsense, like a negation of everything: `topology.pattern.language.check` finds that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Generic, Literal, Self, TypeVar

Edge = Literal["strict", "next", "any"]
"""How a step follows the one before: directly, as the first that is eligible, or freely."""

Strategy = Literal["strict", "partition", "next", "any"]
Matches = Literal["one", "best", "maximal", "all"]
Skip = Literal["none", "next", "past_last", "first", "last"]
Emit = Literal["eager", "final", "slack"]
Ties = Literal["strict", "key"]
Uncertain = Literal["ignore", "nominal", "possible"]

FROM_START: Final[frozenset[Matches]] = frozenset({"one", "best"})
"""Those that find one match of a start, or none."""

UNBOUNDED: Final = -1
"""The maximum of `+`, `*` and `{n,}`."""

EVERY_FIELD: Final = "*"
"""The column that is all fields of an event, where each is a result."""

LIMIT: Final = 10_000
"""Results of a unit (an end or a start event), beyond which it overflows."""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in the text, from 1, in characters."""

    line: int = 0
    column: int = 0
    length: int = 0


NOWHERE: Final = Span()

Below = TypeVar("Below")


@dataclass(frozen=True, slots=True)
class TreeNode(Generic[Below]):
    """What every node has. A class names in BELOW those of its fields that hold nodes, one or
    several of them, in the order of the text. `span`: its place, which has no part in what it
    means."""

    BELOW: ClassVar[tuple[str, ...]] = ()

    span: Span = field(default=NOWHERE, kw_only=True, compare=False)

    @property
    def children(self) -> tuple[Below, ...]:
        """The nodes right below."""
        found: list[Below] = []
        for name in self.BELOW:
            part = getattr(self, name)
            found += part if isinstance(part, tuple) else (part,)
        return tuple(found)

    def rebuilt(self, children: Sequence[Any]) -> Self:
        """The same with other children, as many as it has."""
        rest = iter(children)
        parts: dict[str, Any] = {}
        for name in self.BELOW:
            part = getattr(self, name)
            one_or_all = tuple(next(rest) for _ in part) if isinstance(part, tuple) else next(rest)
            parts[name] = one_or_all
        return replace(self, **parts)


# -- expressions ------------------------------------------------------------------------------


class Expr(TreeNode["Expr"]):
    """What has a value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant(Expr):
    """A literal of the text. None is NULL."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Duration(Expr):
    ns: int


@dataclass(frozen=True, slots=True)
class Param(Expr):
    """Bound when the query starts. A bare name is a parameter too."""

    name: str


@dataclass(frozen=True, slots=True)
class Each:
    """`[i+offset]`: the elements of a group in turn."""

    offset: int = 0


@dataclass(frozen=True, slots=True)
class At:
    """`[position]`: one element, from 1, or from -1 backwards (`first` is 1, `last` -1)."""

    position: int


Index = Each | At


@dataclass(frozen=True, slots=True)
class Ref(Expr):
    """`alias.path`, `alias[index].path`; without index each element of a group. `path` begins with
    a reserved attribute (RESERVED) or a payload's field."""

    alias: str
    path: tuple[str, ...]
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Previous(Expr):
    """`PREV(alias.path, back)`: the attribute of the event so many places before, among those that
    a STRICT step looks at; NULL where there is none, or it is more than WITHIN before. For a group
    it is asked of each element."""

    alias: str
    path: tuple[str, ...]
    back: int = 1


RESERVED: Final = frozenset({"time", "ts", "error", "source", "seq", "type", "payload"})
"""First names of a path that are not payload fields; `.payload.name` is always the payload's."""


@dataclass(frozen=True, slots=True)
class AggregateCall(Expr):
    """`function(alias[].path)`; with `before` = k over the elements up to i-k only. `count`
    has an empty path or one (then it counts values that are not NULL). `others`: aliases whose
    events are elements too, behind those of the first (turns of a group, written out)."""

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
    """What is TRUE or FALSE of values."""

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
    """`%` matches any characters, `_` for one."""

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
    """`a AND b AND c`, flat."""

    BELOW = ("parts",)

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or(Expr):
    """`a OR b OR c`, flat."""

    BELOW = ("parts",)

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RowRef(Expr):
    """`path` of a row of the match, as SQL names it: of the last event of `aliases` (of the first),
    `offset` back from it (on from it) among theirs, and from there `shift` on among all events of
    the match; `beyond`: among all that a STRICT step looks at, no further away than WITHIN. Without
    aliases: of any component. NULL where there is no such row. `is_label`: in place of a path the
    variable's name, of any row of the match. `final`: of the whole match, where a row has a line of
    its own."""

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
    """`function(operand)` over the events of `aliases` (without any: of the match), each of which
    is `""` in the operand; None: the events themselves are counted. `final`: as of a RowRef."""

    function: str
    aliases: tuple[str, ...]
    operand: Expr | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Running(Expr):
    """SQL's DEFINE: `test` has to hold for each event of `alias`, where it sees the match up to
    that event."""

    BELOW = ("test",)

    alias: str
    test: Expr


# -- patterns ---------------------------------------------------------------------------------


class PatternNode(TreeNode["Node | Negation"]):
    """What events are matched by."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EventNode(PatternNode):
    """A component: `minimum` to `maximum` events of `types` (none named: of every type).
    `loop_within_ns`: from one of them to the next it takes no longer.

    `alias` is never empty in a finished tree: a component without one has a hidden alias
    (`_1`, `_2`, … by its place in the text). `loop` overrides the strategy for steps inside the
    group; `greedy`: an event that fits the group and its successor goes to the group, and MATCHES
    ALL and MAXIMAL report no match that leaves out what the group could take. An event of the
    group's types for which `until` is TRUE ends the group and is no member. `reluctant`: MATCHES
    BEST prefers fewer events of it, else more. `label`: what the events of a match are called, if
    not by the alias (SQL writes a variable in several places). `hidden`: they have no line of
    their own (`Query.all_rows`).
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
    """No event of these types, at this place of the sequence; with `for_ns` not for so long behind
    what comes before it (at the start of a pattern: before what follows)."""

    types: tuple[str, ...]
    alias: str
    for_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A part of a sequence. `edge` overrides the strategy for the step into it, which takes no
    longer than `within_ns`."""

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
    """AND: all of the nodes, in any order. A negation in it begins with it."""

    BELOW = ("nodes",)

    nodes: tuple[Node | Negation, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(PatternNode):
    """OR: one of the nodes; one may be a negation with FOR."""

    BELOW = ("nodes",)

    nodes: tuple[Node | Negation, ...]


@dataclass(frozen=True, slots=True)
class CountedNode(PatternNode):
    """`minimum` to `maximum` turns of the node in a row. `loop` overrides the strategy for the step
    into a further turn. `name`: what the turns are called. `reluctant`: see EventNode."""

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
    """One of RETURN's. `name` is never empty: without AS it is the expression's text."""

    expr: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query; what the text leaves out has its default here, never a blank.

    `sets`: the matches of an end event are one result (AS SETS). `skip_to`: the alias of SKIP TO
    FIRST/LAST, `skip_also` what counts as that alias (SQL's SUBSET). `slack_ns`: of EMIT SLACK with
    a duration. `columns`: None is RETURN *. `all_rows`: each event of a match is a result. `text`:
    text that it was read from. `clauses`: the places of those that it has. `stream`: the name
    behind FROM in SQL.
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
        """That of the first of these clauses that it has; its own if it has none of them."""
        return next((self.clauses[each] for each in clauses if each in self.clauses), self.span)
