"""Runs JOIN: joins the events of several streams, and corrects the rows after late events.

Events and control events pass through unchanged; rows are added as `JoinResult`s. `relation`
decides which events belong together, and `rows` which rows they make. `outer` emits and corrects
rows with a null. `retention` decides how long an event is kept.

A row without a null is emitted when the last of its events arrives. It is final, because no later
event can undo it. After the last correction, the current rows are those of a plain join of all
events in order, except those left out or given up. This holds for every order of arrival.

Some events are left out and counted:

* `without_key`: the event has no key.
* `expired`: the event is before the finality horizon of its own stream.
* `duplicates`: an event with the same coordinates arrived before.

Near `max_events` the new-source allowance is given up. At `max_events` the oldest event is given up
(`given_up`). Then its rows with a null, and those that it might still have changed, are emitted as
final. An `Overflow` reports an event that has more than `max_rows` rows.

A join that is restored without a stored state begins in the middle of its streams. `outer` decides
which rows it does not emit. A late event from before the join's beginning is left out as `expired`.
Until the first watermark the finality horizon is unknown, so the event may have expired.

Kept events are *held*: they stay in the log, and a restart adds them again without new results.
Cost per event: O(log n), plus one step for each event in its reach and for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

from topology.answer.frontier import NOT_YET, Frontier
from topology.answer.quality_target import target_figures
from topology.answer.query.beginning import BEGINNINGS
from topology.answer.query.queries import KeepingQuery
from topology.base.event import DATA, Event
from topology.base.operator import Figure, Figures, Plain, total
from topology.base.outcome import Step
from topology.base.payload import Payloads
from topology.queries.join.as_of import AsOfRows
from topology.queries.join.entry import JoinEntry, JoinReading
from topology.queries.join.frontiers import FRONTIERS, frontiers_of
from topology.queries.join.index import JoinIndex
from topology.queries.join.marks import Marks
from topology.queries.join.outer import Owners, name_of
from topology.queries.join.relation import ByInterval, cell_end_of, relation_of
from topology.queries.join.results import RowEmitter
from topology.queries.join.retention import Retention
from topology.queries.join.rows import Rows
from topology.queries.join.settings import AS_OF, JoinQuery
from topology.state.saved import BIG, FLAG, INT, Shape, list_of
from topology.state.tables import SavedState

QUERY: Final = "query"
JOIN: Final = Shape(
    "join",
    1,
    _now_ns=INT,
    _instant_open=FLAG,
    _late=list_of(INT, set),
    _given_up_ns=BIG,
    _frontiers=FRONTIERS,
    beginnings=BEGINNINGS,
)

FIGURES: Final[Mapping[str, Figure]] = {
    "retained": Figure("Events that may still find a partner"),
    "emitted": total("First rows, including those after a retraction"),
    "updated": total("Rows that replaced an earlier row"),
    "retracted": total("Rows retracted because a partner arrived"),
    "expired": total("Events that arrived after their time was final"),
    "given_up": total("Events dropped early because a bound was reached"),
    "overflows": total("Events with more rows than the bound"),
    **target_figures("first rows"),
    "duplicates": total("Events seen before"),
    "without_key": total("Events without a value for the key of a query"),
    "unreadable": total("Payloads that are not JSON"),
}
"""The meaning of JOIN's figures, in the order of the metrics."""


