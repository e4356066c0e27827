"""What the state table has of a run: revisions of what is not decided, by unit.

It writes all units, or those that changed since the last time; a checkpoint looks at those runs
only of which one has (`Moved`). A unit that waits to be looked at
(EMIT SLACK) has also what was found: it is not what would be found now. What has been decided since
it was written stays until the unit changes, or is forgotten.

Proved by: tests/topology/pattern/test_engine_laws.py, tests/topology/pattern/test_state_stays.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from topology.model.result import result_id
from topology.pattern.match.anchors import spelled_key
from topology.pattern.match.skip import BEFORE_ALL, Barrier
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.gathering import Gathered
from topology.pattern.run.ledger import Now, Unit
from topology.pattern.run.unit_state import emitted_rows, waiting_state
from topology.pattern.store.entry import Entry, Key

KNOWN_BY: Final = 16
"""Digits of a query's fingerprint that its state is known by."""


class Written(Protocol):
    """What the state table has a part of: a run."""

    def state(self, now: Now, *, everything: bool) -> dict[str, Any]:
        """What to write of it."""
        ...


class Moved:
    """The runs of an engine with something that is not as it was written, by their states."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: dict[RunState, Written] = {}

    def take(self) -> list[Written]:
        runs, self.runs = self.runs, {}
        return list(runs.values())


class RunState:
    """`run`: whose it is, to be noted in `moved`. `written`: rows as the table has them, by their
    keys."""

    __slots__ = (
        "_barrier",
        "_barrier_key",
        "_closed",
        "_known_by",
        "_moved",
        "_run",
        "_touched",
        "written",
    )

    def __init__(
        self, query: Compiled, partition: Sequence[Any], run: Written, moved: Moved
    ) -> None:
        self._run = run
        self._moved = moved
        self._known_by = f"{query.form.fingerprint[:KNOWN_BY]}/{query.name}"
        self._barrier_key = f"barrier/{self._known_by}/{result_id(spelled_key(partition))}"
        self._touched: dict[Key, Entry] = {}
        self._closed: dict[str, None] = {}
        self._barrier = BEFORE_ALL
        self.written: dict[str, Any] = {}

    def key_of(self, anchor: Entry) -> str:
        event = anchor.event
        return f"unit/{self._known_by}/{event.epoch}/{event.seq}/{event.source}"

    def touch(self, anchor: Entry) -> None:
        """Something of the unit is not as it was written."""
        if not self._touched:
            self._moved.runs[self] = self._run
        self._touched[anchor.key] = anchor

    def forget(self, anchor: Entry) -> None:
        """The unit is no more."""
        self._touched.pop(anchor.key, None)
        if not self.written:
            return
        name = self.key_of(anchor)
        if self.written.pop(name, None) is not None:
            self._closed[name] = None

    def take_closed(self) -> dict[str, None]:
        """The keys of what was forgotten since it was asked last."""
        if not self._closed:
            return self._closed
        closed, self._closed = self._closed, {}
        return closed

    def close(self) -> dict[str, None]:
        """The keys of all that is forgotten with the run."""
        self._moved.runs.pop(self, None)
        if self._barrier != BEFORE_ALL:
            self._closed[self._barrier_key] = None
        return self._closed | dict.fromkeys(self.written)

    def rows(
        self,
        units: Mapping[Key, Unit],
        gathered: Gathered,
        barrier: Barrier,
        floor_ns: int,
        *,
        everything: bool,
    ) -> dict[str, Any]:
        """What to write; None where a row is no more."""
        states: dict[str, Any] = {}
        for key, anchor in sorted(self._touched.items()):
            state = _row(units.get(key), key, gathered, floor_ns)
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

    def take_barrier(self, state: dict[str, Any]) -> Barrier | None:
        """Out of a state that is restored."""
        row = state.pop(self._barrier_key, None)
        if row is None:
            return None
        *key, includes = row
        barrier = Barrier(tuple(key), includes)
        self._barrier = barrier.key
        return barrier

    def take_row(self, anchor: Entry, state: dict[str, Any]) -> tuple[int | None, Any]:
        """The same: until when the unit waits to be looked at, and what there is of it."""
        name = self.key_of(anchor)
        if name in state:
            self.written[name] = state[name]
        due_ns, rows = state.pop(name, (None, ()))
        return due_ns, rows


def _row(unit: Unit | None, key: Key, gathered: Gathered, floor_ns: int) -> Any:
    if key in gathered.anchors:
        return [gathered.due_ns, None if unit is None else waiting_state(unit, floor_ns)]
    rows = [] if unit is None else emitted_rows(unit, floor_ns)
    return [None, rows] if rows else None
