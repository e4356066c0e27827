"""SPECULATE: runs detectors before their input is certain, and corrects their results.

Two positions in the order of items (`item`) define the state:

* R: the items before it have been read, and their results emitted.
* C <= R: nothing can arrive before it any more, so results before it never change.

The caller moves both positions, and neither moves back. Results between them are preliminary. If an
event arrives there, its key's detector goes back to a savepoint before the event, and reads on from
there (`key_log`). Only the difference is emitted.

After each `advance` the emitted results, with all corrections, are those of an in-order run over
the events received so far, up to R. So R affects early results, but never the final ones (laws in
tests/topology/queries/detector/test_laws.py). With R = C this is plain buffering: no savepoint is
kept, and no result is retracted.

Each key has its own log, state and timers. So a late event causes a replay of its own key alone.

The id of a result depends on its item, or comes from the detector. It never depends on how often
the item was read. One `advance` emits at most one record for each id: retractions first, then the
others in the order of their items. Revisions count from 0 without a gap until the id is forgotten.
An id is forgotten when its result is final. Ids that a detector keeps open may be forgotten if a
key has more than `MAX_IDS` of them.

The method is Reliable Speculative Processing; docs/guides/detectors.md explains its use.

Bounds: `max_keys` and `max_kept`. The caller bounds the number of buffered events (`held`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from topology.answer.frontier import FOR_EVER
from topology.answer.query.results import NO_NEWS, CurrentResult
from topology.base.result import RETRACT, ResultIds, frame
from topology.base.timers import Timers
from topology.queries.detector.cursor import COUNTS, Counts, DetectorOutput
from topology.queries.detector.detector import Behaviour
from topology.queries.detector.item import BEHIND_ALL, FIRST, KEY, Key, LogEntry, behind
from topology.queries.detector.key_log import MAX_SPACING, STORED, KeyLog, SavedLog, cause_of_buried
from topology.queries.detector.mend import correct_dirty
from topology.queries.detector.result_event import Edit, net_changes
from topology.queries.detector.values import are_same
from topology.state.saved import INT, Shape, list_of
from topology.state.tables import Table

EXPIRED: Final = "expired"
REFUSED: Final = "refused"

MAX_KEPT: Final = 1_000_000
"""The maximum total number of values in the states that are copied for rollbacks.