class Join(KeepingQuery):
    """A join query as an operator.

    Args:
        ordered: Whether MERGE emits the events in order, so that each of them raises its stream's
            frontier. Otherwise control events raise it.
        announced: Whether the streams have watermarks.
    """

    def __init__(
        self,
        query: JoinQuery,
        *,
        ordered: bool = True,
        announced: bool = True,
        payloads: Payloads | None = None,
    ) -> None:
        super().__init__(query.name, query.fingerprint())
        self._max_rows = query.max_rows
        self._relation = relation_of(query)
        self._index = JoinIndex(len(query.streams))
        self._rows = Rows(query, self._relation, self._index)
        self._as_of: AsOfRows | None = None
        if query.join.kind == AS_OF and isinstance(self._relation, ByInterval):
            self._rows = self._as_of = AsOfRows(query, self._relation, self._index)
        self._retention = Retention(query, self._relation, self._index, self._rows)
        self.is_ordered = ordered
        self._frontiers = frontiers_of(query, ordered=ordered, announced=announced)
        self.beginnings.extend(self._frontiers.beginnings)  # mypyc leaks one that is set twice.
        self._reading = JoinReading(query, payloads or Payloads())
        self._emitter = RowEmitter(query, self._relation)
        self._owners = Owners(query, self._relation, self._rows, self._frontiers, self._emitter)
        self._has_owners = query.has_owners
        self._fresh: list[JoinEntry] = []
        self.marks = Marks(len(query.streams))
        self._saved = SavedState(QUERY, JOIN, (*self._owners.tables, *self.marks.tables))
        self._expired = self._given_up = self._copies = 0
        self._came_late: set[int] = set()

    # -- Contract ----------------------------------------------------------------------------------

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        return (
            self._frontiers.is_waiting
            or any(each.is_unknown for each in self.beginnings)
            or (self._has_owners and self._owners.is_due(self._frontiers.after(watermarks)))
        )

    def seal(self) -> None:
        self._frontiers.seal()

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        self._frontiers.end(now_ns)
        self._settle()
        self._finish(step)
        return step

    def _take(self, event: Event, step: Step) -> None:
        frontier = self._frontiers.of_stream.get(event.stream)
        if frontier is None:
            return
        if frontier.beginning.is_unknown:
            frontier.beginning.observe(event)
        if event.kind == DATA:
            self._add(event, frontier)
        elif not self._frontiers.observe_control(event, frontier):
            return
        self._instant_open = True

    def _decide(self, step: Step) -> None:
        self._frontiers.settle(self._now_ns)
        if self._retention.is_crowded:
            self._frontiers.make_room()
        self._settle()

    def _next_due_ns(self) -> int:
        return self._frontiers.due_ns()

    def _fire(self, due_ns: int, step: Step) -> None:
        self._frontiers.settle(due_ns)
        self._settle()

    def _finish(self, step: Step) -> None:
        self._emitter.flush(step)

    # -- Events ------------------------------------------------------------------------------------

    def _add(self, event: Event, frontier: Frontier) -> None:
        self._emitter.now_ns = self._now_ns
        sides = self._reading.sides(event)
        entries: list[JoinEntry] = []
        is_expired = event.ref_time_ns < frontier.final_ns
        if sides and (is_expired or (event.late and frontier.beginning.is_before(event))):
            self._expired += 1
            self.marks.leave_out(event, sides)
        elif sides:
            entries = self._reading.entries(event, sides)
        shown = 0
        for entry in entries:
            released_ns = self._frontiers.released_ns if entry.error_ns else NOT_YET
            if entry.ref_ns - entry.error_ns < released_ns:
                entry.came_ns = released_ns
                self.marks.record_arrival(event, released_ns)
            if self._index.put(entry):
                shown = self._join(entry, shown)
            else:
                self._copies += 1
        self._frontiers.observe(event, frontier, is_taken=bool(entries))

    def _join(self, entry: JoinEntry, shown: int) -> int:
        """Join a new entry, and return how many rows its event has emitted on all sides.

        `shown` is the number of rows that entries of the same event on other sides have emitted.
        """
        entry.is_fresh = True
        self._fresh.append(entry)
        self.kept.append(entry.event)
        left = self._max_rows - shown
        for row in islice(self._rows.iter_joined(entry), left + 1):
            shown += 1
            if shown > self._max_rows:
                self._emitter.overflow(entry, shown - 1)
            else:
                self._emitter.emit(row, self._emitter.id_of(row))
        bonded = self._rows.find_bonded_owners(entry)
        self._retention.keep(entry, bonded)
        if self._owners.emitted:
            for owner in self._rows.find_touched(entry, bonded):
                self._owners.correct(owner)
        if self._has_owners:
            for owner in self._rows.owners_of(entry):
                self._owners.expect(owner)
        while (oldest := self._retention.pop_excess()) is not None:
            self._give_up(oldest)
        return shown

    def _settle(self) -> None:
        """Emit the rows that the frontiers have closed, and release the entries that are final."""
        self._emitter.now_ns = self._now_ns
        if self._has_owners:
            self._owners.settle()
        while self._fresh:
            self._fresh.pop().is_fresh = False
        for entry in self._retention.take_ended(self._frontiers.released_ns):
            self._drop(entry)

    def _drop(self, entry: JoinEntry) -> None:
        self._index.drop(entry)
        self._owners.drop(entry)
        self.released.append(entry.event)

    def _give_up(self, entry: JoinEntry) -> None:
        self._given_up += 1
        self._retention.forget(entry)
        bonded = self._rows.find_bonded_owners(entry)
        if self._has_owners:
            for owner in chain(self._rows.owners_of(entry), self._rows.find_touched(entry, bonded)):
                self._owners.abandon(owner)
        self._drop(entry)
        if self._as_of is not None and entry.side:
            lost_ns = entry.ref_ns + entry.error_ns
            self._as_of.given_up_ns = max(self._as_of.given_up_ns, lost_ns)
        self.marks.leave_out(entry.event, [entry.side])
        self._retention.loosen(entry, bonded)

    # -- Reporting ---------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {
            "retained": self._index.count,
            "expired": self._expired,
            "given_up": self._given_up,
            "without_key": self._reading.unkeyed,
            "unreadable": self._reading.unreadable,
            "duplicates": self._copies,
            "overflows": self._emitter.overflows,
            **self._emitter.figures(),
            **self._frontiers.figures(),
        }

    def explain(self) -> dict[str, Any]:
        return {**self.figures(), **self._frontiers.explain()}

    # -- State -------------------------------------------------------------------------------------

    @property
    def _late(self) -> set[int]:
        """The offsets of events in the open instant whose first end the frontier had passed."""
        return {
            entry.event.offset
            for entry in self._fresh
            if entry.is_kept
            and cell_end_of(self._relation, 0, entry) <= self._frontiers.goal_ns(entry.side)
        }

    @_late.setter
    def _late(self, late: set[int]) -> None:
        self._came_late = late

    @property
    def _given_up_ns(self) -> int:
        """The latest time of an event that an as-of join has given up as a partner."""
        return NOT_YET if self._as_of is None else self._as_of.given_up_ns

    @_given_up_ns.setter
    def _given_up_ns(self, given_up_ns: int) -> None:
        if self._as_of is not None:
            self._as_of.given_up_ns = given_up_ns

    def renumber(self, numbers: Mapping[int, int]) -> None:
        self.marks.renumber(numbers)

    def iter_held(self) -> Iterable[Event]:
        return (entry.event for entry in self._index)

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        """Restore the query in steps; yield the number of events restored in each.

        `held` may include events that only other queries hold, because the state does not record
        which query holds an event.
        """
        yield from super().restoring(state, held)
        if self._saved.is_in(state):
            self._restore_held(held)
            self._owners.resume({name_of(entry): entry for entry in self._index})
        else:
            for event in held:
                self.marks.leave_out(event, self._reading.sides(event))
        yield len(held)

    def _restore_held(self, held: Iterable[Event]) -> None:
        for event in held:
            sides = self.marks.remaining_sides(event, self._reading.sides(event))
            for entry in self._reading.entries(event, sides):
                entry.came_ns = self.marks.came_ns(event)
                self._index.put(entry)
        # These events were counted before the restart.
        self._reading.unreadable = self._reading.unkeyed = 0
        for entry in list(self._index):
            self._retention.keep(entry, self._rows.find_bonded_owners(entry))
            if entry.event.offset in self._came_late:
                entry.is_fresh = True
                self._fresh.append(entry)
        for entry in list(self._index):
            if entry.until_ns <= self._frontiers.released_ns and not entry.is_fresh:
                self._index.drop(entry)
                self._retention.forget(entry)
                continue
            self.kept.append(entry.event)
            closed_ns = self._frontiers.goal_ns(entry.side)
            for owner in self._rows.owners_of(entry) if self._has_owners else ():
                if entry.is_fresh or self._relation.end(*owner) > closed_ns:
                    self._owners.expect(owner)
