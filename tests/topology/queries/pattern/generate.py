"""Seeded queries and streams for the laws of patterns: a small sample of the whole language.

A query passes the checks by construction (patterns.md 1.3). Types are A to D. Payloads have `x` and
`y` (small integers; at times missing, None, NaN, a float, text, a flag). Their `id` is 0 to 2,
seldom NULL. Times lie a few nanoseconds apart, so that ties abound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal, get_args

from topology.base.event import Event, copy_event
from topology.queries.pattern.language.check_pattern import check_pattern
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.errors import Findings
from topology.queries.pattern.tree.syntax import (
    UNBOUNDED,
    AggregateCall,
    AllOf,
    And,
    AnyOf,
    Arithmetic,
    At,
    Between,
    Call,
    Compare,
    Constant,
    CountedNode,
    Duration,
    Each,
    Edge,
    EventNode,
    Expr,
    In,
    IsNull,
    Item,
    Like,
    Matches,
    Negation,
    Node,
    Not,
    Or,
    Previous,
    Query,
    Ref,
    Same,
    Seq,
    Skip,
    Strategy,
)
from topology.queries.pattern.tree.turns import find_counted_groups
from topology.queries.pattern.tree.walk import find_components, walk

TYPES = ("A", "B", "C", "D")
MAX_COMPONENTS = 5
Comparison = Literal["=", "!=", "<", "<=", ">", ">="]
COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)

Modes = Sequence[tuple[Strategy, Matches]]

MODES: Modes = (
    ("strict", "one"),
    ("partition", "one"),
    ("next", "one"),
    ("strict", "all"),
    ("partition", "all"),
    ("next", "all"),
    ("any", "all"),
    ("any", "maximal"),
)
"""All modes but BEST, which has no POSSIBLE."""

BEST: Modes = (("strict", "best"), ("partition", "best"), ("next", "best"))


# -- streams ----------------------------------------------------------------------------------


def entry(
    kind: str,
    time_ns: int,
    seq: int,
    payload: Any = None,
    source: str = "s",
    error_ns: int = 0,
) -> Entry:
    event = Event("default", source, 0, seq, time_ns, time_ns, type=kind, value=payload)
    event.error_ns = error_ns
    return Entry(event, payload)


def of_text(text: str, *, apart: bool = False) -> list[Entry]:
    """Return events from words like `b1 b2~3 a4=5`: type, time, error and `x`.

    The place in the text is the sequence number. With `apart`, each event has its own source.
    """
    made = []
    for seq, word in enumerate(text.split()):
        place, _, x = word[1:].partition("=")
        time, _, error = place.partition("~")
        source = f"s{seq}" if apart else "s"
        payload = {"x": int(x)} if x else None
        made.append(entry(word[0].upper(), int(time), seq, payload, source, int(error or 0)))
    return made


def dice(seeds: Iterable[int]) -> Iterator[tuple[int, Random]]:
    """Return each seed with a random generator made from it."""
    return ((seed, Random(seed)) for seed in seeds)


def random_stream(
    rng: Random,
    largest: int = 12,
    errors: Sequence[int] = (0,),
    types: Sequence[str] = TYPES,
    unit_ns: int = 1,
) -> list[Entry]:
    """Return distinct events sorted by key, a few units apart.

    `errors` are the half-widths to choose from.
    """
    count = rng.randint(1, largest)
    steps = rng.choice(((0, 1), (1,), (0, 0, 1, 2), (1, 2, 3)))
    sources = ["s0", "s1", "s2"][: rng.randint(1, 3)]
    next_seq = dict.fromkeys(sources, 0)
    now, made = 0, []
    for _ in range(count):
        now += rng.choice(steps) * unit_ns
        source = rng.choice(sources)
        kind, seq, payload = rng.choice(types), next_seq[source], random_payload(rng)
        made.append(entry(kind, now, seq, payload, source, rng.choice(errors)))
        next_seq[source] += 1
    return sorted(made, key=lambda one: one.key)


def random_payload(rng: Random) -> Any:
    if rng.random() < 0.03:
        return rng.choice((None, 7, "text", [1], float("nan")))
    payload: dict[str, Any] = {"id": rng.choice((0, 0, 0, 1, 1, 2))}
    for name in ("x", "y"):
        odd = rng.random()
        if odd < 0.85:
            payload[name] = rng.randint(0, 3)
        elif odd < 0.97:
            payload[name] = rng.choice(
                (None, float("nan"), 1.0, 2.5, "1", "ab", True, math.inf, 1 << 70, {"z": 1})
            )
    if rng.random() < 0.05:
        payload["id"] = rng.choice((None, 1.0, "1", True))
    return payload


def shuffled(rng: Random, stream: Sequence[Entry], disorder: float, copies: float) -> list[Entry]:
    """Return the events as they arrive: a share `disorder` late, a share `copies` twice."""
    placed = []
    for at, one in enumerate(stream):
        delay = rng.uniform(0, len(stream)) if rng.random() < disorder else 0.0
        placed.append((at + delay, one))
        if rng.random() < copies:
            again = Entry(copy_event(one.event), one.payload)
            placed.append((at + delay + rng.uniform(0, len(stream)), again))
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]


def lateness_ns(arrivals: Sequence[Entry]) -> int:
    """Return the largest time by which an event is behind the newest one before it."""
    newest, most = arrivals[0].time_ns, 0
    for one in arrivals:
        newest = max(newest, one.time_ns)
        most = max(most, newest - one.time_ns)
    return most


# -- patterns ---------------------------------------------------------------------------------


@dataclass
class Draft:
    """A query that is being drawn.

    Without `groups`, all its steps are single events. With `prefers`, some counts are reluctant.
    With `turns`, a group of several may be counted; `turned` are the aliases in it, and `indexed`
    the aliases that an index may name.
    """

    rng: Random
    edges: tuple[Edge | None, ...]
    groups: bool = True
    prefers: bool = False
    nodes: list[EventNode] = field(default_factory=list)
    negated: list[str] = field(default_factory=list)
    turns: bool = True
    turned: set[str] = field(default_factory=set)
    indexed: set[str] = field(default_factory=set)

    def node(self, depth: int, may_be_absent: bool) -> Node:
        shape = self.rng.random()
        if depth == 0 or shape < 0.7 or len(self.nodes) >= MAX_COMPONENTS - 1:
            return self.event(may_be_absent)
        if self.groups and self.turns and len(self.nodes) < 2 and self.rng.random() < 0.3:
            return self.counted_seq(may_be_absent)
        if shape < 0.8 or not self.groups:
            return self.seq(depth - 1, self.rng.randint(1, 2))
        members = tuple(self.node(depth - 1, may_be_absent=False) for _ in range(2))
        return AllOf(members) if shape < 0.92 else AnyOf(members)

    def seq(self, depth: int, length: int) -> Seq:
        """Return a sequence whose first member is nearly always mandatory."""
        items: list[Item] = []
        for at in range(length):
            if self.rng.random() < 0.15:
                items.append(self.negation())
            edge = self.rng.choice(self.edges)
            node = self.node(depth, may_be_absent=at > 0 or self.rng.random() < 0.05)
            is_step = at > 0 and isinstance(node, EventNode) and self.rng.random() < 0.1
            items.append(Item(node, edge, self.rng.randint(1, 3) if is_step else None))
        if self.rng.random() < 0.15:
            items.append(self.negation())
        if length > 1 and self.rng.random() < 0.15:
            items = [*items[1:], items[0]]
        items[0] = replace(items[0], within_ns=None)
        return Seq(tuple(items))

    def counted_seq(self, may_be_absent: bool) -> CountedNode:
        """Return up to three turns of one or two events, the second of which may be optional."""
        self.turns = False
        low, high = self.rng.choice(((1, 2), (2, 2), (1, 3)))
        if may_be_absent:
            low, high = self.rng.choice(((0, 1), (0, 2), (1, 2)))
        items = [Item(self.counted(1, 1, self.types(), until=0))]
        if self.rng.random() < 0.2:
            items.append(self.negation())
        if self.rng.random() < 0.7:
            lowest = self.rng.choice((0, 1, 1))
            second = self.counted(lowest, 1, self.types(), until=0)
            items.append(Item(second, self.rng.choice(self.edges)))
        loop = self.rng.choice(self.edges) if high > 1 else None
        reluctant = self.prefers and low != high and self.rng.random() < 0.4
        group_of, name = Seq(tuple(items)), f"g{len(self.nodes)}"
        node = CountedNode(group_of, low, high, name, loop=loop, reluctant=reluctant)
        (group,) = find_counted_groups(node)
        self.turned |= group.aliases
        self.indexed |= {*group.indexed}
        return node

    def event(self, may_be_absent: bool) -> EventNode:
        rng = self.rng
        low, high = rng.choice(((1, 1),) * 6 + ((1, UNBOUNDED),) * 3 + ((1, 2), (2, 3), (2, 2)))
        if may_be_absent and rng.random() < 0.25:
            low, high = rng.choice(((0, 1), (0, UNBOUNDED), (0, 2)))
        if not self.groups:
            low, high = min(low, 1), 1
        return self.counted(low, high, self.types(), until=0.12)

    def tail(self) -> EventNode:
        """Return a last component that can still come or grow when all before it has matched."""
        low, high = self.rng.choice(((0, 1), (0, UNBOUNDED), (1, UNBOUNDED), (1, UNBOUNDED)))
        types = tuple(self.rng.sample(TYPES, 3))
        return self.counted(low, high, types, until=0.7, greedy=0.3)

    def counted(
        self, low: int, high: int, types: tuple[str, ...], until: float, greedy: float = 0.1
    ) -> EventNode:
        """Return a component; `until` and `greedy` are the probabilities that a group has them."""
        rng = self.rng
        alias = f"t{len(self.nodes)}"
        group = high != 1
        node = EventNode(
            types=types,
            alias=alias,
            minimum=low,
            maximum=high,
            loop=rng.choice(self.edges) if group else None,
            greedy=group and rng.random() < greedy,
            until=self.until(alias) if group and rng.random() < until else None,
            loop_within_ns=rng.randint(1, 3) if group and rng.random() < 0.08 else None,
        )
        if self.prefers and low != high and not node.greedy:
            node = replace(node, reluctant=rng.random() < 0.4)
        self.nodes.append(node)
        return node

    def until(self, alias: str) -> Expr:
        forms: tuple[Expr, ...] = (
            Compare(">=", Ref(alias, ("x",)), Constant(3)),
            Compare("<", Ref(alias, ("x",), Each()), Ref(alias, ("x",), Each(-1))),
            Compare(">", AggregateCall("count", alias), Constant(2)),
        )
        return self.rng.choice(forms)

    def negation(self) -> Item:
        alias = f"n{len(self.negated)}"
        self.negated.append(alias)
        edge: Edge | None = "strict" if self.rng.random() < 0.2 else None
        return Item(Negation(self.types(), alias), edge)

    def types(self) -> tuple[str, ...]:
        rng = self.rng
        if rng.random() < 0.04:
            return ()
        return tuple(rng.sample(TYPES, 1 if rng.random() < 0.85 else 2))


# -- conditions -------------------------------------------------------------------------------


@dataclass
class Conditions:
    rng: Random
    nodes: Sequence[EventNode]
    negated: Sequence[str]
    turned: Set[str] = frozenset()
    indexed: Set[str] = frozenset()

    def conjunct(self) -> Expr:
        rng = self.rng
        kind = rng.random()
        if self.negated and kind < 0.25:
            return self.on_negated()
        groups = [node.alias for node in self.nodes if node.is_group]
        groups = [*(alias for alias in groups if alias not in self.turned), *self.indexed]
        if groups and kind < 0.6:
            return self.on_group(rng.choice(groups))
        if kind < 0.9 or not self.nodes:
            return self.plain()
        if kind < 0.95:
            return Or((self.plain(), self.plain()))
        return Not(self.plain())

    def ref(self, field_name: str = "") -> Ref:
        node = self.rng.choice(self.nodes)
        return Ref(node.alias, (field_name or self.rng.choice(("x", "y")),))

    def sign(self) -> Comparison:
        return self.rng.choice(COMPARISONS)

    def plain(self) -> Expr:
        rng, one = self.rng, self.ref()
        forms: tuple[Expr, ...] = (
            Compare(self.sign(), one, Constant(rng.randint(0, 3))),
            Compare(self.sign(), one, self.ref()),
            Compare("<=", Arithmetic("-", self.ref("time"), self.ref("time")), Duration(3)),
            Compare(">", Arithmetic("+", one, self.ref()), Constant(rng.randint(0, 3))),
            Compare("<", Arithmetic("/", one, self.ref()), Constant(2)),
            IsNull(one, negated=rng.random() < 0.5),
            In(one, (Constant(1), Constant(2)), negated=rng.random() < 0.5),
            Between(one, Constant(1), Constant(2)),
            Like(one, "_%"),
            Compare("=", Call("coalesce", (one, Constant(1))), Constant(1)),
        )
        return rng.choice(forms)

    def on_group(self, alias: str) -> Expr:
        rng, name = self.rng, self.rng.choice(("x", "y"))
        each = Ref(alias, (name,), Each())
        forms: tuple[Expr, ...] = (
            Compare(self.sign(), each, Ref(alias, (name,), Each(-1))),
            Compare("<=", Ref(alias, (name,), Each(1)), Ref(alias, ("y",), Each())),
            Compare(">=", each, AggregateCall("avg", alias, (name,), before=1)),
            Compare(">=", each, Ref(alias, (name,), At(1))),
            Compare(self.sign(), Ref(alias, (name,), At(-1)), Constant(rng.randint(0, 3))),
            Compare("!=", Ref(alias, (name,), At(2)), self.ref()),
            Compare("<=", AggregateCall("count", alias), Constant(2)),
            Compare(">", AggregateCall("count", alias, (name,)), Constant(1)),
            Compare(
                "<", AggregateCall(rng.choice(("sum", "max", "min")), alias, (name,)), Constant(4)
            ),
            Compare(self.sign(), Ref(alias, (name,)), self.ref()),
        )
        return rng.choice(forms)

    def on_negated(self) -> Expr:
        one = Ref(self.rng.choice(self.negated), (self.rng.choice(("x", "y")),))
        if self.rng.random() < 0.5:
            return Compare(self.sign(), one, Constant(self.rng.randint(0, 3)))
        return Compare(self.sign(), one, self.ref())


def random_query(
    rng: Random,
    modes: Modes = MODES,
    conditions: bool = True,
    groups: bool = True,
    partitions: bool = True,
    skips: Sequence[Skip] = ("none", "none", "none", "next", "past_last", "first", "last"),
    open_ended: bool = False,
    previous: bool = False,
) -> Query:
    """Return a random query.

    With `partitions` some have a partition key, or an equality of two aliases. With `open_ended` a
    complete match may still grow. With `previous` some use PREV.
    """
    strategy, matches = rng.choice(modes)
    draft = Draft(rng, _edges(rng, strategy, matches), groups, prefers=matches == "best")
    shape = rng.random() if groups else 0.0
    node: Node
    if open_ended:
        first = draft.counted(1, 1, tuple(rng.sample(TYPES, 2)), until=0)
        node = Seq((Item(first), Item(draft.tail(), rng.choice(draft.edges))))
    elif shape < 0.85:
        node = draft.seq(depth=2, length=rng.randint(1, 3))
    else:
        members = tuple(draft.node(2, may_be_absent=False) for _ in range(2))
        node = AllOf(members) if shape < 0.95 else AnyOf(members)
    node = with_eager_turns_in_and(node)
    skip = rng.choice(skips)
    skip_to = rng.choice(draft.nodes).alias if skip in ("first", "last") else ""
    ends_negated = isinstance(node, Seq) and isinstance(node.items[-1].node, Negation)
    query = Query(
        node=node,
        within_ns=rng.choice((1, 2, 3, 4, 5, 6, 8)),
        name="q",
        where=_where(draft, strategy, conditions, partitions, previous),
        strategy=strategy,
        matches=matches,
        skip=skip,
        skip_to=skip_to,
        emit="final" if ends_negated else rng.choice(("eager", "final")),
        ties=rng.choice(("strict", "strict", "key")),
    )
    return lasting(rng, query)


def with_eager_turns_in_and(node: Any, *, inside: bool = False) -> Any:
    """Return the node without reluctant counts of groups inside an AND."""
    if isinstance(node, CountedNode) and inside:
        node = replace(node, reluctant=False)
    inside = inside or isinstance(node, AllOf)
    return node.rebuilt([with_eager_turns_in_and(each, inside=inside) for each in node.children])


def lasting(rng: Random, query: Query) -> Query:
    """Return the query with a FOR at some negations that allow it, including some in an AND."""
    for kind, alias in ((AllOf, "m0"), (AnyOf, "m1")):
        for node in [each for each in walk(query.node) if isinstance(each, kind)]:
            if rng.random() < 0.5 and (kind is AllOf or query.matches != "one"):
                timed = Negation(tuple(rng.sample(TYPES, 1)), alias, rng.randint(1, 4))
                at = 0 if kind is AllOf else rng.randint(0, len(node.nodes))
                nodes = (*node.nodes[:at], timed, *node.nodes[at:])
                query = _if_allowed(query, node, replace(node, nodes=nodes))
                break
    for negation in [each for each in find_components(query.node) if isinstance(each, Negation)]:
        if rng.random() < 0.5:
            timed = replace(negation, for_ns=rng.randint(1, 6))
            query = _if_allowed(query, negation, timed)
    return query


def _if_allowed(query: Query, old: Node | Negation, new: Node | Negation) -> Query:
    changed = replace(query, node=_with(query.node, old, new))
    findings = Findings()
    check_pattern(changed, findings)
    return query if findings.errors else changed


def _with(node: Any, old: Node | Negation, new: Node | Negation) -> Any:
    if node == old:
        return new
    return node.rebuilt([_with(each, old, new) for each in node.children])


def _edges(rng: Random, strategy: Strategy, matches: Matches) -> tuple[Edge | None, ...]:
    """Return the edges to draw from; None is the strategy's own edge.

    An ANY edge has no meaning in one walk.
    """
    if strategy in ("strict", "partition") or rng.random() < 0.6:
        return (None,)
    return (None, None, "strict", "next") if matches == "one" else (None, "strict", "next", "any")


def _where(
    draft: Draft, strategy: Strategy, conditions: bool, partitions: bool, previous: bool
) -> Expr | None:
    rng = draft.rng
    parts: list[Expr] = []
    if strategy == "partition" or (partitions and rng.random() < 0.2):
        parts.append(Same((("id",),)))
    elif partitions and rng.random() < 0.1:
        aliases = [*(node.alias for node in draft.nodes), *draft.negated]
        first = Ref(draft.nodes[0].alias, ("id",))
        parts += [Compare("=", first, Ref(alias, ("id",))) for alias in aliases[1:]]
    if conditions:
        maker = Conditions(rng, draft.nodes, draft.negated, draft.turned, draft.indexed)
        parts += [maker.conjunct() for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
    if previous and rng.random() < 0.4:
        of, one = rng.choice(draft.nodes).alias, rng.choice(("x", "x", "type", "time"))
        before = Previous(of, (one,), rng.choice((1, 1, 2)))
        forms: tuple[Expr, ...] = (
            Compare(rng.choice(COMPARISONS), before, Ref(of, (one,))),
            Compare("!=", Call("coalesce", (before, Constant("B"))), Constant("A")),
            IsNull(before, negated=rng.random() < 0.6),
        )
        parts.append(rng.choice(forms))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))
