"""What a query has emitted in one partition, what it has to emit now, and the rows that say so.

The results of a unit are compared by id with those emitted before: a new
id is an emit, the same id with other events an update, a missing id a retract. So nothing is ever
retracted and emitted the same. What was decided before the frontier is frozen, as the events it
rests on may be absent: a new evaluation neither adds nor changes nor removes it.

The state table has a row for each unit with results that are not decided: what is current can be
found again from the events it rests on, so only what was emitted is written. Not so for a unit that
waits to be corrected (EMIT SLACK): the events are there already, and it has not been evaluated
since. A row whose results have been decided since stays until the unit changes, or is forgotten.

Memory: some 300 bytes for each result not yet decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from topology.model.operator import NEVER
from topology.model.result import CONFIRMED, result_id
from topology.pattern.match.anchors import spelled_key
from topology.pattern.match.match import Match
from topology.pattern.match.skip import BEFORE_ALL, Barrier
from topology.pattern.run.compiled import Compiled
from topology.pattern.store.entry import Entry, Identity, Key
from topology.query.results import NO_NEWS, CurrentResult

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
    columns, where they do not follow from its events (`run.shown`). `row`: the component and the
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


CurrentMatch = CurrentResult[FoundMatch]


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

    def state(self, *, everything: bool) -> dict[str, Any]:
        """The rows to write."""
        ...


class MatchUnit:
    """An end event, or a start event, with all that is found by it.

    `found` is what is current, by id; `emitted` what readers have, retracted ones too. `hi_ns` and
    `waits` as in `evaluation.Evaluation`. `overflowed`: it was reported that there is more."""

    __slots__ = ("anchor", "emitted", "found", "hi_ns", "overflowed", "owner", "waits")

    def __init__(self, anchor: Entry, owner: UnitOwner) -> None:
        self.anchor = anchor
        self.owner = owner
        self.found: dict[str, FoundMatch] = {}
        self.emitted: dict[str, CurrentMatch] = {}
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
    unit: MatchUnit, visible: Mapping[str, FoundMatch], frontier_ns: int, emits_final: bool
) -> Iterable[Change]:
    """What has to be emitted so that `visible` is what readers have; notes that it was.

    `emits_final`: what was emitted before it was decided is so once more when it is."""
    for id_, old in unit.emitted.items():
        if old.live and id_ not in visible:
            op = old.retract(is_final=old.content.decided_ns < frontier_ns)
            yield Change(op, id_, old.revision, old.content, old.content, old.final)
    for id_, found in visible.items():
        current = unit.emitted.get(id_)
        if current is None:
            current = unit.emitted[id_] = CurrentResult(found)
        is_final = found.decided_ns < frontier_ns
        becomes_final = emits_final and is_final and not current.final
        before = current.content
        is_news = becomes_final or not _same(before, found)
        op = current.show(found, is_news=is_news, is_final=is_final)
        if op != NO_NEWS:
            yield Change(op, id_, current.revision, before, found, is_final)


def _same(one: FoundMatch, other: FoundMatch) -> bool:
    if one is other:
        return True
    if one.row is not None and other.row is not None:
        return (
            one.row[0] == other.row[0]
            and one.confidence == other.confidence
            and one.values == other.values
            and one.match.alternative == other.match.alternative
            and one.match.first.time_ns == other.match.first.time_ns
            and one.match.last.time_ns == other.match.last.time_ns
        )
    return (
        one.confidence == other.confidence
        and one.values == other.values
        and one.match.alternative == other.match.alternative
        and one.match.bound == other.match.bound
    )


# -- rows of the state table ----------------------------------------------------------------------


class UnitRows:
    """The rows of one run, which is noted in `changed` when something is not as it was written: a
    checkpoint looks at those runs alone. `closed` gets the keys of rows that are no more.
    `written`: rows as the table has them, by their keys."""

    __slots__ = (
        "_barrier",
        "_barrier_key",
        "_changed",
        "_closed",
        "_known_by",
        "_run",
        "_touched",
        "written",
    )

    def __init__(
        self,
        query: Compiled,
        partition: Sequence[Any],
        run: UnitOwner,
        changed: dict[UnitOwner, None],
        closed: dict[str, None],
    ) -> None:
        self._run = run
        self._changed = changed
        self._closed = closed
        self._known_by = f"{query.known_by[:KNOWN_BY]}/{query.name}"
        self._barrier_key = f"barrier/{self._known_by}/{result_id(spelled_key(partition))}"
        self._touched: dict[Key, Entry] = {}
        self._barrier = BEFORE_ALL
        self.written: dict[str, Any] = {}

    def key_of(self, anchor: Entry) -> str:
        event = anchor.event
        return f"unit/{self._known_by}/{event.epoch:d}/{event.seq:d}/{event.source}"

    def touch(self, anchor: Entry) -> None:
        """Something of the unit is not as it was written."""
        if not self._touched:
            self._changed[self._run] = None
        self._touched[anchor.key] = anchor

    def forget(self, anchor: Entry) -> None:
        """The unit is no more."""
        self._touched.pop(anchor.key, None)
        if not self.written:
            return
        name = self.key_of(anchor)
        if self.written.pop(name, None) is not None:
            self._closed[name] = None

    def close(self) -> None:
        """All rows are forgotten, with the run."""
        self._changed.pop(self._run, None)
        if self._barrier != BEFORE_ALL:
            self._closed[self._barrier_key] = None
        self._closed |= dict.fromkeys(self.written)

    def rows(
        self,
        units: Mapping[Key, MatchUnit],
        gathered: Gathered,
        barrier: Barrier,
        frontier_ns: int,
        *,
        everything: bool,
    ) -> dict[str, Any]:
        """What to write; None where a row is no more."""
        states: dict[str, Any] = {}
        for key, anchor in sorted(self._touched.items()):
            state = _row(units.get(key), key, gathered, frontier_ns)
            name = self.key_of(anchor)
            if state is not None or name in self.written:
                states[name] = state
        if everything:
            states = {name: s for name, s in (self.written | states).items() if s is not None}
        else:
            self.written.update(states)
            for name in [name for name, state in states.items() if state is None]:
                del self.written[name]
        if barrier.key != BEFORE_ALL and (everything or barrier.key != self._barrier):
            states[self._barrier_key] = [*barrier.key, barrier.includes]
        if not everything:
            self._touched.clear()
            self._barrier = barrier.key
        return states

    def take_barrier(self, state: dict[str, Any]) -> Barrier:
        """Out of a state that is restored."""
        row = state.pop(self._barrier_key, None)
        if row is None:
            return Barrier()
        *key, includes = row
        barrier = Barrier(tuple(key), includes)
        self._barrier = barrier.key
        return barrier

    def take_row(self, anchor: Entry, state: dict[str, Any]) -> tuple[int | None, Any]:
        """The same: until when the unit waits to be corrected, and what there is of it."""
        name = self.key_of(anchor)
        if name in state:
            self.written[name] = state[name]
        due_ns, rows = state.pop(name, (None, ()))
        return due_ns, rows


def _row(unit: MatchUnit | None, key: Key, gathered: Gathered, frontier_ns: int) -> Any:
    if key in gathered.anchors:
        return [gathered.due_ns, None if unit is None else _waiting_row(unit, frontier_ns)]
    if unit is None:
        return None
    rows = [
        [id_, old.revision, old.live, old.final, old.content.decided_ns]
        for id_, old in unit.emitted.items()
        if old.content.decided_ns >= frontier_ns
    ]
    return [None, rows] if rows else None


def restore_emitted(
    unit: MatchUnit, shown: Mapping[str, FoundMatch], row: Sequence[Any], frontier_ns: int
) -> None:
    """`shown`: what readers have of it now, by id."""
    id_, revision, live, final, decided_ns = row
    if decided_ns >= frontier_ns:  # else it was decided since it was written
        found = shown.get(id_)
        if found is None:  # retracted: only its number counts
            found = FoundMatch(Match(0, ((unit.anchor,),)), decided_ns)
        unit.emitted[id_] = CurrentResult(found, revision, live=live, final=final)


def _waiting_row(unit: MatchUnit, frontier_ns: int) -> list[Any]:
    """All of a unit that waits to be corrected: what is current in it cannot be found again."""
    found = [[id_, _match_row(f)] for id_, f in unit.found.items() if f.decided_ns >= frontier_ns]
    emitted = [
        [id_, old.revision, old.live, old.final, _match_row(old.content)]
        for id_, old in unit.emitted.items()
        if old.content.decided_ns >= frontier_ns
    ]
    waits = None if unit.waits is None else sorted(map(list, unit.waits))
    return [unit.hi_ns, waits, found, emitted]


def restore_waiting(unit: MatchUnit, row: Any, entries: Mapping[Identity, Entry]) -> Any:
    """Put back what was written of the unit; the slots that it waits for."""
    unit.hi_ns, waits, found, emitted = row
    unit.found = {id_: _match_of(each, entries) for id_, each in found}
    for id_, revision, live, final, each in emitted:
        match = _match_of(each, entries)
        unit.emitted[id_] = CurrentResult(match, revision, live=live, final=final)
    return waits


def _match_row(found: FoundMatch) -> list[Any]:
    """A match by coordinates."""
    match = found.match
    bound = [[list(entry.identity) for entry in entries] for entries in match.bound]
    return [found.decided_ns, found.confidence, match.alternative, bound]


def _match_of(row: Any, entries: Mapping[Identity, Entry]) -> FoundMatch:
    decided_ns, confidence, alternative, bound = row
    parts = tuple(tuple(entries[tuple(identity)] for identity in part) for part in bound)
    return FoundMatch(Match(alternative, parts), decided_ns, confidence)
