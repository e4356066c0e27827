"""Decides which of two matches of a start MATCHES BEST prefers, by the order of their choices.

A match is represented by the choices that lead to it, from left to right in the pattern's text. For
an OR the choice is the branch. A group or an optional part has a choice for each event: to
continue, and with which event. Its last choice is to stop. The match with the lesser sequence of
choices is preferred.

Within an AND the text gives the events no order, so there the choices follow the order of the
events. Each event is represented by its part, and the first part in the text goes before others. A
reluctant part that has its minimum goes after the end of the AND. The part shows which branch of an
OR in an AND was taken.

Cost: O(members) for each match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.partial_order import OVER
from topology.queries.pattern.tree.walk import find_components

SOONER, END, LATER = range(3)


class Preference:
    """A maker of sort keys for the matches of one alternative; the least match is preferred.

    The keys are comparable with those of the other alternatives. `_places` has the position of each
    component in the text. `_regions` has the components of an AND together, and every other
    component by itself.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        in_text = {each.alias: at for at, each in enumerate(find_components(layout.node))}
        self._places = [in_text[part.alias] for part in layout.components]
        ands = [part.beside for part in layout.components]
        cuts = [j for j in range(layout.count) if ands[j] < 0 or ands[j] == j]
        self._regions = [
            range(low, high) for low, high in zip(cuts, [*cuts[1:], layout.count], strict=True)
        ]

    def of(self, match: Match) -> tuple[Any, ...]:
        spelled: list[Any] = []
        for region in self._regions:
            if self._layout.components[region[0]].beside < 0:
                spelled += self._iter_sequence_key(region[0], match.bound[region[0]])
            else:
                spelled += self._iter_time_key(region, match.bound)
        return (*spelled, *self._layout.alternative.branches)

    def _iter_sequence_key(self, j: int, entries: Sequence[Entry]) -> Iterator[Any]:
        part = self._layout.components[j]
        yield from part.branches
        for entry in entries:
            yield LATER if part.reluctant else SOONER
            yield entry.key
        if len(entries) < self._layout.maximum[j]:
            yield END

    def _iter_time_key(self, region: range, bound: Sequence[Sequence[Entry]]) -> Iterator[Any]:
        taken = dict.fromkeys(region, 0)
        yield from self._layout.components[region[0]].branches
        members = [(entry, j) for j in region for entry in bound[j]]
        for entry, j in sorted(members, key=lambda member: member[0].key):
            is_late = self._layout.components[j].reluctant and taken[j] >= self._layout.minimum[j]
            yield (LATER, -self._places[j]) if is_late else (SOONER, self._places[j])
            yield entry.key
            taken[j] += 1
        yield OVER