Long texts in all kept states count as one value for each 64 bytes. Beyond this bound fewer states
are kept, so replays for late events begin further back.
"""
KEEPS_MORE: Final = 8
"""Savepoints become denser again once they have fewer values than `max_kept` divided by this."""

MAX_IDS: Final = 10_000
"""The number of open ids, with their revisions, that a key keeps when some must be forgotten."""


class Record(NamedTuple):
    """A change of a result. A retraction carries the result that it retracts."""

    op: str
    revision: int
    final: bool
    key: str
    output: DetectorOutput


UNIT: Final = Shape(
    "detector.unit",
    1,
    reached=KEY,
    confirmed=KEY,
    spacing=INT,
    counts=COUNTS,
    fresh=list_of(KEY),
)


class Unit:
    """The logs of all keys of a detector, and the positions up to which they are read and final.

    `begun` is the framed prefix of the texts from which the results' ids are derived. With
    `finals`, a result that was emitted before it was final is emitted again when it is.

    Two parameters do not change the results. `spacing` is the number of events between savepoints.
    With `converges`, a replay ends where the state equals the one saved before.
    """

    def __init__(
        self,
        behaviour: Behaviour,
        begun: bytes,
        prefix: str = "",
        *,
        finals: bool = False,
        max_keys: int = 1_000_000,
        spacing: int = 1,
        converges: bool = True,
    ) -> None:
        self._behaviour = behaviour
        self._begun = begun
        self._max_keys = max_keys
        self.spacing = spacing
        self.max_kept = MAX_KEPT
        self._converges = converges
        self.table: Table[str, KeyLog] = Table(prefix, SavedLog(self._new_log))
        self.logs = self.table.rows
        self.confirmed: Key = FIRST
        self.reached: Key = FIRST
        self.counts = Counts()
        self.held = 0
        self.forgotten = 0
        self.fresh: list[Key] = []
        """The keys of the events that were inserted before `reached` after the last `advance`."""
        self.released: list[LogEntry] = []
        """The events that are no longer buffered. The caller that takes them empties the list."""
        self._stirred: dict[str, KeyLog] = {}
        self.unread: Timers[str] = Timers()
        self.open: Timers[str] = Timers()
        self.finals_until_ns = FOR_EVER if finals else -FOR_EVER
        """The last time of an item whose early result is emitted once more when it is final."""
        self._edits: list[Edit] | None = None

    def watch(self) -> None:
        """Record the changes of results from now on, for `take_edits`.

        This is called before the first event.
        """
        self._edits = []

    def take_edits(self) -> list[Edit]:
        """Return the net changes since the last call."""
        edits = net_changes(self._edits or ())
        if self._edits:
            self._edits.clear()
        return edits

    # -- events ------------------------------------------------------------------------------------

    def put(self, key: str, entry: LogEntry, *, replaces: bool = False) -> str:
        """Insert an event, and return STORED, COPY or CONFLICT (`key_log`), EXPIRED or REFUSED.

        EXPIRED means that the event is before C, and REFUSED that there are too many keys.
        """
        if entry.key < self.confirmed:
            return EXPIRED
        log = self.logs.get(key)
        if log is None:
            if len(self.logs) >= self._max_keys:
                return REFUSED
            log = self.logs[key] = self._new_log(key)
        held = len(log.entries)
        word = log.insert(entry, replaces=replaces)
        if word == STORED:
            self.held += len(log.entries) - held
            if entry.key < self.reached:
                self.fresh.append(entry.key)
            self._mark_changed(key, log)
        return word

    def remove(self, key: str, of: Key) -> bool:
        """Remove an event; return False if it is unknown or before C."""
        log = self.logs.get(key)
        entry = None if of < self.confirmed or log is None else log.remove(of)
        if entry is None or log is None:
            return False
        self.held -= 1
        self.released.append(entry)
        self._mark_changed(key, log)
        return True

    def _mark_changed(self, key: str, log: KeyLog) -> None:
        self._stirred[key] = log
        self.table.note(key)

    def _new_log(self, key: str) -> KeyLog:
        ids = ResultIds(self._begun + frame(key.encode()))
        behaviour, spacing = self._behaviour, self.spacing
        return KeyLog(key, behaviour, ids, self.counts, spacing, self._converges, self._edits)

    def advance(self, goal: Key, final: Key) -> list[Record]:
        """Read up to the goal, make the results before `final` final, and return the changes."""
        goal = max(goal, self.reached)
        final = min(max(final, self.confirmed), goal)
        visited = self._stirred
        self._stirred = {}
        self.fresh.clear()
        for key in self.unread.due(goal[0] + 1):
            visited.setdefault(key, self.logs[key])
        for log in visited.values():
            if log.dirty and self._behaviour.corrects:
                correct_dirty(log, self._behaviour, self.counts)
            log.advance(goal, final)
        self.reached, self.confirmed = goal, final
        if self.counts.blocks or not self._behaviour.is_cheap:
            self._adjust_spacing()
        for key in self.open.due(final[0] + 1):
            visited.setdefault(key, self.logs[key])
        return self._collect_changes(visited)

    def end(self, last_ns: int) -> list[Record]:
        """End the input, whose newest time is `last_ns`, and return the last changes.

        For other queries, results emitted here are events of the instant `last_ns`.
        """
        goal = max(behind(last_ns), self.reached)
        for log in self.logs.values():
            if log.dirty or log.next_ns <= goal[0]:
                log.advance(goal, goal)
        edits: list[Edit] = [] if self._edits is None else self._edits
        begun = len(edits)
        for log in self.logs.values():
            log.end()
        edits[begun:] = [each._replace(stamp_ns=last_ns) for each in edits[begun:]]
        self.reached = self.confirmed = BEHIND_ALL
        return self._collect_changes(dict(self.logs))

    def _collect_changes(self, visited: dict[str, KeyLog]) -> list[Record]:
        """Confirm the items before C in these logs, set their timers, and return the changes."""
        records: list[Record] = []
        for key, log in visited.items():
            is_confirmed = log.open_ns <= self.confirmed[0]
            if is_confirmed:
                log.confirm(self.confirmed)
                if log.let_go:
                    self.released += log.let_go
                    self.held -= len(log.let_go)
                    log.let_go = []
            if log.pending:
                pending, log.pending = log.pending, {}
                for id_ in pending:
                    self._emit(log, id_, records)
                if len(log.shown) + len(log.floor) > 2 * MAX_IDS:
                    self._forget_oldest(log)
            if is_confirmed and log.shown:
                self._forget_expired(log)
            self._arm(key, log)
        if len(records) > 1:
            records.sort(key=_record_order)
        return records

    def _forget_expired(self, log: KeyLog) -> None:
        """Forget the retracted results that cannot be emitted again."""
        for id_, shown in list(log.shown.items()):
            cause = cause_of_buried(shown)
            if cause is not None and cause < self.confirmed:
                del log.shown[id_]

    def _emit(self, log: KeyLog, id_: str, records: list[Record]) -> None:
        output = log.current(id_)
        shown = log.shown.get(id_)
        if output is None:
            if shown is not None and shown.live:
                before = shown.content
                assert before is not None
                op = shown.retract(is_final=False)
                records.append(Record(op, shown.revision, False, log.text, before))  # noqa: FBT003
            return
        is_final = output.last and not log.is_open(id_)
        if shown is None:
            shown = log.shown[id_] = CurrentResult[DetectorOutput | None](None)
        before = shown.content
        is_news = before is None or not output.has_same_content(before)
        becomes_final = is_final and not shown.final and output.cause[0] <= self.finals_until_ns
        is_news = is_news or becomes_final
        op = shown.show(output, is_news=is_news, is_final=is_final)
        if op != NO_NEWS:
            records.append(Record(op, shown.revision, is_final, log.text, output))
        if is_final:
            log.forget(id_)

    def _forget_oldest(self, log: KeyLog) -> None:
        for id_ in list(log.shown):
            if len(log.shown) <= MAX_IDS:
                break
            if not log.is_open(id_):
                log.forget(id_)
                self.forgotten += 1

    def _arm(self, key: str, log: KeyLog) -> None:
        self.table.note(key)
        self.unread.disarm(key)
        self.unread.arm(key, log.next_ns)
        self.open.disarm(key)
        self.open.arm(key, log.open_ns)
        rules = self._behaviour
        if log.is_idle and not rules.has_end and are_same(log.live.state, rules.initial()):
            # The key is as it was before its first event, so it needs no log.
            self.unread.disarm(key)
            self.open.disarm(key)
            del self.logs[key]

    def _adjust_spacing(self) -> None:
        """Keep fewer or more savepoints, so that all copies together stay within `max_kept`.

        The estimate assumes a savepoint of the largest size after each buffered event. States that
        are kept without copying share their parts, except long texts, which may grow.
        """
        counts = self.counts
        size = counts.blocks if self._behaviour.is_cheap else max(counts.size, counts.blocks)
        kept = self.held * size // self.spacing
        if kept > self.max_kept and self.spacing < MAX_SPACING:
            self.thin_out()
        elif self.spacing > 1 and kept * KEEPS_MORE < self.max_kept:
            self.spacing //= 2
            self._apply_spacing()

    def thin_out(self) -> None:
        """Drop every second savepoint, and add new ones half as often. Results stay the same."""
        self.spacing = min(2 * self.spacing, MAX_SPACING)
        for log in self.logs.values():
            log.thin_out()
        self._apply_spacing()

    def _apply_spacing(self) -> None:
        for key, log in self.logs.items():
            log.spacing = self.spacing
            self.table.note(key)

    # -- state -------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Reread everything that had been read before a restart, without emitting anything.

        All logs must be loaded and all events inserted, except those of `fresh`, which come
        afterwards.
        """
        self._stirred = {}
        self.fresh.clear()
        for key, log in list(self.logs.items()):
            log.resume(self.reached, self.confirmed)
            for id_, shown in log.shown.items():
                if shown.live:
                    shown.content = log.current(id_)
            self._arm(key, log)
        self.table.reset_changes(is_written=self.table.is_followed)
        if self._edits is not None:
            self._edits.clear()


def _record_order(record: Record) -> tuple[bool, Key, str]:
    return (record.op != RETRACT, record.output.cause, record.output.id)
