"""SKIP: which of all that is visible in a run is kept (`topology.pattern.match.skip`).

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Iterable

from topology.pattern.match.match import Match
from topology.pattern.match.skip import Barrier, after, by_start
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.ledger import FoundMatch
from topology.pattern.store.entry import Key

Visible = tuple[Key, str, FoundMatch]
"""The unit, by the key of its anchor, and the id."""


class Selection:
    """`chooses`: the query has a SKIP. `barrier`: what the matches decided so far drop of those
    that follow."""

    __slots__ = ("_query", "barrier", "chooses")

    def __init__(self, query: Compiled) -> None:
        self._query = query
        self.chooses = query.query.skip != "none"
        self.barrier = Barrier()

    def kept(self, visible: Iterable[Visible]) -> dict[Key, dict[str, FoundMatch]]:
        """By unit."""
        kept: dict[Key, dict[str, FoundMatch]] = {}
        barrier = self.barrier
        for key, id_, found in _in_order(visible):
            if not barrier.drops(found.match):
                kept.setdefault(key, {})[id_] = found
                barrier = barrier.behind(self._after(found.match))
        return kept

    def decided(self, visible: Iterable[Visible], floor_ns: int) -> Barrier:
        """The barrier once what is decided before `floor_ns` counts."""
        barrier = self.barrier
        for _, _, found in _in_order(visible):
            if found.decided_ns < floor_ns and not barrier.drops(found.match):
                barrier = barrier.behind(self._after(found.match))
        return barrier

    def _after(self, match: Match) -> Barrier:
        query = self._query.query
        aliases = self._query.aliases[match.alternative]
        component = aliases.index(query.skip_to) if query.skip_to in aliases else None
        return after(match, query.skip, component)


def _in_order(visible: Iterable[Visible]) -> list[Visible]:
    every = list(visible)
    order = {id(match): at for at, match in enumerate(by_start(f.match for _, _, f in every))}
    return sorted(every, key=lambda each: order[id(each[2].match)])
