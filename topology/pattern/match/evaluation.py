"""The interface of a tactic: it finds the matches of one unit from the indexes alone.

A *unit* is the grain of evaluation, correction and finality. It is the end event under
skip-till-any, otherwise the start event. Nothing is computed until an event can complete a match.
Then the unit is evaluated again from the indexes, and the engine compares the result with what it
has emitted. So a tactic keeps no state of its own, and all tactics find the same matches
(`tests/topology/pattern`: differential laws).

    exhaustive   supports the whole language; the definition, run backwards or
                 forwards through the indexes
    walk         MATCHES ONE: one walk from a start
    best         MATCHES BEST: the first match that a search by preference finds
    slices       linear patterns whose groups are free: groups are slices, never enumerated

`tactic_for` chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from topology.pattern.match.layout import Layout
from topology.pattern.match.match import Match
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex

MAX_STEPS: Final = 200_000
"""The steps of one evaluation after which the unit overflows.

Each entry or cut that is looked at is a step. A query whose limit exceeds MAX_STEPS /
STEPS_PER_MATCH matches raises the bound.
"""

STEPS_PER_MATCH: Final = 16


@dataclass(slots=True)
class Place:
    """The indexes of one query in one partition.

    `components[a][j]` has the entries for component j of alternative a: those of its types that
    satisfy its `own`. `blockers[a][k]` has those for negation k: entries of its types that satisfy
    the predicates that name no other alias.

    `everything` has all entries that a STRICT step looks at; it is empty if no step and no negation
    is strict. `enders[a, j]` has all entries of the types of a component with UNTIL, whether they
    satisfy its `own` or not.
    """

    components: Sequence[Sequence[EntryIndex]]
    blockers: Sequence[Sequence[EntryIndex]]
    everything: EntryIndex
    enders: Mapping[tuple[int, int], EntryIndex]

    def indexes(self, alternative: int) -> list[EntryIndex]:
        """Return all indexes that an alternative reads, except `enders`."""
        found = [*self.components[alternative], *self.blockers[alternative]]
        return [*found, self.everything]

    def next_one(self, last: Entry) -> Entry | None:
        """Return the entry directly after that one, or None if there is none yet.

        A STRICT step may take this entry only.
        """
        at = self.everything.behind(last.key)
        return self.everything.entries[at] if at < len(self.everything) else None


@dataclass(slots=True)
class Evaluation:
    """The result of evaluating one unit.

    `matches` are those of the unit, in the order of `match.in_order`, at most the query's limit.

    `overflow`: there are more, or the search was cut short (MAX_STEPS). For units of an end event
    without AND, the smallest matches in that order remain. Otherwise the matches found first
    remain, and for MAXIMAL those that are maximal among the ones found.

    `hi_ns`: only an event of this time or earlier can change the result. `waits` are the slots
    (alternative, j) whose entries can change it, if they are newer than all present ones. From the
    number of components on, j is a negation. None means any entry. It is set for MATCHES ONE and
    BEST, and empty if the result is settled. For the other modes it is None.

    `steps` is the work done.
    """

    matches: list[Match] = field(default_factory=list)
    overflow: bool = False
    hi_ns: int = 0
    waits: frozenset[tuple[int, int]] | None = None
    steps: int = 0


class StepBudget:
    """A counter of `steps`, the entries and cuts that were looked at, with a limit.

    When it is spent the search stops and the unit overflows. So even a query that explodes costs a
    bounded time for each event.
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
        """Return the matches that end with `anchor` (any), or start with it (other strategies).

        Negations are already applied. `anchor` is in the indexes of some component.
        """
        ...


class Search:
    """A search in one unit and one alternative, until enough matches are `found`.

    It stops at `wanted` matches or when the budget is spent. `RunSearch` extends runs entry by
    entry. `Cutting` takes groups as cuts of an index. `SetSearch` combines sets whose order is not
    certain.
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
