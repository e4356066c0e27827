"""The rows of units in a state: what a checkpoint writes of them, until they are forgotten.

The state has a row for each unit with results that are not decided: what is current can be found
again from the events it rests on, so only what was emitted is written. Not so for a unit that is
gathered (EMIT SLACK): the events are there already, and it has not been evaluated since. A row
whose results have been decided since stays until the unit changes, or is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topology.model.result import result_id
from topology.pattern.match.anchors import spelled_key
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.match import Match
from topology.pattern.match.skip import BEFORE_ALL, Barrier
from topology.pattern.run.query import RunContext
from topology.pattern.run.unit import KNOWN_BY, FoundMatch, Gathered, MatchUnit, UnitOwner
from topology.pattern.store.entry import Entry, Identity, Key
from topology.query.results import CurrentResult


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
        context: RunContext,
    ) -> None:
        self._run = run
        self._changed = context.changed
        self._closed = context.closed
        self._known_by = f"{query.known_by[:KNOWN_BY]}{context.known_by}/{query.name}"
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
