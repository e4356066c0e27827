"""Keeps the log of one key, its savepoints, and the outputs that may still change.

    confirmed | C   read, and kept for rollbacks               | L   not read yet
    base state      entries, some with a state after them          entries

C is the position before which everything is confirmed. L is the position before which everything
has been read.

* `base` is the state at C, and `live` the state at L. While nothing after C has been read, the two
  are equal and there is no `base`.
* `insert` and `remove` edit the log. An edit before L is `dirty`. The next `advance` then goes back
  to the last savepoint before the edit. It reads on from there, once for all dirty edits, and
  compares the results. It ends early where the state equals the one saved before (`converged`). The
  results after that point remain valid.
* `advance(goal)` reads all items before the goal. `confirm(C)` releases the items before C.

Each output has the key of its item, its *cause*. The output with the largest cause is the current
one of its id. A confirmed output stays as the *floor* of its id while the id may still change.

The stored state is the state at C and the results that may change. It does not contain events. The
caller buffers them, and inserts them again after a restart. Those before L are then read again,
which gives the same outputs. If some of them have no savepoint, `_savepoint_runs` stores which. So
a late event is replayed from the same savepoint as without the restart.

Cost: an event in order takes one step and, after C, a savepoint every `spacing` entries. An event
out of order also takes at most one step for each entry after the last savepoint before it. Memory:
the entries after C, their savepoints, and the ids that may change.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from operator import attrgetter
from typing import Any, Final, NamedTuple

from topology.answer.query.results import CurrentResult
from topology.base.operator import NEVER, Plain
from topology.base.result import ResultIds
from topology.queries.detector.cursor import OUTPUT, Counts, Cursor, DetectorOutput, cause_key
from topology.queries.detector.detector import STOPPED, Behaviour, Stopped
from topology.queries.detector.item import ABSENT, KEY, TIMER, UNREAD, Key, LogEntry, entry_key
from topology.queries.detector.result_event import Edit
from topology.queries.detector.values import NotAValue, are_same
from topology.state.saved import BIG, FLAG, INT, PLAIN, TEXT, ValueKind, list_of, optional, tuple_of

Current = CurrentResult[DetectorOutput | None]
"""The current result of an id; its content is None if the retracted output is unknown."""

STORED: Final = ""
COPY: Final = "duplicates"
CONFLICT: Final = "conflicts"

MAX_SPACING: Final = 4_096

_BESIDES: Final = attrgetter("type", "error_ns", "unsure")
"""A function that returns an event's fields, besides key and payload, that all duplicates share."""

_SHOWN: Final = tuple_of(TEXT, INT, FLAG, FLAG, optional(KEY))
_LOG: Final = tuple_of(PLAIN, BIG, KEY, INT, list_of(_SHOWN), list_of(OUTPUT), list_of(INT))


class Savepoint(NamedTuple):
    """A copy of a state, with the other values that a cursor needs to continue from it."""

    state: Any
    high_ns: int
    last: Key
    ticks: int = 0
    due_ns: int = NEVER


