"""One query in one partition: what its units emit, whenever an event or time can change it.

The units that an event can change (`affect`) are evaluated anew (`evaluate`); what may be emitted
of them is chosen (`decide`), and the difference to what was emitted before goes to the emitter
(`emit`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from topology.model.operator import NEVER
from topology.model.result import EMIT
from topology.pattern.match.evaluation import Place
from topology.pattern.match.tactics.followed import Taken
from topology.pattern.run.affect import Affected
from topology.pattern.run.decide import ShownResults, Visibility
from topology.pattern.run.emit import Change, changes
from topology.pattern.run.evaluate import Evaluator, MatchIds, PlainWay
from topology.pattern.run.forget import UnitRows, restore_emitted, restore_waiting
from topology.pattern.run.query import PartitionQuery, RunContext, Wiring
from topology.pattern.run.unit import FoundMatch, Gathered, MatchUnit
from topology.pattern.store.entry import Entry, Identity, Key
from topology.pattern.store.index import BEFORE_ALL_NS, EntryIndex
from topology.query.results import CurrentResult


class Run:
    """`gathered`: the units that wait to be corrected (EMIT SLACK). `plain`: the plain way, None
    where it is not open, or no more."""

    __slots__ = ("_at", "_evaluator", "_rows", "_shown", "affected", "gathered", "plain", "query",
                 "units", "visibility")  # fmt: skip

    def __init__(
        self,
        wiring: Wiring,
        place: Place,
        indexes: Sequence[EntryIndex],
        partition: Sequence[Any],
        context: RunContext,
    ) -> None:
        at = self._at = PartitionQuery(self, wiring, place, indexes, partition, context)
        ids = MatchIds(at.query, partition)
        self.query = at.query
        self.units = at.units
        self.affected = Affected(at)
        self._evaluator = Evaluator(at, ids, self.affected)
        self.gathered = Gathered()
        self.visibility = Visibility(at)
        self._shown = ShownResults(at) if at.query.shows_apart else None
        self._rows = UnitRows(at.query, partition, self, context)
        self.plain: PlainWay | None = None
        waits = self.visibility.emits_final or wiring.target_ns is not None
        if context.is_plain and not waits and at.query.steps and not at.doubt.margin_ns:
            self.plain = PlainWay(at, at.query.steps, ids)

    # -- events and time ----------------------------------------------------------------------

    def look(
        self,
        anchors: Mapping[Key, Entry],
        newcomer: Entry | None,
        withdrawn: Container[Entry],
        *,
        is_exchanged: bool,
    ) -> list[MatchUnit]:
        """Evaluate these units anew. What has changed is for `emit`.

        `newcomer`: the event that changes them, in the indexes already; if matches have not come
        or gone too (`is_exchanged`), it alone may put others in doubt. `withdrawn`: entries that
        are no more, so that nothing is found by them.
        """
        doubts_apart = self.affected.doubts_apart
        is_apart = doubts_apart or self.affected.possible_apart
        only = newcomer if is_apart and not is_exchanged else None
        units: list[MatchUnit] = []
        for key in sorted(anchors):
            if anchors[key] not in withdrawn:
                units.append(self._evaluator.evaluate(anchors[key], only))
            elif key in self.units:
                units.append(self._emptied(self.units[key]))
        if newcomer is not None and doubts_apart:
            units += self._evaluator.put_in_doubt(newcomer, anchors)
        return units

    def _emptied(self, unit: MatchUnit) -> MatchUnit:
        """Return a unit whose event is no more, without what was found by it."""
        if self._evaluator.starts_wait:
            self.affected.wait(unit, frozenset())
        unit.replace({}, self._at.now.frontier_ns)
        return unit

    def follow(self, entry: Entry, filters: Sequence[int], at_ns: int, *, in_order: bool) -> bool:
        """The plain way: the entry, in the indexes already, moves the walks that it concerns. False
        if it is not open."""
        plain = self.plain
        if plain is None:
            return False
        walks = plain.walks
        if walks.steps.is_tested and walks.is_beyond:
            self.give_up()
            return False
        if in_order:
            complete = walks.follow(entry, filters)
            is_only = self._at.context.is_alone and len(complete) == 1
            for taken in complete:
                self._complete(plain, taken, at_ns, is_only=is_only)
        else:
            for taken in walks.put_right(entry, filters):
                unit = plain.settled(taken)
                self._emit_of(unit, unit.found)
        return True

    def _complete(self, plain: PlainWay, taken: Taken, at_ns: int, *, is_only: bool) -> None:
        """A match ends with the newest event. This is the plain case of `emit.changes`: nothing of
        the unit was ever emitted, and the match is not decided. `is_only`: nothing else is emitted
        now."""
        unit = plain.unit_of(taken[0])
        if unit.emitted:
            unit = plain.settled(taken)
            self._emit_of(unit, unit.found)
            return
        id_, found = plain.found(taken)
        unit.found[id_] = found
        unit.emitted[id_] = CurrentResult(found, 0, live=True)
        self._rows.touch(unit.anchor)
        change = Change(EMIT, id_, 0, found, found, final=False)
        if is_only:
            self._at.emitter.emit_at_once(self.query, self._at.partition, change, at_ns)
        else:
            self._at.emitter.take(self._at.wiring.number, self.query, self._at.partition, [change])

    def give_up(self) -> None:
        """Go the general way from now on."""
        plain, self.plain = self.plain, None
        if plain is not None:
            plain.hand_over(self.affected, starts_wait=self._evaluator.starts_wait)

    def wake(self, unit: MatchUnit) -> bool:
        """Return whether the unit is still there, an instant having come that it waited for."""
        if self.units.get(unit.anchor.key) is not unit:
            return False
        if self.plain is not None:
            self.plain.unit_of(unit.anchor)
        return True

    def put_off(self, by_ns: int) -> None:
        """Errors are larger than it seemed."""
        if self.query.grading is not None:
            self.give_up()
            self._evaluator.put_off(by_ns)
            for unit in self.units.values():
                if unit.emitted:
                    self._rows.touch(unit.anchor)

    # -- corrections that wait (EMIT SLACK) ---------------------------------------------------

    def gathers_ns(self, filters: Sequence[int], late_by_ns: int) -> int:
        """Count an event of these filters; for how long late ones are gathered."""
        lateness = self._at.wiring.lateness
        if self._at.wiring.filters.intersection(filters):
            lateness.count(late_by_ns)
        if self.query.query.slack_ns is not None:
            return self.query.query.slack_ns
        return lateness.wait_ns(self.query.within_ns)

    def gather(self, anchors: Iterable[Entry], due_ns: int) -> None:
        """Evaluate these units when what is gathered is due."""
        for anchor in anchors:
            self._rows.touch(anchor)
        self.gathered.add(anchors, due_ns)

    def evaluate_gathered(self) -> list[MatchUnit]:
        """The units that wait, evaluated anew; what has changed is for `emit`."""
        anchors = self.gathered.take()
        for anchor in anchors:
            self._rows.touch(anchor)
        return [self._evaluator.evaluate(anchor) for anchor in anchors]

    # -- what is emitted ----------------------------------------------------------------------

    def emit(self, units: Iterable[MatchUnit]) -> None:
        """What has changed of these units."""
        for unit, visible in self.visibility.of_all(units):
            self._emit_of(unit, visible)

    def _emit_of(self, unit: MatchUnit, visible: dict[str, FoundMatch]) -> None:
        if not visible and not unit.emitted:
            return
        if self._shown is not None:
            visible = self._shown.of(unit, visible)
        emits_final = self.visibility.emits_final
        frontier_ns = self._at.now.frontier_ns
        changed = list(changes(unit, visible, frontier_ns, emits_final=emits_final))
        if changed:
            self._at.emitter.take(self._at.wiring.number, self.query, self._at.partition, changed)
            self._rows.touch(unit.anchor)
            self.visibility.note_emitted(unit)

    # -- forgetting ---------------------------------------------------------------------------

    def forget(self) -> None:
        """Let go of units that nothing can change any more."""
        frontier_ns = self._at.now.frontier_ns
        if self.plain is not None:
            for anchor in self.plain.walks.over(frontier_ns):
                self._drop(anchor)
            return
        self.visibility.restart(self.visibility.decided())  # what is decided is let go of
        span_ns = self.affected.open_ns
        for unit in list(self.units.values()):
            if unit.anchor.time_ns + span_ns < frontier_ns:
                self.affected.wait(unit, frozenset())
                self._drop(unit.anchor)
            elif unit.anchor.time_ns < frontier_ns:
                unit.forget(frontier_ns)

    def _drop(self, anchor: Entry) -> None:
        self.units.pop(anchor.key, None)
        self._evaluator.forget(anchor)
        self._rows.forget(anchor)

    def close(self) -> None:
        """All of it is forgotten."""
        self._rows.close()
        self._at.context.agenda.barriers.disarm(self)

    # -- state --------------------------------------------------------------------------------

    def state(self, *, everything: bool) -> dict[str, Any]:
        """The rows of all units, or of those that changed since it was asked last."""
        decided = self.visibility.decided()
        if not everything:
            self._wait_for_barrier(self.visibility.next_decided_ns())
        return self._rows.rows(
            self.units, self.gathered, decided, self._at.now.frontier_ns, everything=everything
        )

    def _wait_for_barrier(self, until_ns: int) -> None:
        if until_ns < NEVER:
            self._at.context.agenda.barriers.arm(self, until_ns)

    def restore(self, state: dict[str, Any], entries: Mapping[Identity, Entry]) -> None:
        """Find again what was found, and take out of the state what was emitted of it."""
        self.visibility.restart(self._rows.take_barrier(state))
        if self.query.shape.skips:
            self._wait_for_barrier(BEFORE_ALL_NS)
        for anchor in self.affected.anchors(BEFORE_ALL_NS, -BEFORE_ALL_NS):
            due_ns, row = self._rows.take_row(anchor, state)
            if due_ns is None:
                unit = self._found_again(anchor, row)
            else:
                self.give_up()
                self.gathered.add([anchor], due_ns)
                if row is None:
                    continue
                unit = self._as_written(anchor, row, entries)
            self.visibility.of(unit)

    def recall(self, anchor: Entry, state: dict[str, Any]) -> None:
        """Take out of the state what was emitted of a unit whose event was withdrawn since: the
        revisions go on if it comes again."""
        _, rows = self._rows.take_row(anchor, state)
        unit = MatchUnit(anchor, self)
        for each in rows:
            restore_emitted(unit, {}, each, self._at.now.frontier_ns)
        if unit.emitted:
            self.units[anchor.key] = unit

    def _found_again(self, anchor: Entry, row: Any) -> MatchUnit:
        """The unit as it is now, and what was emitted of it."""
        if self.plain is None:
            unit = self._evaluator.evaluate(anchor)
        else:
            unit = self.plain.walked(anchor, starts_wait=self._evaluator.starts_wait)
        shown = unit.found if self._shown is None else self._shown.of(unit, unit.found)
        for each in row:
            restore_emitted(unit, shown, each, self._at.now.frontier_ns)
        if unit.emitted:
            self.units[anchor.key] = unit
        if anchor.key not in self.units and self._rows.key_of(anchor) in self._rows.written:
            self._rows.touch(anchor)  # decided since it was written
        return unit

    def _as_written(self, anchor: Entry, row: Any, entries: Mapping[Identity, Entry]) -> MatchUnit:
        """The unit as it was when it was evaluated last, not as it would be now."""
        unit = self.units[anchor.key] = MatchUnit(anchor, self)
        waits = restore_waiting(unit, row, entries)
        if self._evaluator.starts_wait:
            self.affected.wait(unit, None if waits is None else frozenset(map(tuple, waits)))
        return unit
