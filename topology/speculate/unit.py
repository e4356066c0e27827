"""SPECULATE: a detector reads ahead of what is certain; what was wrong is taken back.

Two positions in the order of items (`item`) say all:

* R, up to where is read, and what was found is told.
* C <= R, before which nothing comes any more: what was told of it stands for ever.

Who calls says how far each may go; neither goes back. Whatever is between them may be told too
early: an event that comes there takes its place, its key's detector goes back to a checkpoint
before it and reads on from there (`lane`), and only the difference is told.

After each `advance` what is told, with all corrections, is what the detector would have told of the
events that are here, in order, up to R. So how far R is ahead changes what is told early, and
nothing of what stands at last (laws in tests/topology/speculate/test_laws.py). At R = C this is
plain buffering: nothing is kept to go back to, and nothing is taken back.

Each key has a log, a state and timers of its own, so a late event has its own key read again,
alone.

A result is known by an id that depends on its item, or that the detector gave it, never on how
often anything was read. At most one record of an id comes of one `advance`: retracts first, then
in the order of their items. Revisions count from 0 without a hole, until an id is forgotten: when
what it said is final, or, of ids that a detector keeps open, when there are more than `MAX_IDS` of
its key.

The source is Speculative Event Processing (docs/operators/detector.md says what is different).

Bounds: `max_keys`; `max_kept`; how many events are held is the caller's to look at (`held`).

Proved by: tests/topology/speculate/test_unit.py, tests/topology/speculate/test_laws.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from topology.model.operator import Changes, Plain, State
from topology.model.result import RETRACT, ResultIds, framed
from topology.model.timers import Timers
from topology.query.results import NO_NEWS, CurrentResult
from topology.speculate import lane_state
from topology.speculate.cursor import Counts, ToldOutput
from topology.speculate.detector import Behaviour
from topology.speculate.item import BEHIND_ALL, FIRST, Key, LogEntry, behind
from topology.speculate.lane import MAX_SPACING, STORED, Lane
from topology.speculate.mend import mend
from topology.speculate.result_event import Edit, Telling, net
from topology.speculate.values import same

LATE: Final = "late"
REFUSED: Final = "refused"

MAX_KEPT: Final = 1_000_000
"""Values, of all states together that are kept for going back by copying, and 64 bytes each of long
texts in all that are kept; beyond, fewer are kept, and what comes late is read again from further
back."""
KEEPS_MORE: Final = 8
"""As many times below it, more are kept again."""

MAX_IDS: Final = 10_000
"""Ids of a key that may still be told anew, and whose revisions are known."""


class Record(NamedTuple):
    """What is told of a result. A retract carries what it takes back."""

    op: str
    revision: int
    final: bool
    key: str
    output: ToldOutput


class Unit:
    """`begun`: what results' ids begin with, framed. `finals`: what was told before it was final is
    told once more when it is. `spacing`: of checkpoints, in events; `converges`: a replay ends
    where the state is as before; `mends`: late events are taken in by the detector's `correct`,
    if it has one. None of these changes what is told."""

    def __init__(
        self,
        behaviour: Behaviour,
        begun: bytes,
        *,
        finals: bool = False,
        max_keys: int = 1_000_000,
        spacing: int = 1,
        converges: bool = True,
        mends: bool = True,
    ) -> None:
        self._behaviour = behaviour
        self._begun = begun
        self._finals = finals
        self._max_keys = max_keys
        self.spacing = spacing
        self.max_kept = MAX_KEPT
        self.mends = mends
        self._converges = converges
        self.lanes: dict[str, Lane] = {}
        self.confirmed: Key = FIRST
        self.reached: Key = FIRST
        self.counts = Counts()
        self.held = 0
        self.forgotten = 0
        self.fresh: list[Key] = []
        """Events that were put since the last `advance`, where it had read already."""
        self.gone: list[LogEntry] = []
        """Events that are held no longer; who asks, empties it."""
        self._stirred: dict[str, Lane] = {}
        self._unread: Timers[str] = Timers()
        self._open: Timers[str] = Timers()
        self._changed: dict[str, None] = {}
        self._is_asked = False
        self._edits: list[Edit] | None = None
        self._ending: list[Edit] = []
        self._ended_ns: int = 0

    def watch(self) -> None:
        """From now on `take_tellings` says what it tells, for others to read; before the first
        event."""
        self._edits = []

    def take_tellings(self) -> list[Telling]:
        """What is told otherwise than when this was last asked. What it tells at the end is told at
        the last instant of all."""
        if not self._edits and not self._ending:
            return []
        assert self._edits is not None
        tellings = net(self._edits, None)
        tellings += net(self._ending, self._ended_ns)
        self._edits.clear()
        self._ending = []
        return tellings

    # -- events ------------------------------------------------------------------------------------

    def put(self, key: str, entry: LogEntry, *, replaces: bool = False) -> str:
        """STORED, COPY or CONFLICT (lane), LATE: its place is final, REFUSED: no more keys."""
        if entry.key < self.confirmed:
            return LATE
        lane = self.lanes.get(key)
        if lane is None:
            if len(self.lanes) >= self._max_keys:
                return REFUSED
            lane = self._new_lane(key)
        held = len(lane.entries)
        word = lane.insert(entry, replaces=replaces)
        if word == STORED:
            self.held += len(lane.entries) - held
            if entry.key < self.reached:
                self.fresh.append(entry.key)
            self._stir(key, lane)
        return word

    def remove(self, key: str, of: Key) -> bool:
        """Take an event back that came from below. False if it is unknown, or final."""
        lane = self.lanes.get(key)
        entry = None if of < self.confirmed or lane is None else lane.remove(of)
        if entry is None or lane is None:
            return False
        self.held -= 1
        self.gone.append(entry)
        self._stir(key, lane)
        return True

    def _stir(self, key: str, lane: Lane) -> None:
        self._stirred[key] = lane
        if self._is_asked:
            self._changed[key] = None

    def _new_lane(self, key: str) -> Lane:
        lane = Lane(key, self._behaviour, self._ids_of(key), self.counts)
        lane.spacing, lane.converges = self.spacing, self._converges
        lane.edits = self._edits
        self.lanes[key] = lane
        return lane

    def _ids_of(self, key: str) -> ResultIds:
        return ResultIds(self._begun + framed(key.encode()))

    @property
    def unread_ns(self) -> int:
        """There is nothing to read before."""
        return self._unread.next_ns

    @property
    def open_ns(self) -> int:
        """There is nothing to confirm before."""
        return self._open.next_ns

    # -- reading on --------------------------------------------------------------------------------

    def advance(self, goal: Key, final: Key) -> list[Record]:
        """Read up to there, and let what is before `final` stand."""
        goal = max(goal, self.reached)
        final = min(max(final, self.confirmed), goal)
        visited = self._stirred
        self._stirred = {}
        self.fresh.clear()
        for key in self._unread.due(goal[0] + 1):
            visited.setdefault(key, self.lanes[key])
        for lane in visited.values():
            if lane.dirty and self._behaviour.corrects and self.mends:
                lane.pending |= mend(lane, self._behaviour, self.counts)
            lane.pending |= lane.advance(goal, final)
        self.reached, self.confirmed = goal, final
        if self.counts.blocks or not self._behaviour.is_cheap:
            self._keep_fewer_or_more()
        for key in self._open.due(final[0] + 1):
            visited.setdefault(key, self.lanes[key])
        return self._settle(visited)

    def end(self, last_ns: int) -> list[Record]:
        """Nothing comes any more; the newest of all was at `last_ns`."""
        goal = max(behind(last_ns), self.reached)
        for lane in self.lanes.values():
            if lane.dirty or lane.next_ns <= goal[0]:
                lane.pending |= lane.advance(goal, goal)
        begun = len(self._edits or ())
        for lane in self.lanes.values():
            lane.pending |= lane.end()
        if self._edits is not None:
            self._ending, self._ended_ns = self._edits[begun:], last_ns
            del self._edits[begun:]
        self.reached = self.confirmed = BEHIND_ALL
        return self._settle(dict(self.lanes))

    def _settle(self, visited: dict[str, Lane]) -> list[Record]:
        """Confirm, tell the difference, and arm for what comes next."""
        records: list[Record] = []
        for key, lane in visited.items():
            is_confirmed = lane.open_ns <= self.confirmed[0]
            if is_confirmed:
                self._confirm(lane)
            if lane.pending:
                pending, lane.pending = lane.pending, {}
                for id_ in pending:
                    self._tell(lane, id_, records)
                if len(lane.shown) + len(lane.floor) > 2 * MAX_IDS:
                    self._forget_some(lane)
            if is_confirmed and lane.shown:
                self._bury(lane)
            self._arm(key, lane)
        if len(records) > 1:
            records.sort(key=_order)
        return records

    def _confirm(self, lane: Lane) -> None:
        passed = lane.confirm(self.confirmed)
        if lane.let_go:
            self.gone += lane.let_go
            self.held -= len(lane.let_go)
            lane.let_go = []
        for id_ in passed:
            lane.pending[id_] = None

    def _bury(self, lane: Lane) -> None:
        """What was retracted and cannot come again."""
        gone = [
            id_
            for id_, shown in lane.shown.items()
            if not shown.live
            and shown.content is not None
            and shown.content.is_own
            and shown.content.cause < self.confirmed
        ]
        for id_ in gone:
            del lane.shown[id_]

    def _tell(self, lane: Lane, id_: str, records: list[Record]) -> None:
        output = lane.current(id_)
        shown = lane.shown.get(id_)
        if output is None:
            if shown is not None and shown.live:
                before = shown.content
                assert before is not None
                op = shown.retract(is_final=False)
                records.append(Record(op, shown.revision, False, lane.text, before))  # noqa: FBT003
            return
        is_final = output.last and not lane.is_open(id_)
        if shown is None:
            shown = lane.shown[id_] = CurrentResult[ToldOutput | None](None)
        before = shown.content
        is_news = before is None or not output.tells(before)
        is_news = is_news or (self._finals and is_final and not shown.final)
        op = shown.show(output, is_news=is_news, is_final=is_final)
        if op != NO_NEWS:
            records.append(Record(op, shown.revision, is_final, lane.text, output))
        if is_final:
            lane.forget(id_)

    def _forget_some(self, lane: Lane) -> None:
        for id_ in list(lane.shown):
            if len(lane.shown) <= MAX_IDS:
                break
            if not lane.is_open(id_):
                lane.forget(id_)
                self.forgotten += 1

    def _arm(self, key: str, lane: Lane) -> None:
        if self._is_asked:
            self._changed[key] = None
        self._unread.disarm(key)
        self._unread.arm(key, lane.next_ns)
        self._open.disarm(key)
        self._open.arm(key, lane.open_ns)
        if lane.is_idle and self._is_blank(lane):
            self._unread.disarm(key)
            self._open.disarm(key)
            del self.lanes[key]

    def _is_blank(self, lane: Lane) -> bool:
        """As if nothing had come."""
        rules = self._behaviour
        return not rules.has_end and same(lane.live.state, rules.initial())

    def _keep_fewer_or_more(self) -> None:
        """By how much the copies come to, were each held event followed by one of the largest. What
        is kept without copying shares its parts; but a long text that grows is another each time.
        """
        counts = self.counts
        size = counts.blocks if self._behaviour.is_cheap else max(counts.size, counts.blocks)
        kept = self.held * size // self.spacing
        if kept > self.max_kept and self.spacing < MAX_SPACING:
            self.thin_out()
        elif self.spacing > 1 and kept * KEEPS_MORE < self.max_kept:
            self.spacing //= 2
            self._space_out()

    def thin_out(self) -> None:
        """Every second checkpoint goes; what is told stays the same."""
        self.spacing = min(2 * self.spacing, MAX_SPACING)
        for lane in self.lanes.values():
            lane.thin_out()
        self._space_out()

    def _space_out(self) -> None:
        for key, lane in self.lanes.items():
            lane.spacing = self.spacing
            if self._is_asked:
                self._changed[key] = None

    # -- state -------------------------------------------------------------------------------------

    def entries(self) -> Iterator[LogEntry]:
        for lane in self.lanes.values():
            yield from lane.entries

    def snapshot(self) -> State:
        """By key of lane; the positions are the caller's to keep."""
        return {key: self._dump(lane) for key, lane in self.lanes.items()}

    def changes(self) -> Changes:
        if not self._is_asked:
            self._is_asked = True
            return {**self.snapshot()}
        changes: Changes = {}
        for key in self._changed:
            lane = self.lanes.get(key)
            changes[key] = None if lane is None else self._dump(lane)
        self._changed = {}
        return changes

    def _dump(self, lane: Lane) -> Plain:
        return lane_state.dump(lane, self._behaviour)

    def known(self) -> Plain:
        """By what it is decided how many checkpoints are kept."""
        return [self.spacing, self.counts.size, self.counts.blocks]

    def know(self, known: Plain) -> None:
        """Before `load`."""
        self.spacing, self.counts.size, self.counts.blocks = known

    def load(self, key: str, plain: Plain) -> None:
        """Before the events are put."""
        lane_state.load(self._new_lane(key), plain, self._behaviour)

    def resume(self) -> None:
        """All is loaded and put but what was `fresh`, which is put after this: read what had been
        read, and say nothing."""
        self._is_asked = True
        self._stirred = {}
        self.fresh.clear()
        for key, lane in list(self.lanes.items()):
            lane.resume(self.reached, self.confirmed)
            for id_, shown in lane.shown.items():
                if shown.live:
                    shown.content = lane.current(id_)
            self._arm(key, lane)
        self._changed = {}
        if self._edits is not None:
            self._edits.clear()


def _order(record: Record) -> tuple[bool, Key, str]:
    return (record.op != RETRACT, record.output.cause, record.output.id)
