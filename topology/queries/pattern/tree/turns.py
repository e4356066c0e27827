"""Writes out counts of a whole SEQ, AND or OR: `SEQ(B b, C c){1,3}` becomes one to three turns.

Each optional turn becomes an OR of the turn and nothing. So MATCHES BEST prefers its choices in the
same order as a regular expression. Each component of a turn gets its own alias (`b@1`), and its
alias in the text becomes the `label`. Conditions are rewritten to the new aliases:

    b.x            every b, with every other event that is named; a negated b only with the events
                   of its own turn
    b[i].x         b of the i-th turn, for each i for which all indexes used exist
    b[2].x         b of the second turn, like `first` and `last`; NULL without such a turn, and left
                   out, as for any group, without any turn
    count(b)       over all turns, like the other aggregates; `count(name)` with the group's name

Only an event that each turn has exactly once can have an index (`indexed`).

Cost: linear in the turns written out, and in the copies of each condition. A condition usually has
one copy for each turn. If it names several events without an index, it has one for each combination
of turns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, Final

from topology.queries.pattern.tree.mentions import Mention, find_counted_aliases, find_mentions
from topology.queries.pattern.tree.syntax import (
    AggregateCall,
    AllOf,
    AnyOf,
    At,
    Column,
    Constant,
    CountedNode,
    Each,
    EventNode,
    Expr,
    Item,
    Negation,
    Node,
    Previous,
    Ref,
    RowAggregate,
    RowRef,
    Running,
    Seq,
)
from topology.queries.pattern.tree.walk import find_components, rewrite, walk

NOTHING: Final = Seq(())
"""The branch of the OR in which no further turn follows."""

MAX_ASKED: Final = 1_000
"""The maximum number of combinations of turns for which one condition is tested."""

LIST: Final = "list"
"""The aggregate that returns the list of all values; only columns use it."""


@dataclass(frozen=True, slots=True)
class CountedGroup:
    """A count of a group that is not inside another one.

    `indexed`: the aliases that have exactly one event in each turn.
    """

    node: CountedNode
    aliases: frozenset[str]
    negated: frozenset[str]
    indexed: tuple[str, ...]


def find_counted_groups(node: Node | Negation) -> Iterator[CountedGroup]:
    """Yield the outermost counts of groups, in the order of the text."""
    if not isinstance(node, CountedNode):
        for each in node.children:
            yield from find_counted_groups(each)
        return
    within = list(find_components(node))
    yield CountedGroup(
        node,
        frozenset(each.alias for each in within),
        frozenset(each.alias for each in within if isinstance(each, Negation)),
        tuple(_find_always_present(node.node)),
    )


def count_tests(expr: Expr, groups: Mapping[str, CountedGroup]) -> int:
    """Return the largest number of combinations of turns for which a condition is tested.

    `groups` maps aliases to the groups that contain them.
    """
    found = list(find_mentions(expr))
    plain = {mention.alias for mention in found if _is_plain(mention)} & groups.keys()
    through = find_counted_aliases(expr) & groups.keys()
    count = max((_turns_of(groups[alias].node) for alias in through), default=1)
    if any(alias in groups[alias].negated for alias in plain):
        return count * max(_turns_of(groups[alias].node) for alias in plain)
    return count * prod(_turns_of(groups[alias].node) for alias in plain)


def _turns_of(node: Node) -> int:
    """Return the largest number of turns of a count, multiplied by that of each count inside it."""
    return prod([each.maximum for each in walk(node) if isinstance(each, CountedNode)])


def _find_always_present(node: Node | Negation) -> Iterator[str]:
    match node:
        case EventNode():
            if node.minimum == node.maximum == 1:
                yield node.alias
        case Seq() | AllOf():
            for each in node.children:
                yield from _find_always_present(each)


class Turns:
    """A pattern whose counts of groups are written out. `node` is the resulting pattern."""

    def __init__(self, node: Node) -> None:
        self._groups = list(find_counted_groups(node))
        self._of = {alias: group for group in self._groups for alias in group.aliases}
        named = [group for group in self._groups if group.node.name and group.indexed]
        self._named = {group.node.name: group.indexed[0] for group in named}
        self._taken = {each.alias for each in find_components(node)}
        self._copies: dict[str, list[tuple[tuple[int, ...], str]]] = {}
        self.node: Node = self._write(node, ()) if self._groups else node
        for copies in self._copies.values():
            copies.sort()

    def _write(self, node: Any, turn: tuple[int, ...]) -> Any:
        match node:
            case CountedNode():
                return self._expand_count(node, turn)
            case EventNode() | Negation() if turn:
                return self._copy(node, turn)
            case _:
                return node.rebuilt([self._write(each, turn) for each in node.children])

    def _expand_count(self, counted: CountedNode, above: tuple[int, ...]) -> Node:
        rest: Node | None = None
        for turn in range(counted.maximum, 0, -1):
            items = [Item(self._write(counted.node, (*above, turn)))]
            if rest is not None:
                items.append(Item(rest, counted.loop))
            row = Seq(tuple(items), span=counted.span)
            rest = row
            if turn > counted.minimum:
                choice = (NOTHING, row) if counted.reluctant else (row, NOTHING)
                rest = AnyOf(choice, span=counted.span)
        assert rest is not None, counted
        return rest

    def _copy(self, node: EventNode | Negation, turn: tuple[int, ...]) -> EventNode | Negation:
        alias = f"{node.alias}@{'.'.join(map(str, turn))}"
        while alias in self._taken:
            alias += "@"
        self._copies.setdefault(node.alias, []).append((turn, alias))
        if isinstance(node, Negation):
            return replace(node, alias=alias)
        until = node.until and rewrite(node.until, lambda part: self._use_copy_of_turn(part, turn))
        return replace(node, alias=alias, label=node.label or node.alias, until=until)

    def _use_copy_of_turn(self, part: Expr, turn: tuple[int, ...]) -> Expr:
        """Replace an alias in UNTIL by the alias of its copy in the same turn."""
        if isinstance(part, Ref | AggregateCall | Previous) and part.alias in self._copies:
            for at, alias in self._copies[part.alias]:
                if _are_nested(at, turn):
                    return replace(part, alias=alias)
        return part

    # -- conditions ---------------------------------------------------------------------------

    def conditions(self, expr: Expr, present: Collection[str]) -> list[Expr]:
        """Return the conditions into which the conjunct `expr` is rewritten.

        `present` has the aliases that exist in the alternative (the choice of OR branches) for
        which it is rewritten.
        """
        found = [self._rewrite_shared(expr, present)]
        for group in self._groups:
            found = [
                other for each in found for other in self._rewrite_by_turn(each, group, present)
            ]
        return found

    def column(self, column: Column, present: Collection[str]) -> Column:
        """Return a rewritten column of RETURN.

        An attribute with a value in each turn becomes a list.
        """
        match column.expr:
            case Ref(alias, path, None) if alias in self._of:
                expr = self._rewrite_aggregate(AggregateCall(LIST, alias, path), present)
            case _:
                expr = self._rewrite_shared(column.expr, present)
        return replace(column, expr=expr)

    def _rewrite_shared(self, expr: Expr, present: Collection[str]) -> Expr:
        """Rewrite the parts of an expression that concern all turns, or one turn by its number."""

        def change(part: Expr) -> Expr:
            match part:
                case AggregateCall(before=None):
                    return self._rewrite_aggregate(part, present)
                case Ref(alias, index=At(position)) if alias in self._of:
                    copies = self._find_present_copies(alias, present)
                    if not copies:
                        return part
                    at = position - 1 if position > 0 else len(copies) + position
                    if 0 <= at < len(copies):
                        return replace(part, alias=copies[at], index=None)
                    return Constant(None, span=part.span)
                case RowRef(aliases) | RowAggregate(aliases=aliases):
                    every = [copy for alias in aliases for copy in self._find_copies(alias)]
                    return replace(part, aliases=tuple(every))
            return part

        return rewrite(expr, change)

    def _find_copies(self, alias: str) -> list[str]:
        return [copy for _, copy in self._copies.get(alias, [((), alias)])]

    def _rewrite_aggregate(self, call: AggregateCall, present: Collection[str]) -> Expr:
        alias = self._named.get(call.alias, call.alias)
        if alias not in self._of:
            return call
        first, *others = self._find_present_copies(alias, present) or [alias]
        return replace(call, alias=first, others=tuple(others))

    def _find_present_copies(self, alias: str, present: Collection[str]) -> list[str]:
        return [copy for _, copy in self._copies[alias] if copy in present]

    def _rewrite_by_turn(
        self, expr: Expr, group: CountedGroup, present: Collection[str]
    ) -> Iterator[Expr]:
        named = {mention.alias for mention in find_mentions(expr) if _is_plain(mention)}
        plain = sorted(named & group.aliases)
        through = find_counted_aliases(expr) & group.aliases
        if through:
            turns = len(self._find_present_copies(next(iter(through)), present))
            for turn in range(1, turns + 1):
                counted = self._rewrite_for_turn(expr, group, turn, turns)
                if counted is not None:
                    is_of_one = not group.negated.isdisjoint(plain)
                    yield from self._plain(counted, plain, (turn,) if is_of_one else (), present)
            return
        negated = [alias for alias in plain if alias in group.negated]
        if not negated:
            yield from self._plain(expr, plain, (), present)
            return
        for own, copy in self._copies[negated[0]]:
            if copy in present:
                yield from self._plain(expr, plain, own, present)

    def _rewrite_for_turn(
        self, expr: Expr, group: CountedGroup, turn: int, turns: int
    ) -> Expr | None:
        """Return the expression with `i` replaced by the number of the turn.

        The result is None if the expression needs a turn that does not exist.
        """
        for mention in find_mentions(expr):
            if mention.alias in group.aliases and mention.how in {"each", "before"}:
                at = turn + mention.number if mention.how == "each" else turn - mention.number
                if not 1 <= at <= turns:
                    return None

        def change(part: Expr) -> Expr:
            match part:
                case Ref(alias, index=Each(offset)) if alias in group.aliases:
                    copy = self._copies[alias][turn + offset - 1][1]
                    return replace(part, alias=copy, index=None)
                case AggregateCall(alias=alias, before=int(before)) if alias in group.aliases:
                    first, *others = [copy for _, copy in self._copies[alias][: turn - before]]
                    return replace(part, alias=first, others=tuple(others), before=None)
            return part

        return rewrite(expr, change)

    def _plain(
        self,
        expr: Expr,
        plain: Sequence[str],
        within: tuple[int, ...],
        present: Collection[str],
    ) -> Iterator[Expr]:
        """Yield the expression for each combination of copies of the aliases in `plain`.

        Only copies in the turn `within` are used, or all copies if it is empty.
        """
        choices = []
        for alias in plain:
            copies = [
                copy
                for turn, copy in self._copies[alias]
                if copy in present and _are_nested(turn, within)
            ]
            choices.append(copies or [alias])
        for chosen in product(*choices):
            names = dict(zip(plain, chosen, strict=True))

            def change(part: Expr, names: Mapping[str, str] = names) -> Expr:
                match part:
                    case Previous(alias) | Running(alias) | Ref(alias, index=None):
                        return replace(part, alias=names.get(alias, alias))
                return part

            yield rewrite(expr, change)


def _are_nested(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether two turns are the same, or one of them is inside the other."""
    return all(a == b for a, b in zip(one, other, strict=False))


def _is_plain(mention: Mention) -> bool:
    return mention.how in {"plain", "previous", "running"}