@dataclass(slots=True, eq=False)
class KeyLog:
    """The log of one key.

    Attributes:
        text: The text of the key.
        spacing: The number of entries from one savepoint to the next.
        converges: Whether a replay ends early where the state equals the one saved before.
        edits: The changes of outputs for other queries to read, or None if none reads them.
        outs: The outputs after C, by cause.
        shown: The emitted results of ids that may change (topology.answer.query.results).
        pending: The ids whose result may have changed since the last emission.
        let_go: The confirmed events. The caller that takes them empties the list.
        is_changed: Whether an event was removed or replaced after it had been read.
        is_thin: Whether entries that were read may lack savepoints.
    """

    text: str
    _behaviour: Behaviour
    _ids: ResultIds
    _counts: Counts
    spacing: int = 1
    converges: bool = True
    edits: list[Edit] | None = None
    live: Cursor = field(init=False)
    base: Savepoint | None = None
    entries: list[LogEntry] = field(default_factory=list)
    read: int = 0
    dirty: list[Key] = field(default_factory=list)
    outs: list[DetectorOutput] = field(default_factory=list)
    floor: dict[str, DetectorOutput] = field(default_factory=dict)
    shown: dict[str, Current] = field(default_factory=dict)
    pending: dict[str, None] = field(default_factory=dict)
    let_go: list[LogEntry] = field(default_factory=list)
    is_changed: bool = False
    is_thin: bool = False
    _of_id: dict[str, list[DetectorOutput]] = field(default_factory=dict)
    _since: int = 0
    """The number of entries read after the last savepoint."""
    _begun_with: list[int] = field(default_factory=list)
    """The last result of `_savepoint_runs` before a restart, until `resume` has used it."""

    def __post_init__(self) -> None:
        self.live = Cursor(self._behaviour, self._ids, self._counts, self._behaviour.initial())

    # -- the log -----------------------------------------------------------------------------------

    def insert(self, entry: LogEntry, *, replaces: bool = False) -> str:
        """Insert an event, and return STORED, COPY or CONFLICT.

        With `replaces`, a different event with the same key is replaced; otherwise it is a
        CONFLICT.
        """
        key, entries = entry.key, self.entries
        if not entries or entries[-1].key < key:
            at = len(entries)
        else:
            at = bisect_left(entries, key, key=entry_key)
            if entries[at].key == key:
                return self._handle_same_key(at, entry, replaces=replaces)
        entries.insert(at, entry)
        if key <= self.live.last:
            self.read += 1
            self.dirty.append(key)
        return STORED

    def _handle_same_key(self, at: int, entry: LogEntry, *, replaces: bool) -> str:
        before = self.entries[at].seen
        seen = entry.seen
        if _BESIDES(before) == _BESIDES(seen) and are_same(before.payload, seen.payload):
            return COPY
        if not replaces:
            return CONFLICT
        entry.high_ns = self.entries[at].high_ns
        self.entries[at] = entry
        if at < self.read:
            self.dirty.append(entry.key)
            self.is_changed = True
        return STORED

    def remove(self, key: Key) -> LogEntry | None:
        """Remove an event and return it; return None if it is not in the log."""
        at = bisect_left(self.entries, key, key=entry_key)
        if at == len(self.entries) or self.entries[at].key != key:
            return None
        entry = self.entries.pop(at)
        if at < self.read:
            self.read -= 1
            self.dirty.append(key)
            self.is_changed = True
        return entry

    @property
    def next_ns(self) -> int:
        """The time of the next item to read, or NEVER."""
        due_ns = self.live.due_ns
        if self.read < len(self.entries):
            due_ns = min(due_ns, self.entries[self.read].key[0])
        return due_ns

    @property
    def open_ns(self) -> int:
        """The earliest time at which `confirm` will have something to do, or NEVER."""
        open_ns: int = NEVER
        if self.read:
            open_ns = self.entries[0].key[0]
        if self.outs:
            open_ns = min(open_ns, self.outs[0].cause[0])
        return open_ns if self.base is None else min(open_ns, self.base.due_ns)

    # -- reading -----------------------------------------------------------------------------------

    def advance(self, goal: Key, confirmed: Key) -> None:
        """Read all items before the goal; those before `confirmed` get no savepoints."""
        if self.dirty:
            self.replay()
        self._read_until(goal, confirmed, self.spacing)

    def _read_until(self, goal: Key, confirmed: Key, spacing: int) -> None:
        live = self.live
        entries = self.entries
        outs: list[DetectorOutput] = []
        begun, last = live.steps, len(entries)
        while self.read < last and entries[self.read].key < goal:
            entry = entries[self.read]
            is_open = entry.key >= confirmed
            if is_open and (self.base is None or live.last < confirmed):
                live.fire(confirmed, outs)
                self._save_base()
            live.take(entry, outs)
            entry.high_ns = live.high_ns
            self.read += 1
            if is_open:
                self._since = self._add_savepoint_if_due(entry, live, self._since, spacing)
        if live.due_ns < goal[0] or (live.due_ns == goal[0] and live.due_ns < NEVER):
            if self.base is None or live.last < confirmed:
                live.fire(min(confirmed, goal), outs)
                if live.due_ns <= goal[0] and confirmed < goal:
                    self._save_base()
            live.fire(goal, outs)
        self._counts.processed += live.steps - begun
        if outs:
            self.replace(self.live.last, None, outs)

    def _add_savepoint_if_due(
        self, entry: LogEntry, cursor: Cursor, since: int, spacing: int
    ) -> int:
        """Add a savepoint after the entry if one is due, and return the new value of `since`.

        `since` is the number of entries after the last savepoint. A savepoint is due if the entry
        had one before, or if the entry is the `spacing`-th after the last savepoint.
        """
        if entry.after is ABSENT and since + 1 < spacing:
            self.is_thin = True
            return since + 1
        self._since = 0
        entry.after = self._freeze(cursor)
        self._counts.checkpoints += 1
        return 0

    def _freeze(self, cursor: Cursor) -> Any:
        """Return a copy of the cursor's state for rollbacks; stop the key if copying fails."""
        frozen = self._behaviour.copy_of(cursor.state)
        if isinstance(frozen, Stopped) and not isinstance(cursor.state, Stopped):
            cursor.stop(frozen.why)
        return frozen

    def _save_base(self) -> None:
        self._since = 0
        self._set_base(self.live)
        self._counts.checkpoints += 1

    def _set_base(self, cursor: Cursor) -> None:
        frozen = self._freeze(cursor)
        self.base = Savepoint(frozen, cursor.high_ns, cursor.last, cursor.ticks, cursor.due_ns)

    def _find_savepoint(self, number: int) -> tuple[int, Cursor]:
        """Return the last entry before `number` that has a savepoint, and a cursor there.

        The entry is given by its index, or by -1 if only the state at C remains.
        """
        at = number - 1
        while at >= 0 and self.entries[at].after is ABSENT:
            at -= 1
        begin = self.base
        if at >= 0:
            entry = self.entries[at]
            begin = Savepoint(entry.after, entry.high_ns, entry.key)
        assert begin is not None
        behaviour, ids, counts = self._behaviour, self._ids, self._counts
        state = behaviour.copy_of(begin.state)
        return at, Cursor(
            behaviour, ids, counts, state, begin.high_ns, begin.last, begin.ticks, is_first=False
        )

    def replay(self) -> None:
        """Reread the entries after the dirty edits, each only once, and replace their outputs."""
        dirty = sorted(self.dirty)
        self.dirty = []
        self.is_changed = False
        entries, read_until = self.entries, self.live.last
        done = 0
        while done < len(dirty):
            begin = bisect_left(entries, dirty[done], key=entry_key)
            at, cursor = self._find_savepoint(begin)
            start = cursor.last
            self._counts.rollbacks += 1
            outs: list[DetectorOutput] = []
            converged: Key | None = None
            since = new = 0
            for number in range(at + 1, self.read):
                entry = entries[number]
                new += entry.high_ns == UNREAD
                cursor.take(entry, outs)
                while done < len(dirty) and dirty[done] <= entry.key:
                    done += 1
                if number >= begin and self._has_converged(entry, cursor):
                    converged = entry.key
                    break
                since = self._add_savepoint_if_due(entry, cursor, since, self.spacing)
                entry.high_ns = cursor.high_ns
            if converged is None:
                if read_until[1] == TIMER and read_until[0] < NEVER:
                    cursor.fire((*read_until[:4], 1), outs)
                done = len(dirty)
                self._since = since
                cursor.is_first = True
                self.live = cursor
            self._counts.processed += new
            self._counts.replayed += cursor.steps - new
            self.replace(start, converged, outs)

    def _has_converged(self, entry: LogEntry, cursor: Cursor) -> bool:
        """Return whether the state equals the one saved after this entry; False without one."""
        is_alike = (
            self.converges
            and entry.high_ns == cursor.high_ns
            and are_same(entry.after, cursor.state)
        )
        self._counts.converged += is_alike
        return is_alike

    def thin_out(self) -> None:
        """Drop every second savepoint."""
        self.is_thin = True
        is_kept = False
        for entry in self.entries[: self.read]:
            if entry.after is not ABSENT:
                if not is_kept:
                    entry.after = ABSENT
                is_kept = not is_kept

    def _savepoint_runs(self) -> list[int]:
        """Return the lengths of the alternating runs of entries with and without a savepoint.

        Only entries that have been read count. The first run is one with savepoints, and may be
        empty. The last number is `_since`. The list is empty if each entry has a savepoint.
        """
        if not self.is_thin:
            return []
        runs, is_bare = [0], False
        for entry in self.entries[: self.read]:
            if entry.high_ns == UNREAD:
                continue  # The event was inserted before L and has not been read.
            if (entry.after is ABSENT) != is_bare:
                is_bare = not is_bare
                runs.append(0)
            runs[-1] += 1
        self.is_thin = len(runs) > 1 or self._since > 0
        return [*runs, self._since] if self.is_thin else []

    def resume(self, goal: Key, confirmed: Key) -> None:
        """Reread the entries before `goal` after a restart.

        The same entries get savepoints as before the restart, and nothing is emitted.
        """
        begun, at = self._begun_with, 0
        for run, spacing in zip(begun[:-1], cycle((1, NEVER)), strict=False):
            at += run
            until = min(self.entries[at].key, goal) if at < len(self.entries) else goal
            if run:
                self._read_until(until, confirmed, spacing)
        self._read_until(goal, confirmed, 1)
        self.pending.clear()
        if begun:
            self.is_thin, self._since, self._begun_with = True, begun[-1], []

    # -- outputs -----------------------------------------------------------------------------------

    def _note_edits(self, outs: list[DetectorOutput], *, is_emitted: bool) -> None:
        if self.edits is not None:
            self.edits += [Edit(self.text, is_emitted, each, each.cause[0]) for each in outs]

    def replace(self, start: Key, end: Key | None, outs: list[DetectorOutput]) -> None:
        """Replace the outputs with a cause in (start, end] by `outs`.

        If the end is None, all outputs after `start` are replaced.
        """
        first = last = len(self.outs)
        if first and self.outs[-1].cause > start:
            first = bisect_left(self.outs, (start, NEVER), key=cause_key)
        if end is not None:
            last = bisect_left(self.outs, (end, NEVER), key=cause_key)
        removed = self.outs[first:last]
        self._drop_outputs(removed)
        self._note_edits(removed, is_emitted=False)
        self._note_edits(outs, is_emitted=True)
        self.outs[first:last] = outs
        for output in outs:
            insort(self._of_id.setdefault(output.id, []), output, key=cause_key)
            self.pending[output.id] = None

    def _drop_outputs(self, outs: list[DetectorOutput]) -> None:
        for output in outs:
            of_id = self._of_id[output.id]
            of_id.remove(output)
            if not of_id:
                del self._of_id[output.id]
            self.pending[output.id] = None

    def current(self, id_: str) -> DetectorOutput | None:
        found = self._of_id.get(id_)
        return found[-1] if found else self.floor.get(id_)

    def end(self) -> None:
        """End the input after all events have been read: fire the next timer once, then finish."""
        outs: list[DetectorOutput] = []
        if self.base is None:
            self._save_base()
        self.live.fire_once(outs)
        self.live.finish(outs)
        self.replace(self.live.last, None, outs)

    # -- confirming --------------------------------------------------------------------------------

    def confirm(self, until: Key) -> None:
        """Move C to `until`, a position before which all items have been read."""
        number = self.read
        if number and self.entries[number - 1].key >= until:
            number = bisect_left(self.entries, until, 0, number, key=entry_key)
        if self.base is not None:
            if number == self.read and self.live.last < until:
                self.base = None
            elif number or self.base.due_ns <= until[0]:
                self._move_base(self.base, number, until)
        if number:
            self.let_go += self.entries[:number]
            del self.entries[:number]
        self.read -= number
        if self.outs and self.outs[0].cause < until:
            count = bisect_left(self.outs, (until, -1), key=cause_key)
            passed = self.outs[:count]
            self._drop_outputs(passed)
            self.floor |= {output.id: output for output in passed}
            del self.outs[:count]
        stopped = self.base is not None and isinstance(self.base.state, Stopped)
        if self.base is not None and stopped and not isinstance(self.live.state, Stopped):
            # The base has just been stopped, so the later states must stop too.
            self.dirty.append(self.base.last)
            self.replay()

    def _move_base(self, base: Savepoint, number: int, until: Key) -> None:
        """Move `base` to C by reading on from the last savepoint before C.

        The outputs of this reading are dropped, because the first reading has emitted them already.
        """
        if base.due_ns > until[0] and (not number or self.entries[number - 1].key <= base.last):
            return
        at, cursor = self._find_savepoint(number)
        is_there = at == number - 1 and at >= 0 and cursor.due_ns > until[0]
        if not (is_there and self._behaviour.is_cheap):
            self._counts.rollbacks += 1
        outs: list[DetectorOutput] = []
        for entry in self.entries[at + 1 : number]:
            if entry.key > cursor.last:  # The base may already be after this entry.
                cursor.take(entry, outs)
        cursor.fire(until, outs)
        self._counts.replayed += cursor.steps
        self._set_base(cursor)

    def is_open(self, id_: str) -> bool:
        """Return whether the id has an output after C, which may still be retracted."""
        return id_ in self._of_id

    def forget(self, id_: str) -> None:
        """Forget an id whose result does not change any more."""
        self.floor.pop(id_, None)
        self.shown.pop(id_, None)

    @property
    def is_idle(self) -> bool:
        """Whether the log is empty, except perhaps for a state."""
        return not (self.entries or self.outs or self.floor or self.shown or self.dirty)

    # -- state -------------------------------------------------------------------------------------

    def keep(self) -> tuple[Any, ...]:
        """Return the values to store, as of C, in the order of `_LOG`."""
        at, behaviour = self.base or self.live, self._behaviour
        try:
            state = behaviour.pack(at.state)
        except NotAValue as wrong:
            state = behaviour.pack(Stopped(f"its state cannot be stored: {wrong}"))
        shown = [
            (id_, each.revision, each.live, each.final, cause_of_buried(each))
            for id_, each in self.shown.items()
        ]
        floor = [*self.floor.values()]
        return state, at.high_ns, at.last, at.ticks, shown, floor, self._savepoint_runs()

    def load(self, kept: tuple[Any, ...]) -> None:
        """Restore what `keep` returned; nothing after C counts as read."""
        packed, high_ns, last, ticks, shown, floor, self._begun_with = kept
        behaviour, ids, counts = self._behaviour, self._ids, self._counts
        state = behaviour.unpack(packed)
        self.live = Cursor(behaviour, ids, counts, state, high_ns, last, ticks)
        if isinstance(state, Stopped) and packed[0] != STOPPED:
            counts.note("stopped", state.why)
        for id_, revision, live, final, cause in shown:
            content = None if cause is None else _make_placeholder(id_, cause)
            self.shown[id_] = CurrentResult(content, revision, live=live, final=final)
        self.floor = {output.id: output for output in floor}


def cause_of_buried(shown: Current) -> Key | None:
    """Return the cause of a retracted result if only that item can emit it again, else None."""
    output = shown.content
    return None if shown.live or output is None or not output.is_own else output.cause


def _make_placeholder(id_: str, cause: Key) -> DetectorOutput:
    """Return a placeholder for a retracted output that only its item can emit again."""
    return DetectorOutput(id_, cause, 0, {}, 0, 0, [], last=True, unsure=False, is_own=True)


class SavedLog(ValueKind):
    """The stored form of a key's log, without its events, which are inserted after loading."""

    def __init__(self, make: Callable[[str], KeyLog]) -> None:
        super().__init__(f"log {_LOG.name}", is_plain=False)
        self._make = make

    def dump(self, value: KeyLog) -> Plain:
        return _LOG.dump(value.keep())

    def load(self, plain: Plain, owner: Any, field: str) -> KeyLog:
        log = self._make(field)
        log.load(_LOG.load(plain, owner, field))
        return log
