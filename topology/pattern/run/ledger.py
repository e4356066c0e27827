"""What a query has emitted in one partition, and what it has to emit now (patterns.md 4.5).

The results of a unit are compared by id with those emitted before: a new id is an emit, the
same id with other events an update, a missing id a retract. So nothing is ever retracted
and emitted the same. What was decided before the frontier is frozen, as the events it rests on
may be gone: a new evaluation neither adds nor changes nor removes it.

Memory: some 300 bytes for each result not yet decided.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from topology.model.result import CONFIRMED
from topology.pattern.match.match import Match
from topology.pattern.store.entry import Entry
from topology.query.results import NO_NEWS, CurrentResult


class Now:
    """`clock_ns`: the newest time accepted; `floor_ns`: before it all is decided."""

    __slots__ = ("clock_ns", "floor_ns")

    def __init__(self, clock_ns: int, floor_ns: int) -> None:
        self.clock_ns = clock_ns
        self.floor_ns = floor_ns


class FoundMatch:
    """A current match. `decided_ns`: no event after that time can change it. `graded_ns`: the
    largest error there was when it was said how sure it is; 0 where nobody asked."""

    __slots__ = ("confidence", "decided_ns", "graded_ns", "match")

    def __init__(
        self, match: Match, decided_ns: int, confidence: str = CONFIRMED, graded_ns: int = 0
    ) -> None:
        self.match = match
        self.decided_ns = decided_ns
        self.confidence = confidence
        self.graded_ns = graded_ns


CurrentMatch = CurrentResult[FoundMatch]


class Unit:
    """An end event, or a start event, with all that is found by it.

    `found` is what is current, by id; `emitted` what readers have, retracted ones too. `hi_ns` and
    `waits` as in `evaluation.Evaluation`. `overflowed`: it has been said that there is more.
    `timers`: those it has set, each with its instant; None as long as there was none. `taken`: how
    far its walk is, where an automaton follows it."""

    __slots__ = ("anchor", "emitted", "found", "hi_ns", "overflowed", "taken", "timers", "waits")

    def __init__(self, anchor: Entry) -> None:
        self.anchor = anchor
        self.found: dict[str, FoundMatch] = {}
        self.emitted: dict[str, CurrentMatch] = {}
        self.timers: set[tuple[int, object]] | None = None
        self.taken: list[Entry] = []
        self.hi_ns = 0
        self.waits: frozenset[tuple[int, int]] | None = None
        self.overflowed = False

    def replace(self, found: Mapping[str, FoundMatch], floor_ns: int) -> None:
        """Take a new evaluation for what is not yet decided."""
        frozen = {id_: old for id_, old in self.found.items() if old.decided_ns < floor_ns}
        open_ = {id_: new for id_, new in found.items() if new.decided_ns >= floor_ns}
        self.found = open_ if not frozen else {**open_, **frozen}

    def is_undecided(self, time_ns: int) -> bool:
        """An event of that time can change something that is current."""
        return any(found.decided_ns >= time_ns for found in self.found.values())

    def put_off(self, by_ns: int, floor_ns: int) -> None:
        """What is not yet decided will be so much later: errors are larger than it seemed."""
        every = (*self.found.values(), *(each.content for each in self.emitted.values()))
        for found in {id(found): found for found in every}.values():
            if found.decided_ns >= floor_ns:
                found.decided_ns += by_ns

    def forget(self, before_ns: int) -> None:
        """What was decided before that instant needs no memory: nothing changes it."""
        if self.found:
            for id_ in [i for i, found in self.found.items() if found.decided_ns < before_ns]:
                del self.found[id_]
        if self.emitted:
            for id_ in [i for i, old in self.emitted.items() if old.content.decided_ns < before_ns]:
                del self.emitted[id_]


class Change:
    """One thing to emit: `op` about the result `id`, which is `found` (for a retract: was).
    `before`: what readers had of it until now; the same where it is new to them."""

    __slots__ = ("before", "final", "found", "id", "op", "revision")

    def __init__(
        self, op: str, id_: str, revision: int, before: FoundMatch, found: FoundMatch, final: bool
    ) -> None:
        self.op = op
        self.id = id_
        self.revision = revision
        self.before = before
        self.found = found
        self.final = final


def changes(
    unit: Unit, visible: Mapping[str, FoundMatch], floor_ns: int, emits_final: bool
) -> Iterable[Change]:
    """What has to be emitted so that `visible` is what readers have; notes that it was.

    `emits_final`: what was emitted before it was decided is so once more when it is."""
    for id_, old in unit.emitted.items():
        if old.live and id_ not in visible:
            op = old.retract(is_final=old.content.decided_ns < floor_ns)
            yield Change(op, id_, old.revision, old.content, old.content, old.final)
    for id_, found in visible.items():
        current = unit.emitted.get(id_)
        if current is None:
            current = unit.emitted[id_] = CurrentResult(found)
        is_final = found.decided_ns < floor_ns
        becomes_final = emits_final and is_final and not current.final
        before = current.content
        is_news = becomes_final or not _same(before, found)
        op = current.show(found, is_news=is_news, is_final=is_final)
        if op != NO_NEWS:
            yield Change(op, id_, current.revision, before, found, is_final)


def _same(one: FoundMatch, other: FoundMatch) -> bool:
    if one is other:
        return True
    return (
        one.confidence == other.confidence
        and one.match.alternative == other.match.alternative
        and one.match.bound == other.match.bound
    )
