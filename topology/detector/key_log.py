"""The log of one key, its checkpoints, and the outputs that may still change.

    confirmed | C   read, and kept for going back      | L   not read yet
    base state      entries, some with a state behind      entries

* `base` is the state at C. While nothing behind C has been read there is none: `live` is it.
* `insert`, `replace` and `remove` edit the log. What they concern is `dirty` if something behind it
  was read: the next `advance` goes back to the last checkpoint before it, reads all from there
  again, once for all that came together, and compares the results. It ends early where the state
  is the one that was kept before (`converged`): the results that follow then stay as they are.
* `advance(goal)` reads on to there. `confirm(C)` lets go what lies before.

Every output has the key of its item, its *cause*; of an id the output with the largest cause is
current. One that is confirmed stays as the id's *floor* while the id may still change.

Cost: an event in order, one step and, behind C, a checkpoint each `spacing` entries; one out of
order, besides, as many steps as were read behind it, at most. Memory: the entries behind C, their
checkpoints, and the ids that may change.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import cycle
from typing import Any, Final

from topology.detector.checkpoints import EACH, Base, Checkpoints, runs_of
from topology.detector.cursor import Counts, Cursor, DetectorOutput, by_cause
from topology.detector.detector import Behaviour, Stopped
from topology.detector.item import ABSENT, TIMER, UNREAD, Key, LogEntry, entry_key
from topology.detector.result_event import Edit
from topology.detector.values import same
from topology.model.operator import NEVER
from topology.model.result import ResultIds
from topology.query.results import CurrentResult

Current = CurrentResult[DetectorOutput | None]
"""None: it is not known what was retracted."""

STORED: Final = ""
COPY: Final = "duplicates"
CONFLICT: Final = "conflicts"

MAX_SPACING: Final = 4_096


class KeyLog:
    """`text` and `key`: of the log. `outs` are those behind C, by cause. `shown`: what was emitted
    of ids that may change (topology.query.results), `pending` those of which something may have
    changed since. `let_go`: events that were confirmed; who asks, empties it. `edits`: None, or
    what is emitted and no longer emitted, for others to read."""

    __slots__ = (
        "_behaviour",
        "_counts",
        "_ids",
        "_of_id",
        "_since",
        "base",
        "begun_with",
        "converges",
        "dirty",
        "edits",
        "entries",
        "floor",
        "is_changed",
        "is_thin",
        "let_go",
        "live",
        "outs",
        "pending",
        "read",
        "shown",
        "spacing",
        "text",
    )

    def __init__(self, text: str, behaviour: Behaviour, ids: ResultIds, counts: Counts) -> None:
        self.text = text
        self._behaviour = behaviour
        self._ids = ids
        self._counts = counts
        self.entries: list[LogEntry] = []
        self.read = 0
        self.live = Cursor(behaviour, ids, counts, behaviour.initial())
        self.base = Base()
        self.dirty: list[Key] = []
        self.outs: list[DetectorOutput] = []
        self._of_id: dict[str, list[DetectorOutput]] = {}
        self.floor: dict[str, DetectorOutput] = {}
        self.shown: dict[str, Current] = {}
        self.pending: dict[str, None] = {}
        self.let_go: list[LogEntry] = []
        self.spacing = 1
        self.converges = True
        self.edits: list[Edit] | None = None
        self.is_changed = False
        """Something was taken out of what was read, or replaced there."""
        self._since = 0
        self.is_thin = False
        """What was read may lack checkpoints."""
        self.begun_with = EACH
        """Those of before a restart, until they are there again."""

    def begin_at(self, state: Any, high_ns: int, last: Key, ticks: int) -> None:
        """A log that was kept: nothing behind C has been read."""
        self.live = Cursor(self._behaviour, self._ids, self._counts, state, high_ns, last, ticks)

    def note_stop(self, why: str) -> None:
        """It was kept, and cannot go on."""
        self._counts.stopped += 1
        self._counts.why = why

    # -- the log -----------------------------------------------------------------------------------

    def insert(self, entry: LogEntry, *, replaces: bool = False) -> str:
        """What becomes of it: STORED, or it is there already."""
        key, entries = entry.key, self.entries
        if not entries or entries[-1].key < key:
            at = len(entries)
        else:
            at = bisect_left(entries, key, key=entry_key)
            if entries[at].key == key:
                return self._again(at, entry, replaces=replaces)
        entries.insert(at, entry)
        if key <= self.live.last:
            self.read += 1
            self.dirty.append(key)
        return STORED

    def _again(self, at: int, entry: LogEntry, *, replaces: bool) -> str:
        before = self.entries[at].seen
        seen = entry.seen
        if (
            same(before.payload, seen.payload)
            and before.type == seen.type
            and before.error_ns == seen.error_ns
            and before.unsure == seen.unsure
        ):
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
        """None if it is not there."""
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
        """When there is something to read."""
        due_ns = self.live.due_ns
        if self.read < len(self.entries):
            due_ns = min(due_ns, self.entries[self.read].key[0])
        return due_ns

    @property
    def open_ns(self) -> int:
        """Something is to be confirmed when C has passed it."""
        open_ns: int = NEVER
        if self.read:
            open_ns = self.entries[0].key[0]
        if self.outs:
            open_ns = min(open_ns, self.outs[0].cause[0])
        return min(open_ns, self.base.due_ns) if self.base.state is not ABSENT else open_ns

    # -- reading -----------------------------------------------------------------------------------

    def advance(self, goal: Key, confirmed: Key) -> dict[str, None]:
        """Read all before the goal; ids of which something may have changed. No way back is kept
        for what lies before `confirmed`."""
        touched: dict[str, None] = {}
        if self.dirty:
            self.replay(touched)
        self._read_on(goal, confirmed, self.spacing, touched)
        return touched

    def _read_on(self, goal: Key, confirmed: Key, spacing: int, touched: dict[str, None]) -> None:
        live = self.live
        entries = self.entries
        outs: list[DetectorOutput] = []
        begun, last = live.steps, len(entries)
        while self.read < last and entries[self.read].key < goal:
            entry = entries[self.read]
            is_open = entry.key >= confirmed
            if is_open and (self.base.state is ABSENT or live.last < confirmed):
                live.fire(confirmed, outs)
                self._keep_base()
            live.fire(entry.key, outs)
            live.take(entry, outs)
            entry.high_ns = live.high_ns
            self.read += 1
            if is_open:
                self._since += 1
                if self._since >= spacing:
                    self._keep(entry, live)
                else:
                    self.is_thin = True
        if live.due_ns < goal[0] or (live.due_ns == goal[0] and live.due_ns < NEVER):
            if self.base.state is ABSENT or live.last < confirmed:
                live.fire(min(confirmed, goal), outs)
                if live.due_ns <= goal[0] and confirmed < goal:
                    self._keep_base()
            live.fire(goal, outs)
        self._counts.processed += live.steps - begun
        if outs:
            self._add(outs, touched)

    def _keep(self, entry: LogEntry, cursor: Cursor) -> None:
        self._since = 0
        entry.after = self._frozen(cursor)
        entry.high_ns = cursor.high_ns
        self._counts.checkpoints += 1

    def _frozen(self, cursor: Cursor) -> Any:
        """A copy of its state to go back to; where there can be none, the key is stopped there."""
        frozen = self._behaviour.freeze(cursor.state)
        if isinstance(frozen, Stopped) and not isinstance(cursor.state, Stopped):
            cursor.stop(frozen.why)
        return frozen

    def _keep_base(self) -> None:
        self._since = 0
        self._set_base(self.live)
        self._counts.checkpoints += 1

    def _set_base(self, cursor: Cursor) -> None:
        base = self.base
        base.state = self._frozen(cursor)
        base.high_ns, base.last = cursor.high_ns, cursor.last
        base.ticks, base.due_ns = cursor.ticks, cursor.due_ns

    def _cursor_at(self, at: int) -> Cursor:
        """Behind that entry, which has a checkpoint; -1: at C. For a replay."""
        self._counts.rollbacks += 1
        if at >= 0:
            return self._behind(self.entries[at])
        base = self.base
        return self._cursor(base.state, base.high_ns, base.last, base.ticks)

    def _behind(self, entry: LogEntry) -> Cursor:
        return self._cursor(entry.after, entry.high_ns, entry.key, 0)

    def _cursor(self, frozen: Any, high_ns: int, last: Key, ticks: int) -> Cursor:
        behaviour, ids, counts = self._behaviour, self._ids, self._counts
        state = behaviour.thaw(frozen)
        return Cursor(behaviour, ids, counts, state, high_ns, last, ticks, is_first=False)

    def _checkpoint_before(self, at: int) -> int:
        at -= 1
        while at >= 0 and self.entries[at].after is ABSENT:
            at -= 1
        return at

    def replay(self, touched: dict[str, None]) -> None:
        """Once for all that is dirty."""
        dirty = sorted(self.dirty)
        self.dirty = []
        self.is_changed = False
        entries, read_until = self.entries, self.live.last
        done = 0
        while done < len(dirty):
            begin = bisect_left(entries, dirty[done], key=entry_key)
            at = self._checkpoint_before(begin)
            start = entries[at].key if at >= 0 else self.base.last
            cursor = self._cursor_at(at)
            outs: list[DetectorOutput] = []
            converged: Key | None = None
            since = new = 0
            for number in range(at + 1, self.read):
                entry = entries[number]
                new += entry.high_ns == UNREAD
                cursor.fire(entry.key, outs)
                cursor.take(entry, outs)
                while done < len(dirty) and dirty[done] <= entry.key:
                    done += 1
                since += 1
                if entry.after is not ABSENT:
                    if number >= begin and self._is_as_before(entry, cursor):
                        converged = entry.key
                        break
                    self._keep(entry, cursor)
                    since = 0
                elif since >= self.spacing:
                    self._keep(entry, cursor)
                    since = 0
                else:
                    self.is_thin = True
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
            self.replace(start, converged, outs, touched)

    def _is_as_before(self, entry: LogEntry, cursor: Cursor) -> bool:
        if not self.converges:
            return False
        if entry.high_ns != cursor.high_ns or not same(entry.after, cursor.state):
            return False
        self._counts.converged += 1
        return True

    def thin_out(self) -> None:
        """Let every second checkpoint go."""
        self.is_thin = True
        is_kept = False
        for entry in self.entries[: self.read]:
            if entry.after is not ABSENT:
                if not is_kept:
                    entry.after = ABSENT
                is_kept = not is_kept

    def checkpoints(self) -> Checkpoints:
        if not self.is_thin:
            return EACH
        found = Checkpoints(runs_of(self.entries[: self.read]), self._since)
        self.is_thin = len(found.runs) > 1 or found.since > 0
        return found if self.is_thin else EACH

    def resume(self, goal: Key, confirmed: Key) -> None:
        """Read again what had been read, with the checkpoints that there were."""
        begun, at, touched = self.begun_with, 0, dict[str, None]()
        for run, spacing in zip(begun.runs, cycle((1, NEVER)), strict=False):
            at += run
            until = min(self.entries[at].key, goal) if at < len(self.entries) else goal
            if run:
                self._read_on(until, confirmed, spacing, touched)
        self._read_on(goal, confirmed, 1, touched)
        if begun.runs:
            self.is_thin, self._since, self.begun_with = True, begun.since, EACH

    # -- outputs -----------------------------------------------------------------------------------

    def _add(self, outs: list[DetectorOutput], touched: dict[str, None]) -> None:
        self.outs += outs
        for output in outs:
            self._of_id.setdefault(output.id, []).append(output)
            touched[output.id] = None
        if self.edits is not None:
            self.edits += [Edit(self.text, is_emitted=True, output=each) for each in outs]

    def replace(
        self, start: Key, end: Key | None, outs: list[DetectorOutput], touched: dict[str, None]
    ) -> None:
        """Those with a cause in (start, end], or behind start, by these."""
        first = bisect_left(self.outs, (start, NEVER), key=by_cause)
        last = len(self.outs)
        if end is not None:
            last = bisect_left(self.outs, (end, NEVER), key=by_cause)
        for output in self.outs[first:last]:
            self._of_id[output.id].remove(output)
            touched[output.id] = None
        if self.edits is not None:
            removed = self.outs[first:last]
            self.edits += [Edit(self.text, is_emitted=False, output=each) for each in removed]
            self.edits += [Edit(self.text, is_emitted=True, output=each) for each in outs]
        self.outs[first:last] = outs
        for output in outs:
            insort(self._of_id.setdefault(output.id, []), output, key=by_cause)
            touched[output.id] = None
        for id_ in touched:
            if id_ in self._of_id and not self._of_id[id_]:
                del self._of_id[id_]

    def current(self, id_: str) -> DetectorOutput | None:
        """Its current output."""
        found = self._of_id.get(id_)
        return found[-1] if found else self.floor.get(id_)

    def end(self) -> dict[str, None]:
        """Nothing comes any more, all has been read: the timer that is armed fires, once."""
        touched: dict[str, None] = {}
        outs: list[DetectorOutput] = []
        if self.base.state is ABSENT:
            self._keep_base()
        self.live.fire_once(outs)
        self.live.finish(outs)
        self._add(outs, touched)
        return touched

    # -- confirming --------------------------------------------------------------------------------

    def confirm(self, until: Key) -> dict[str, DetectorOutput]:
        """C is there now, all before it has been read: the last output of each id that it has
        passed, by id."""
        number = self.read
        if number and self.entries[number - 1].key >= until:
            number = bisect_left(self.entries, until, 0, number, key=entry_key)
        if self.base.state is not ABSENT:
            if number == self.read and self.live.last < until:
                self.base = Base()
            elif number or self.base.due_ns <= until[0]:
                self._move_base(number, until)
        if number:
            self.let_go += self.entries[:number]
            del self.entries[:number]
        self.read -= number
        passed: dict[str, DetectorOutput] = {}
        if self.outs and self.outs[0].cause < until:
            count = bisect_left(self.outs, (until, -1), key=by_cause)
            for output in self.outs[:count]:
                self._of_id[output.id].remove(output)
                if not self._of_id[output.id]:
                    del self._of_id[output.id]
                self.floor[output.id] = output
                passed[output.id] = output
            del self.outs[:count]
        if isinstance(self.base.state, Stopped) and not isinstance(self.live.state, Stopped):
            self.dirty.append(self.base.last)  # it was stopped just now: so is what lies behind
            self.replay(self.pending)
        return passed

    def _move_base(self, number: int, until: Key) -> None:
        """From the last checkpoint before; what is read again has been emitted."""
        base = self.base
        if base.due_ns > until[0] and (not number or self.entries[number - 1].key <= base.last):
            return
        at = self._checkpoint_before(number)
        if at == number - 1 and at >= 0 and self._behaviour.is_cheap:
            entry = self.entries[at]
            self.base.state, self.base.high_ns = entry.after, entry.high_ns
            self.base.last, self.base.ticks, self.base.due_ns = entry.key, 0, NEVER
            due_ns = self._behind(entry).due_ns
            if due_ns > until[0]:
                self.base.due_ns = due_ns
                return
        cursor = self._cursor_at(at)
        outs: list[DetectorOutput] = []
        for entry in self.entries[at + 1 : number]:
            if entry.key > cursor.last:  # the base may lie behind it already
                cursor.fire(entry.key, outs)
                cursor.take(entry, outs)
        cursor.fire(until, outs)
        self._counts.replayed += cursor.steps
        self._set_base(cursor)

    def is_open(self, id_: str) -> bool:
        """A current output of it may yet be taken back."""
        return id_ in self._of_id

    def forget(self, id_: str) -> None:
        """It does not change any more."""
        self.floor.pop(id_, None)
        self.shown.pop(id_, None)

    @property
    def is_idle(self) -> bool:
        """Nothing is kept but, perhaps, a state."""
        return not (self.entries or self.outs or self.floor or self.shown or self.dirty)
