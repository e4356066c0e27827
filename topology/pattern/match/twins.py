"""Matches that several alternatives find: the same events under the same aliases.

Two branches of an OR that may both be absent lead to them (`OR(C? c, D? d)`), and so does a turn
that may be of nothing (`SEQ(C* c[])?`). Such a match is merged before the limit of the query
applies. It stands as long as one of the alternatives finds it. So it is decided when the first of
them is, and that one's match is kept. It is confirmed if that one or another that is decided at the
same instant confirms it.

Cost: nothing where no two alternatives can find the same; else O(members) for each match.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.pattern.match.layout import Layout
from topology.pattern.match.match import Match


class TwinMatch(Match):
    """A match that several alternatives find, all of which are decided at the same instant."""

    __slots__ = ("_ways",)

    def __init__(self, ways: Sequence[Match]) -> None:
        """`ways`: the match of each alternative; it is itself one of the first of them."""
        one = ways[0]
        super().__init__(one.alternative, one.bound, one.first, one.last)
        self._ways = ways

    def ways(self) -> Sequence[Match]:
        return self._ways


class Twins:
    """A merger of the matches of one query. `may_be`: two of its alternatives can find the same,
    because what must be there has the same aliases in both."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self._layouts = layouts
        self._aliases = [[part.alias for part in layout.components] for layout in layouts]
        required = {
            frozenset(part.alias for part in layout.components if not part.is_optional)
            for layout in layouts
        }
        self.may_be = len(required) < len(layouts)

    def merged(self, matches: list[Match]) -> list[Match]:
        """Return each once. `matches`: in the order of their alternatives."""
        alike: dict[object, list[Match]] = {}
        for match in matches:
            taken = zip(self._aliases[match.alternative], match.bound, strict=True)
            members = tuple([(alias, tuple(entries)) for alias, entries in taken if entries])
            alike.setdefault(members, []).append(match)
        return [self._first_decided(twins) for twins in alike.values()]

    def _first_decided(self, twins: Sequence[Match]) -> Match:
        if len(twins) == 1:
            return twins[0]
        settled_ns = [self._layouts[match.alternative].settled_ns(match) for match in twins]
        first_ns = min(settled_ns)
        ways = [match for match, ns in zip(twins, settled_ns, strict=True) if ns == first_ns]
        return TwinMatch(ways) if len(ways) > 1 else ways[0]
