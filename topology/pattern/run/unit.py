"""Defines the units of a run with their states, and the clock and frontier that decide matches.

A *unit* is all matches found from one event, its *anchor*. This is the last event under
skip-till-any, otherwise the first.

| state of a unit | meaning | next states |
| --- | --- | --- |
| followed | an event may advance or correct its walk (`PlainWay`) | evaluated, forgotten |
| evaluated | `found` has the matches in all its events | evaluated, removed, forgotten |
| removed | its anchor was a match that no longer exists; its revisions continue | evaluated |
| forgotten | nothing can change it any more | - |

| state of a match | meaning | next states |
| --- | --- | --- |
| hidden | it is found, but may not be emitted yet; the agenda has a timer for it | visible, gone |
| visible | it may be emitted (`decide`) | kept, skipped, hidden, gone |
| skipped | SKIP drops it because of an earlier match | kept, gone |
| kept | SKIP keeps it, or there is no SKIP | emitted, skipped, hidden, gone |
| emitted | consumers have it | updated, retracted |
| retracted | consumers no longer have it; its revisions continue | emitted |

An emitted match that is gone, skipped or hidden is retracted (`emit.changes`). A match is gone if
an event out of order changes the matches that are found. The change may concern:

- its id (`match.ids`), or a condition;
- a negation, UNTIL or GREEDY;
- a step that takes another event;
- a larger match of MAXIMAL, or LIMIT;
- the beginning of a query that was added.

A change of one match may move the barrier of SKIP. Then later matches turn from kept to skipped, or
back (`selection`).

A match becomes hidden if the absence at its end turns out to last longer.

A match is *decided* when the frontier has passed `decided_ns`. A decided match is frozen, because
its events may have been purged: a new evaluation neither adds nor changes nor removes it.

Memory: some 300 bytes for each result that is not yet decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from topology.model.operator import NEVER
from topology.model.result import CONFIRMED
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.match import Match
from topology.pattern.store.entry import Entry
from topology.query.results import CurrentResult

BEFORE_ALL_TIME: Final = -NEVER
"""The initial value of the clock and of the frontier."""

KNOWN_BY: Final = 16
"""The number of digits of a query's fingerprint that identify the query in the state."""


class Now:
    """The clock and the frontier of a level.

    Attributes:
        clock_ns: The newest time accepted, or the time that the watermark has passed if that is
            later.
        frontier_ns: The instant before which every event has arrived. Results decided before it
            never change.
    """

    __slots__ = ("clock_ns", "frontier_ns")

    def __init__(self) -> None:
        self.clock_ns = BEFORE_ALL_TIME
        self.frontier_ns = BEFORE_ALL_TIME

    def advance(self, frontier_ns: int) -> None:
        """Move the frontier to `frontier_ns`, and the clock at least as far."""
        self.frontier_ns = frontier_ns
        if frontier_ns > self.clock_ns:
            self.clock_ns = frontier_ns


class FoundMatch:
    """A current match, or one of its rows, with its confidence.

    Attributes:
        match: The match.
        decided_ns: The time after which no event can change it.
        confidence: CONFIRMED or UNCERTAIN.
        graded_ns: The largest known error when the match was graded; 0 if it was not graded.
        values: The values of its columns, if they do not follow from its events (`run.decide`).
        row: The alias and the event of this row; None for a whole match.
    """

    __slots__ = ("confidence", "decided_ns", "graded_ns", "match", "row", "values")

    def __init__(
        self,
        match: Match,
        decided_ns: int,
        confidence: str = CONFIRMED,
        graded_ns: int = 0,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self.match = match
        self.decided_ns = decided_ns
        self.confidence = confidence
        self.graded_ns = graded_ns
        self.values = values
        self.row: tuple[str, Entry] | None = None


class UnitOwner(Protocol):
    """The interface of the run that owns a unit, for timers and checkpoints."""

    query: Compiled

    def __hash__(self) -> int: ...

    def wake(self, unit: MatchUnit) -> bool:
        """Prepare a unit whose timer is due, and return whether it still exists."""
        ...

    def emit(self, units: Iterable[MatchUnit]) -> None: ...

    def write(self) -> None: ...


class MatchUnit:
    """An end event or a start event, the anchor, with all matches found from it.

    Attributes:
        found: The current matches, by id.
        emitted: The results that consumers have, and retracted ones, by id.
        hi_ns: The time after which no event changes the evaluation (`evaluation.Evaluation`).
        waits: The slots whose new entries change it (`evaluation.Evaluation`).
        overflowed: Whether it was reported that there are more results.
    """

    __slots__ = ("anchor", "emitted", "found", "hi_ns", "overflowed", "owner", "waits")

    def __init__(self, anchor: Entry, owner: UnitOwner) -> None:
        self.anchor = anchor
        self.owner = owner
        self.found: dict[str, FoundMatch] = {}
        self.emitted: dict[str, CurrentResult[FoundMatch]] = {}
        self.hi_ns = 0
        self.waits: frozenset[tuple[int, int]] | None = None
        self.overflowed = False

    def replace(self, found: Mapping[str, FoundMatch], frontier_ns: int) -> None:
        """Replace the matches that are not yet decided by those of a new evaluation."""
        frozen = {id_: old for id_, old in self.found.items() if old.decided_ns < frontier_ns}
        open_ = {id_: new for id_, new in found.items() if new.decided_ns >= frontier_ns}
        self.found = open_ if not frozen else {**open_, **frozen}

    def is_undecided(self, time_ns: int) -> bool:
        """Return whether an event at that time can change a current match."""
        return any(found.decided_ns >= time_ns for found in self.found.values())

    def delay_decisions(self, by_ns: int, frontier_ns: int) -> None:
        """Delay the decision of open matches by `by_ns`, because errors are larger than before."""
        every = (*self.found.values(), *(each.content for each in self.emitted.values()))
        for found in {id(found): found for found in every}.values():
            if found.decided_ns >= frontier_ns:
                found.decided_ns += by_ns

    def forget(self, before_ns: int) -> None:
        """Forget the matches and results that were decided before `before_ns`."""
        if self.found:
            for id_ in [i for i, found in self.found.items() if found.decided_ns < before_ns]:
                del self.found[id_]
        if self.emitted:
            for id_ in [i for i, old in self.emitted.items() if old.content.decided_ns < before_ns]:
                del self.emitted[id_]
