"""Merges matches that several alternatives find: the same events under the same aliases.

Such matches come from an OR with two branches that may both be absent (`OR(C? c, D? d)`), or from
an optional group that may be empty (`SEQ(C* c[])?`). They are merged before the limit of the query
applies. A merged match is valid while one of the alternatives finds it. So it is final as soon as
one of these matches is, and that match is used. It is confirmed if an alternative that is final at
that instant confirms it.

Cost: nothing if no two alternatives can find the same match; otherwise O(members) for each match.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.match.match import Match


class TwinMatch(Match):
    """A match that several alternatives find, all of which are final at the same instant."""

    __slots__ = ("_ways",)

    def __init__(self, ways: Sequence[Match]) -> None:
        """Merge `ways`, the match of each alternative; the first of them gives the values."""
        one = ways[0]
        super().__init__(one.alternative, one.bound, one.first, one.last)
        self._ways = ways

    def ways(self) -> Sequence[Match]:
        return self._ways


class Twins:
    """A merger of the matches of one query that several alternatives find.

    `may_be`: whether two alternatives can find the same match, because their required components
    have the same aliases.
    """

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self._layouts = layouts
        self._aliases = [[part.alias for part in layout.components] for layout in layouts]
        required = {
            frozenset(part.alias for part in layout.components if not part.is_optional)
            for layout in layouts
        }
        self.may_be = len(required) < len(layouts)

    def merge(self, matches: list[Match]) -> list[Match]:
        """Return the matches, each only once; `matches` are in the order of their alternatives."""
        alike: dict[object, list[Match]] = {}
        for match in matches:
            taken = zip(self._aliases[match.alternative], match.bound, strict=True)
            members = tuple([(alias, tuple(entries)) for alias, entries in taken if entries])
            alike.setdefault(members, []).append(match)
        return [self._select_first_decided(twins) for twins in alike.values()]

    def _select_first_decided(self, twins: Sequence[Match]) -> Match:
        if len(twins) == 1:
            return twins[0]
        settled_ns = [self._layouts[match.alternative].settled_ns(match) for match in twins]
        first_ns = min(settled_ns)
        ways = [match for match, ns in zip(twins, settled_ns, strict=True) if ns == first_ns]
        return TwinMatch(ways) if len(ways) > 1 else ways[0]
