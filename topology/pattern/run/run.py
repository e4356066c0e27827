"""Runs one query in one partition: emits its units' results when an event or time changes them.

The units that an event can change (`affect`) are evaluated again (`evaluate`). Then the results
that may be emitted are chosen (`decide`), and their difference from the emitted results goes to the
emitter (`emit`). The run also writes its rows and restores them (`forget`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from topology.model.operator import NEVER, Plain, State
from topology.model.result import EMIT, result_id
from topology.model.saved import ValueKind
from topology.pattern.match.ids import key_bytes
from topology.pattern.match.skip import BEFORE_ALL, Barrier
from topology.pattern.match.tactics.followed import Taken
from topology.pattern.run.affect import Affected
from topology.pattern.run.decide import Visibility, find_shown_results
from topology.pattern.run.emit import Change, make_changes
from topology.pattern.run.evaluate import Evaluator, PlainWay
from topology.pattern.run.forget import BARRIER, EMITTED, restore_emitted, row_of
from topology.pattern.run.query import PartitionQuery
from topology.pattern.run.unit import BEFORE_ALL_TIME, KNOWN_BY, FoundMatch, MatchUnit
from topology.pattern.store.entry import Entry, Key
from topology.pattern.store.index import BEFORE_ALL_NS
from topology.query.results import CurrentResult


class Run:
    """One query in one partition, with its units.

    Attributes:
        plain: The plain way; None if the run takes the general way.
        written: The run's rows by key, as last written.
    """

    __slots__ = ("_at", "_barrier_key", "_evaluator", "_row_prefix", "_touched",
                 "affected", "plain", "query", "units", "visibility",
                 "written")  # fmt: skip

    def __init__(self, at: PartitionQuery) -> None:
        self._at = at
        at.owner = self
        self.query = at.query
        self.units = at.units
        self.affected = Affected(at)
        self._evaluator = Evaluator(at, self.affected)
        self.visibility = Visibility(at)
        known_by = f"{at.query.known_by[:KNOWN_BY]}{at.context.known_by}/{at.query.name}"
        self._barrier_key = f"barrier/{known_by}/{result_id(key_bytes(at.partition))}"
        self._row_prefix = f"unit/{known_by}"
        self._touched: dict[Key, Entry] = {}
        self.written: State = {}
        self.plain: PlainWay | None = None
        waits = self.visibility.emits_final or at.wiring.target_ns is not None
        if at.context.is_plain and not waits and at.query.steps and not at.doubt.margin_ns:
            self.plain = PlainWay(at, at.query.steps)

    # -- events and time ----------------------------------------------------------------------

    def evaluate(
        self,
        anchors: Mapping[Key, Entry],
        new_entry: Entry | None,
        withdrawn: Container[Entry],
        *,
        is_exchanged: bool,
    ) -> list[MatchUnit]:
        """Evaluate the units of these anchors again, and return the units to emit.

        `new_entry`: the event that changes the units; it is already in the indexes. It may put
        further units in doubt, which are returned too. `is_exchanged`: whether matches that the
        query reads were also added or removed. `withdrawn`: entries that no longer exist, so their
        units have no matches.
        """
        doubts_apart = self.affected.doubts_independently
        is_apart = doubts_apart or self.affected.possible_apart
        only = new_entry if is_apart and not is_exchanged else None
        units: list[MatchUnit] = []
        for key in sorted(anchors):
            if anchors[key] not in withdrawn:
                units.append(self._evaluator.evaluate(anchors[key], only))
            elif key in self.units:
                unit = self.units[key]
                if self._evaluator.starts_wait:
                    self.affected.wait(unit, frozenset())
                unit.replace({}, self._at.now.frontier_ns)
                units.append(unit)
        if new_entry is not None and doubts_apart:
            units += self._evaluator.put_in_doubt(new_entry, anchors)
        return units

    def follow(self, entry: Entry, filters: Sequence[int], *, in_order: bool) -> bool:
        """Process the entry the plain way, and return whether the run takes that way.

        The entry is already in the indexes.
        """
        plain = self.plain
        if plain is None:
            return False
        walks = plain.walks
        if walks.steps.is_tested and walks.is_beyond:
            self.switch_to_general()
            return False
        if in_order:
            for taken in walks.follow(entry, filters):
                self._emit_complete(plain, taken)
        else:
            for taken in walks.insert_late(entry, filters):
                unit = plain.settle(taken)
                self._emit_unit(unit, unit.found)
        return True

    def _emit_complete(self, plain: PlainWay, taken: Taken) -> None:
        """Emit a match that ends with the newest event.

        The first result of a unit does not need `emit.changes`: it is new, and cannot be decided
        yet.
        """
        unit = plain.unit_of(taken[0])
        if unit.emitted:
            unit = plain.settle(taken)
            self._emit_unit(unit, unit.found)
            return
        id_, found = plain.make_match(taken)
        unit.found[id_] = found
        unit.emitted[id_] = CurrentResult(found, 0, live=True)
        self._mark_changed(unit.anchor)
        change = Change(EMIT, id_, 0, found, found, final=False)
        self._at.emitter.take(self._at.wiring.number, self.query, self._at.partition, [change])

    def switch_to_general(self) -> None:
        """Switch to the general way, which evaluates changed units again (`Evaluator`)."""
        plain, self.plain = self.plain, None
        if plain is not None:
            plain.hand_over(self.affected, starts_wait=self._evaluator.starts_wait)

    def wake(self, unit: MatchUnit) -> bool:
        """Return whether a unit whose timer is due still exists."""
        if self.units.get(unit.anchor.key) is not unit:
            return False
        if self.plain is not None:
            self.plain.unit_of(unit.anchor)
        return True

    def delay_decisions(self, by_ns: int) -> None:
        """Delay the decision of open matches by `by_ns`, because errors are larger than before."""
        if self.query.grading is not None:
            self.switch_to_general()
            self._evaluator.delay_decisions(by_ns)
            for unit in self.units.values():
                if unit.emitted:
                    self._mark_changed(unit.anchor)

    # -- results ----------------------------------------------------------------------------------

    def emit(self, units: Iterable[MatchUnit]) -> None:
        """Emit the changes of these units."""
        for unit, visible in self.visibility.select_changed(units):
            self._emit_unit(unit, visible)

    def _emit_unit(self, unit: MatchUnit, visible: dict[str, FoundMatch]) -> None:
        if not visible and not unit.emitted:
            return
        if self.query.shows_apart:
            visible = find_shown_results(self._at, unit, visible)
        # The end of the input alone makes no result final.
        until_ns = self._at.emitter.proven_ns if self.visibility.emits_final else BEFORE_ALL_TIME
        changed = list(
            make_changes(unit, visible, self._at.now.frontier_ns, finals_until_ns=until_ns)
        )
        if changed:
            self._at.emitter.take(self._at.wiring.number, self.query, self._at.partition, changed)
            self._mark_changed(unit.anchor)
            self.visibility.note_emitted(unit)
        # A restored unit has the newest match of each result. It need not have changed the result,
        # but it places later changes among others, and says when they are final.
        for id_, found in visible.items():
            current = unit.emitted[id_]
            if current.content.decided_ns != found.decided_ns:
                self._mark_changed(unit.anchor)
            current.content = found

    # -- forgetting ---------------------------------------------------------------------------

    def forget(self) -> None:
        """Forget the units that nothing can change any more."""
        frontier_ns = self._at.now.frontier_ns
        if self.plain is not None:
            for anchor in self.plain.walks.over(frontier_ns):
                self._drop(anchor)
            return
        self.visibility.let_go()
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
        self._touched.pop(anchor.key, None)
        if self.written:
            key = self.row_key(anchor)
            if self.written.pop(key, None) is not None:
                self._at.context.rows[key] = None

    def close(self) -> None:
        """Delete the run's rows and its timer; all of its units must have been forgotten."""
        self._at.context.rows |= dict.fromkeys(self.written)
        self._at.context.changed.pop(self, None)
        self._at.context.agenda.barriers.disarm(self)

    # -- state --------------------------------------------------------------------------------

    def row_key(self, anchor: Entry) -> str:
        """Return the key of the row of the unit with this anchor."""
        source, epoch, seq = anchor.identity
        return f"{self._row_prefix}/{epoch:d}/{seq:d}/{source}"

    def _mark_changed(self, anchor: Entry) -> None:
        """Record that the unit differs from its written row."""
        if not self._touched:
            self._at.context.changed[self] = None
        self._touched[anchor.key] = anchor

    def write(self) -> None:
        """Write the rows of the units changed since the last call, and the barrier's row."""
        rows, frontier_ns = self._at.context.rows, self._at.now.frontier_ns
        for at, anchor in self._touched.items():
            row = row_of(self.units.get(at), frontier_ns)
            key = self.row_key(anchor)
            if row is not None:
                self.written[key] = rows[key] = row
            elif self.written.pop(key, None) is not None:
                rows[key] = None
        self._touched.clear()
        selection = self.visibility.selection
        if selection is not None:
            barrier = self.visibility.find_barrier(selection)
            row = (*barrier.key, barrier.includes)
            if barrier.key != BEFORE_ALL and row != self.written.get(self._barrier_key):
                self.written[self._barrier_key] = rows[self._barrier_key] = row
            until_ns = selection.next_decided_ns(frontier_ns)
            if until_ns < NEVER:
                self._at.context.agenda.barriers.arm(self, until_ns)

    def restore(self, state: State) -> None:
        """Restore the units from the stored events, and take the run's rows out of `state`."""
        if self.visibility.selection is not None:
            self._at.context.agenda.barriers.arm(self, BEFORE_ALL_NS)
            if self._barrier_key in state:
                *at, includes = self._take(self._barrier_key, BARRIER, state)
                self.visibility.selection.barrier = Barrier(tuple(at), includes)
        for anchor in self.affected.anchors(BEFORE_ALL_NS, -BEFORE_ALL_NS):
            key = self.row_key(anchor)
            row = self._take(key, EMITTED, state) if key in state else ()
            self.visibility.of(self._evaluate_again(anchor, row))

    def _take(self, key: str, kind: ValueKind, state: State) -> Any:
        """Take a row out of a state that is being restored, and return its value."""
        row = self.written[key] = kind.load(state.pop(key), None, key)
        return row

    def restore_retracted(self, anchor: Entry, state: State) -> None:
        """Restore the results of a unit whose anchor was retracted before the state was written.

        Their rows are taken out of `state`. Their revisions continue if the anchor returns.
        """
        key = self.row_key(anchor)
        if key in state:
            unit = MatchUnit(anchor, self)
            row = self._take(key, EMITTED, state)
            restore_emitted(unit, {}, row, self._at.now.frontier_ns)
            if unit.emitted:
                self.units[anchor.key] = unit

    def _evaluate_again(self, anchor: Entry, row: Plain) -> MatchUnit:
        """Return the unit as evaluated now, with the results that were emitted for it."""
        if self.plain is None:
            unit = self._evaluator.evaluate(anchor)
        else:
            unit = self.plain.walk_again(anchor, starts_wait=self._evaluator.starts_wait)
        if row:
            self._show_again(unit, row)
            if unit.emitted:
                self.units[anchor.key] = unit
            elif anchor.key not in self.units:
                self._mark_changed(
                    anchor
                )  # The unit's results were decided after its row was written.
        return unit

    def _show_again(self, unit: MatchUnit, row: Plain) -> None:
        shown: Mapping[str, FoundMatch] = unit.found
        if self.query.shows_apart:
            shown = find_shown_results(self._at, unit, shown)
        restore_emitted(unit, shown, row, self._at.now.frontier_ns)

    def put_back(self, anchor: Entry, evaluated: Plain) -> None:
        """Replace a restored unit by what it was when it was last evaluated.

        `evaluated`: its `hi_ns`, its `waits`, and its matches by id; None if it never was.
        """
        known = self.units.pop(anchor.key, None)
        if known is not None:
            self.affected.wait(known, frozenset())
        if evaluated is None:
            return
        unit = self.units[anchor.key] = MatchUnit(anchor, self)
        unit.hi_ns, waits, found = evaluated
        unit.found = found
        if self._evaluator.starts_wait:
            self.affected.wait(unit, waits)
        self._show_again(unit, self.written.get(self.row_key(anchor), ()))
        self.visibility.of(unit)
