"""A unit: all that is found by one event, the end of a match or its start, and its life.

| unit | what has happened | what comes next |
| --- | --- | --- |
| followed | its walk goes on with each event (`evaluate.PlainWay`) | evaluated, forgotten |
| gathered | late events have come, and are gathered (EMIT SLACK) | evaluated |
| evaluated | `found` is what its events come to | evaluated, gathered, withdrawn, forgotten |
| withdrawn | its event, a match, is no more; its revisions go on | evaluated |
| forgotten | nothing can change it any more | - |

| match in it | what it means | what comes next |
| --- | --- | --- |
| hidden | it is found, and may not be emitted yet; the agenda has it | visible, gone |
| visible | it may be emitted (`decide`) | kept, skipped, hidden, gone |
| skipped | SKIP drops it for one before it | kept, gone |
| kept | SKIP keeps it, or there is no SKIP | emitted |
| emitted | readers have it | updated, retracted |
| retracted | readers have it no more; its revisions go on | emitted |

What was emitted and is gone, skipped or hidden is retracted (`emit.changes`). It is gone where an
event out of order changes what is found: its id (`match.anchors`), a negation, a step that takes
another event, a condition, UNTIL, GREEDY, a larger match of MAXIMAL, LIMIT, or the beginning of a
query that was added. It is hidden where an absence at its end lasts longer than it seemed.

A match is *decided* when the frontier has passed `decided_ns`. What is decided is frozen, as the
events that it rests on may be absent: a new evaluation neither adds nor changes nor removes it.

Memory: some 300 bytes for each result not yet decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from topology.model.operator import NEVER
from topology.model.result import CONFIRMED
from topology.pattern.match.match import Match
from topology.pattern.store.entry import Entry, Key
from topology.query.results import CurrentResult

BEFORE_ALL_TIME: Final = -NEVER
"""Where clock and frontier are as long as nothing has come."""

KNOWN_BY: Final = 16
"""Digits of a query's fingerprint that its state is known by."""


class Now:
    """How far time is. `clock_ns`: the newest time accepted, or what the watermark has passed if
    that is more. Every event before `frontier_ns` has come, and what is decided before it is so
    for good."""

    __slots__ = ("clock_ns", "frontier_ns")

    def __init__(self) -> None:
        self.clock_ns = BEFORE_ALL_TIME
        self.frontier_ns = BEFORE_ALL_TIME

    def pass_by(self, frontier_ns: int) -> None:
        """The frontier is there now."""
        self.frontier_ns = frontier_ns
        if frontier_ns > self.clock_ns:
            self.clock_ns = frontier_ns


class FoundMatch:
    """A current match. `decided_ns`: no event after that time can change it. `graded_ns`: the
    largest error there was when it was graded how sure it is; 0 where it was not. `values`: its
    columns, where they do not follow from its events (`run.decide`). `row`: the component and the
    event that it is a line of, None where it is of all."""

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
        self.row: tuple[int, Entry] | None = None


class Gathered:
    """The units of one run that wait to be corrected, by their anchors, and until when they wait
    (`due_ns`; NEVER where none does)."""

    __slots__ = ("anchors", "due_ns")

    def __init__(self) -> None:
        self.anchors: dict[Key, Entry] = {}
        self.due_ns = NEVER

    def add(self, anchors: Iterable[Entry], due_ns: int) -> None:
        """Those that come later wait no longer than the first."""
        self.anchors.update((anchor.key, anchor) for anchor in anchors)
        if self.due_ns == NEVER:
            self.due_ns = due_ns

    def take(self) -> list[Entry]:
        taken = [self.anchors[key] for key in sorted(self.anchors)]
        self.anchors.clear()
        self.due_ns = NEVER
        return taken

    @property
    def since_ns(self) -> int:
        return min(anchor.time_ns for anchor in self.anchors.values())


class UnitOwner(Protocol):
    """Whose a unit is, a run: what is asked of it when time comes, and at a checkpoint."""

    gathered: Gathered

    def __hash__(self) -> int: ...

    def wake(self, unit: MatchUnit) -> bool:
        """Return whether the unit is still there, an instant having come that it waited for."""
        ...

    def evaluate_gathered(self) -> list[MatchUnit]: ...

    def emit(self, units: Iterable[MatchUnit]) -> None: ...

    def write(self) -> None: ...


class MatchUnit:
    """An end event, or a start event, with all that is found by it.

    `found` is what is current, by id; `emitted` what readers have, retracted ones too. `hi_ns` and
    `waits` as in `evaluation.Evaluation`. `overflowed`: it was reported that there is more."""

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
        """Take a new evaluation for what is not yet decided."""
        frozen = {id_: old for id_, old in self.found.items() if old.decided_ns < frontier_ns}
        open_ = {id_: new for id_, new in found.items() if new.decided_ns >= frontier_ns}
        self.found = open_ if not frozen else {**open_, **frozen}

    def is_undecided(self, time_ns: int) -> bool:
        """An event of that time can change something that is current."""
        return any(found.decided_ns >= time_ns for found in self.found.values())

    def put_off(self, by_ns: int, frontier_ns: int) -> None:
        """What is not yet decided will be so much later: errors are larger than it seemed."""
        every = (*self.found.values(), *(each.content for each in self.emitted.values()))
        for found in {id(found): found for found in every}.values():
            if found.decided_ns >= frontier_ns:
                found.decided_ns += by_ns

    def forget(self, before_ns: int) -> None:
        """What was decided before that instant needs no memory: nothing changes it."""
        if self.found:
            for id_ in [i for i, found in self.found.items() if found.decided_ns < before_ns]:
                del self.found[id_]
        if self.emitted:
            for id_ in [i for i, old in self.emitted.items() if old.content.decided_ns < before_ns]:
                del self.emitted[id_]
