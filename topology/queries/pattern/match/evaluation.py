"""Defines the interface of a tactic, which finds the matches of one unit from the indexes alone.

A *unit* is all matches with the same end event (skip-till-any) or start event (otherwise). It is
evaluated, corrected and decided as a whole. When an event may change its matches, the unit is
evaluated again from the indexes. The engine compares the result with the matches that it has
emitted. So a tactic keeps no state of its own, and all tactics find the same matches
(`tests/topology/queries/pattern`: differential laws).

    exhaustive   supports the whole language, and so defines the matches; it searches
                 the indexes
    walk         MATCHES ONE: one walk from a start
    best         MATCHES BEST: the first match that a search by preference finds
    slices       linear patterns whose groups are free: groups are slices, never enumerated

`tactic_for` chooses the tactic of a query. Plain sequences in order need none of them: `followed`
advances one walk for each start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import EntryIndex

MAX_STEPS: Final = 200_000
"""The maximum number of steps of one evaluation; with more steps, the unit overflows.

Each entry or slice that is looked at is a step. A query whose LIMIT exceeds MAX_STEPS /
STEPS_PER_MATCH may take STEPS_PER_MATCH steps for each match of its limit instead.
"""

STEPS_PER_MATCH: Final = 16


@dataclass(slots=True)
class Place:
    """The indexes of one query in one partition.

    Attributes:
        components: The entries for each component, by alternative and component. They have one of
            its types and satisfy its `own` conditions.
        blockers: The entries for each negation, by alternative and negation. They have one of its
            types and satisfy its conditions that name no other alias.
        everything: All entries that a STRICT step, PREV or NEXT looks at; empty if the query has
            none of these.
        enders: All entries of the types of each component with UNTIL, whether or not they satisfy
            its `own` conditions; by (alternative, component).
    """

    components: Sequence[Sequence[EntryIndex]]
    blockers: Sequence[Sequence[EntryIndex]]
    everything: EntryIndex
    enders: Mapping[tuple[int, int], EntryIndex]

    def indexes(self, alternative: int) -> list[EntryIndex]:
        """Return all indexes that an alternative reads, except `enders`."""
        found = [*self.components[alternative], *self.blockers[alternative]]
        return [*found, self.everything]

    def entry_after(self, last: Entry) -> Entry | None:
        """Return the entry directly after `last`, or None if there is none yet.

        A STRICT step may take this entry only.
        """
        at = self.everything.behind(last.key)
        return self.everything.entries[at] if at < len(self.everything) else None


@dataclass(slots=True)
class Evaluation:
    """The result of evaluating one unit.

    Attributes:
        matches: The matches of the unit in the order of `in_order`, at most the query's limit.
        overflow: Whether there are more matches, or the search was cut short (MAX_STEPS). For an
            end event without AND, `matches` then has the first in that order. Otherwise it has the
            first that were found, and for MAXIMAL those that are maximal among the ones found.
        hi_ns: The latest time of an event that can change the result.
        waits: The slots (alternative, slot) whose entries can change the result, if they are newer
            than all present ones. It is empty if the result is settled. None means that any entry
            can. It is set only for MATCHES ONE and BEST.
        steps: The number of steps taken.
    """

    matches: list[Match] = field(default_factory=list)
    overflow: bool = False
    hi_ns: int = 0
    waits: frozenset[tuple[int, int]] | None = None
    steps: int = 0


class StepBudget:
    """A counter of `steps`, the entries and slices that were looked at, with a limit.

    When the budget is spent, the search stops and the unit overflows. So an evaluation takes a
    bounded time, even for a query with very many matches.
    """

    __slots__ = ("most", "steps")

    def __init__(self, limit: int) -> None:
        self.steps = 0
        self.most = max(MAX_STEPS, STEPS_PER_MATCH * limit)

    @property
    def is_spent(self) -> bool:
        return self.steps > self.most


class Tactic(Protocol):
    def evaluate(self, place: Place, anchor: Entry) -> Evaluation:
        """Return the matches that end with `anchor` (skip-till-any) or start with it (otherwise).

        Negations are already applied. `anchor` is in the index of at least one component.
        """
        ...


class Search:
    """A search for the matches of one unit in one alternative.

    It stops at `wanted` matches or when the budget is spent. `RunSearch` extends runs entry by
    entry. `Cutting` takes groups as slices of an index. `SetSearch` combines sets whose order is
    not certain.
    """

    def __init__(self, layout: Layout, place: Place, budget: StepBudget, wanted: int) -> None:
        self.layout = layout
        self.place = place
        self.budget = budget
        self.wanted = wanted
        self.found: list[Match] = []

    @property
    def is_over(self) -> bool:
        return len(self.found) >= self.wanted or self.budget.is_spent
