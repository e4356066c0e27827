"""What the engine asks of a tactic: the matches of one unit, from the indexes alone.

A *unit* is the grain of evaluation, correction and finality: the end
event under skip-till-any, else the start event. Nothing is computed until an event can
finish something; then a unit is evaluated anew from what the indexes hold, and the
engine compares with what it has emitted before. So a tactic keeps no state of its own, and all
tactics give the same matches (`tests/topology/pattern`: differential laws).

    exhaustive   everything the language has; the definition, made to run backwards or
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
"""Work of one evaluation, beyond which the unit overflows: an entry or a cut looked at is a
step. A query's limit of more than MAX_STEPS / STEPS_PER_MATCH matches raises it."""

STEPS_PER_MATCH: Final = 16


@dataclass(slots=True)
class Place:
    """What the indexes of one query hold in one partition.

    `components[a][j]`: for component j of alternative a, entries of its types that satisfy its
    `own`; `blockers[a][k]`: for negation k, entries of its types that satisfy those of its
    predicates that name no other alias; `everything`: all entries that a STRICT step looks at
    (empty where no step, and no negation, is strict); `enders[a, j]`: for a component with
    UNTIL, all entries of its types, whether they satisfy its `own` or not."""

    components: Sequence[Sequence[EntryIndex]]
    blockers: Sequence[Sequence[EntryIndex]]
    everything: EntryIndex
    enders: Mapping[tuple[int, int], EntryIndex]

    def indexes(self, alternative: int) -> list[EntryIndex]:
        """All that an alternative looks into, but for `enders`."""
        found = [*self.components[alternative], *self.blockers[alternative]]
        return [*found, self.everything]

    def next_one(self, last: Entry) -> Entry | None:
        """The very next of all entries behind that one, which alone a STRICT step may take; None
        where there is none yet."""
        at = self.everything.behind(last.key)
        return self.everything.entries[at] if at < len(self.everything) else None


@dataclass(slots=True)
class Evaluation:
    """`matches` of the unit, in the order of `match.in_order`, at most the query's limit.

    `overflow`: there are more, or they were not all looked for (MAX_STEPS). What is left are the
    smallest in that order for units of an end event without AND; in the other cases those found
    first, and of MAXIMAL those that are maximal among those found.
    `hi_ns`: only an event of this time or earlier can change the result. `waits`: which entries
    newer than all that are held can change it: the slots (alternative, j) of components and,
    with j from the number of components on, of negations; None: any entry. It is
    known for MATCHES ONE and BEST, and empty where the result is settled; for the other modes it
    is None. `steps`: the work done."""

    matches: list[Match] = field(default_factory=list)
    overflow: bool = False
    hi_ns: int = 0
    waits: frozenset[tuple[int, int]] | None = None
    steps: int = 0


class StepBudget:
    """Counts `steps`: entries and cuts looked at. When it is spent the search stops and the unit
    overflows, so that a query that explodes costs a bounded time for each event."""

    __slots__ = ("most", "steps")

    def __init__(self, limit: int) -> None:
        self.steps = 0
        self.most = max(MAX_STEPS, STEPS_PER_MATCH * limit)

    @property
    def is_spent(self) -> bool:
        return self.steps > self.most


class Tactic(Protocol):
    def evaluate(self, place: Place, anchor: Entry) -> Evaluation:
        """The matches that end with `anchor` (any), or that start with it (all other
        strategies), blockers already regarded. `anchor` is in the indexes of some component."""
        ...


class Search:
    """A search in one unit and one alternative goes on until `wanted` matches are `found`, or the
    budget is spent.

    `RunSearch` extends runs entry by entry, `Cutting` takes groups as cuts of an index, `SetSearch`
    puts sets together whose order is not known."""

    def __init__(self, layout: Layout, place: Place, budget: StepBudget, wanted: int) -> None:
        self.layout = layout
        self.place = place
        self.budget = budget
        self.wanted = wanted
        self.found: list[Match] = []

    @property
    def is_over(self) -> bool:
        return len(self.found) >= self.wanted or self.budget.is_spent
