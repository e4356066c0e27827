"""One query in one partition: what its units say, whenever an event or time can change it.

Source: patterns.md 3.2, 4.4, 4.5. Which units are `affected` (`topology.pattern.run.affected`) is
asked of the indexes; these are evaluated anew, what may be emitted of them is said by `visible` and
`selection`, and the difference to what was emitted before (`ledger`) goes to the emitter.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from topology.model.result import CONFIRMED, EMIT, UNCERTAIN, digest_of, framed
from topology.pattern.match.anchors import spelled_key
from topology.pattern.match.evaluation import Evaluation, Place
from topology.pattern.match.match import Match, same_content
from topology.pattern.match.skip import BEFORE_ALL
from topology.pattern.match.uncertain.doubt import NO_DOUBT
from topology.pattern.match.uncertain.grade import Grading
from topology.pattern.run.affected import Affected
from topology.pattern.run.automaton import Automaton
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.context import RunContext
from topology.pattern.run.gathering import Gathered
from topology.pattern.run.ledger import Change, FoundMatch, Now, Unit, changes
from topology.pattern.run.run_state import RunState
from topology.pattern.run.selection import Selection
from topology.pattern.run.sure_units import SureUnits
from topology.pattern.run.unit_state import take_back, waiting_unit
from topology.pattern.run.visible import Visibility
from topology.pattern.run.wiring import Wiring
from topology.pattern.store.entry import Entry, Identity, Key
from topology.pattern.store.index import EntryIndex
from topology.query.results import CurrentResult


class Run:
    """`units` by the key of their anchor, those only that have emitted something or may yet.
    `gathered`: those that wait to be looked at (EMIT SLACK). `automaton`: follows the walks of the
    units, as long as all is plain."""

    __slots__ = (
        "_doubt",
        "_emitter",
        "_has_starts_that_wait",
        "_is_alone",
        "_partition",
        "_place",
        "_prefix",
        "_selection",
        "_state",
        "_sure",
        "_visibility",
        "_wiring",
        "affected",
        "automaton",
        "gathered",
        "query",
        "units",
    )

    def __init__(
        self,
        wiring: Wiring,
        place: Place,
        indexes: Sequence[EntryIndex],
        partition: Sequence[Any],
        context: RunContext,
    ) -> None:
        key = spelled_key(partition)
        prefix = b"%d:" % len(key) + key + wiring.query.form.fingerprint.encode()
        self._wiring = wiring
        self.query: Compiled = wiring.query
        self._place = place
        self._partition = partition
        self._has_starts_that_wait = (
            wiring.query.query.matches == "one" and not wiring.query.shape.by_end
        )
        self._prefix = framed(prefix)
        self._doubt = NO_DOUBT if wiring.query.grading is None else context.doubt
        self._emitter = context.emitter
        self.units: dict[Key, Unit] = {}
        self._sure = SureUnits()
        self.affected = Affected(wiring, place, indexes, self.units, self._doubt)
        self.gathered = Gathered()
        self._visibility = Visibility(wiring, context, self)
        self._selection = Selection(wiring.query)
        self._state = RunState(wiring.query, partition, self, context.moved)
        self._is_alone = context.is_alone
        self.automaton: Automaton | None = None
        line = wiring.query.line if context.is_plain else None
        is_told_again = self._visibility.emits_final or wiring.target_ns is not None
        if line is not None and not is_told_again and not self._doubt.margin_ns:
            self.automaton = Automaton(line, wiring, place, self.units)

    # -- events and time ----------------------------------------------------------------------

    def look(self, anchors: Sequence[Entry], now: Now, newcomer: Entry | None = None) -> None:
        """Evaluate these units anew, and emit what has changed. `newcomer`: the entry that changes
        them, in the indexes already; it alone may put others in doubt."""
        if newcomer is not None and self.affected.doubts_apart:
            units = [self._evaluate(anchor, now, newcomer) for anchor in anchors]
            doubted = self._put_in_doubt(newcomer, {anchor.key for anchor in anchors}, now)
            if units or doubted:
                self.emit([*units, *doubted], now)
        else:
            self.emit([self._evaluate(anchor, now) for anchor in anchors], now)

    def moved(
        self, entry: Entry, filters: Sequence[int], now: Now, at_ns: int, *, in_order: bool
    ) -> bool:
        """The plain way: the entry, in the indexes already, moves the walks that it concerns. False
        if it is not open, or no more."""
        automaton = self.automaton
        if automaton is None:
            return False
        if automaton.line.is_tested and automaton.is_beyond:
            self.give_up()
            return False
        if in_order:
            units = automaton.follow(entry, filters)
            is_only = self._is_alone and len(units) == 1
            for unit in units:
                self._complete(automaton, unit, now, at_ns, is_only=is_only)
        else:
            for unit in automaton.put_right(entry, filters):
                self._settle(automaton, unit, now)
                self._emit_of(unit, unit.found, now)
        return True

    def give_up(self) -> None:
        """From now on the general way: the units await what their walks did."""
        automaton, self.automaton = self.automaton, None
        if automaton is not None:
            for unit in self.units.values():
                automaton.forget_decided(unit)
                unit.hi_ns, waits = automaton.evaluated(unit)
                if self._has_starts_that_wait:
                    self.affected.wait(unit, waits)

    def ask_again(self, anchor: Key, now: Now) -> None:
        unit = self.units.get(anchor)
        if unit is not None:
            if self.automaton is not None:
                self.automaton.forget_decided(unit)
            self.emit([unit], now)

    def gathers_ns(self, filters: Sequence[int], late_by_ns: int) -> int:
        """Note an event of these filters; for how long late ones are gathered (EMIT SLACK)."""
        lateness = self._wiring.lateness
        if self._wiring.filters.intersection(filters):
            lateness.saw(late_by_ns)
        if self.query.query.slack_ns is not None:
            return self.query.query.slack_ns
        return lateness.wait_ns(self.query.within_ns)

    def gather(self, anchors: Iterable[Entry], due_ns: int) -> None:
        """Look at these units when what is gathered is due."""
        for anchor in anchors:
            self._state.touch(anchor)
        self.gathered.add(anchors, due_ns)

    def evaluate_gathered(self, now: Now) -> list[Unit]:
        """The units that wait, evaluated anew; what has changed is for `emit`."""
        anchors = self.gathered.take()
        for anchor in anchors:
            self._state.touch(anchor)
        return [self._evaluate(anchor, now) for anchor in anchors]

    def put_off(self, by_ns: int, floor_ns: int) -> None:
        """Errors are larger than it seemed."""
        if self._doubt.margin_ns:
            self.give_up()
            for unit in self.units.values():
                unit.put_off(by_ns, floor_ns)
                if self.affected.doubts_apart:
                    self._sure.note(unit)
                if unit.emitted:
                    self._state.touch(unit.anchor)

    # -- what units say -----------------------------------------------------------------------

    def _settle(self, automaton: Automaton, unit: Unit, now: Now) -> None:
        """Take what the walk of the unit comes to."""
        automaton.forget_decided(unit)
        found = {}
        if len(unit.taken) == automaton.line.count:
            match = automaton.line.match(unit.taken)
            found[self._id_of(match)] = FoundMatch(match, self.query.decided_ns(match))
        unit.replace(found, now.floor_ns)

    def _complete(
        self, automaton: Automaton, unit: Unit, now: Now, at_ns: int, *, is_only: bool
    ) -> None:
        """Its match ends with the newest event. The plain case of the ledger: nothing of the unit
        was ever emitted, and what it says is not decided. `is_only`: nothing else is said now."""
        if unit.emitted or unit.found:
            automaton.forget_decided(unit)
            if unit.emitted:
                self._settle(automaton, unit, now)
                self._emit_of(unit, unit.found, now)
                return
        match = automaton.line.match(unit.taken)
        id_, found = self._id_of(match), FoundMatch(match, self.query.decided_ns(match))
        unit.found[id_] = found
        unit.emitted[id_] = CurrentResult(found, 0, live=True)
        self._state.touch(unit.anchor)
        change = Change(EMIT, id_, 0, found, found, final=False)
        if is_only:
            self._emitter.tell(self.query, self._partition, change, at_ns, now.floor_ns)
        else:
            self._emitter.take(self._wiring.number, self.query, self._partition, [change])

    def _id_of(self, match: Match) -> str:
        return digest_of(self._prefix + framed(self.query.ids.of(match)))

    def _evaluate(self, anchor: Entry, now: Now, newcomer: Entry | None = None) -> Unit:
        evaluation = self._matches_of(anchor)
        unit = self.units.get(anchor.key)
        if unit is None:
            unit = Unit(anchor)
        unit.hi_ns = evaluation.hi_ns
        if self._has_starts_that_wait:
            self.affected.wait(unit, evaluation.waits)
        if evaluation.overflow and not unit.overflowed:
            unit.overflowed = True
            self._emitter.overflowed(self.query, unit)
        found = {}
        for match in evaluation.matches:
            if match.first.time_ns < self._wiring.since_ns:
                continue
            id_ = self._id_of(match)
            found[id_] = self._found(match, now, unit.found.get(id_), newcomer)
        unit.replace(found, now.floor_ns)
        if unit.found or unit.emitted or unit.overflowed or unit.waits != frozenset():
            self.units[anchor.key] = unit
            if self.affected.doubts_apart:
                self._sure.note(unit)
        return unit

    def _matches_of(self, anchor: Entry) -> Evaluation:
        if self.query.ranges is not None:
            return self.query.ranges.evaluate(self._place, anchor, self._wiring.since_ns)
        if self.query.possible is not None and self._doubt.error_ns:
            return self.query.possible.evaluate(self._place, anchor, self._doubt.error_ns)
        return self.query.tactic.evaluate(self._place, anchor)

    def _found(
        self, match: Match, now: Now, known: FoundMatch | None, newcomer: Entry | None
    ) -> FoundMatch:
        """With how sure it is; of what is decided nobody will ask. `known`: what was found by the
        same id, before the newcomer."""
        error_ns, grading = self._doubt.error_ns, self.query.grading
        decided_ns = self.query.decided_ns(match)
        if not error_ns or grading is None:
            return FoundMatch(match, decided_ns)
        decided_ns = self._doubt.decided_ns(decided_ns, self.query.query.amend_ns)
        if decided_ns < now.floor_ns:
            return FoundMatch(match, decided_ns)
        if known is not None and newcomer is not None and same_content(known.match, match):
            confidence = self._confidence_of(grading, known, newcomer)
        else:
            confidence = grading.confidence(self._place, match)
        return FoundMatch(match, decided_ns, confidence, error_ns)

    def _confidence_of(self, grading: Grading, found: FoundMatch, newcomer: Entry) -> str:
        """How sure a match is that was there before the newcomer. A doubt stays; a sure one is
        asked about the newcomer, and about all where errors have grown since it was asked."""
        if found.confidence == UNCERTAIN:
            return UNCERTAIN
        if found.graded_ns != self._doubt.error_ns:
            return grading.confidence(self._place, found.match)
        return CONFIRMED if grading.stands(self._place, found.match, newcomer) else UNCERTAIN

    def _put_in_doubt(self, newcomer: Entry, evaluated: Container[Key], now: Now) -> list[Unit]:
        """The units, but for those evaluated, of which something is sure no more."""
        grading, doubted = self.query.grading, []
        if grading is None:
            return []
        for unit in self._sure.around(newcomer, self.query.within_ns):
            if unit.anchor.key in evaluated or not unit.is_undecided(newcomer.time_ns):
                continue
            if self._is_put_in_doubt(grading, unit, newcomer, now):
                self._sure.note(unit)
                doubted.append(unit)
        return doubted

    def _is_put_in_doubt(self, grading: Grading, unit: Unit, newcomer: Entry, now: Now) -> bool:
        error_ns, changed = self._doubt.error_ns, False
        for id_, found in list(unit.found.items()):
            if found.confidence == UNCERTAIN or found.decided_ns < now.floor_ns:
                continue
            if self._confidence_of(grading, found, newcomer) == UNCERTAIN:
                changed = True
                unit.found[id_] = FoundMatch(found.match, found.decided_ns, UNCERTAIN, error_ns)
            else:
                found.graded_ns = error_ns
        return changed

    def emit(self, units: Iterable[Unit], now: Now) -> None:
        """What has changed of these units."""
        if not self._selection.chooses:
            for unit in units:
                self._emit_of(unit, self._visibility.of(unit, now), now)
            return
        self._show(units, now)
        for key in self._selection.settle():
            shown = self.units.get(key)
            if shown is not None:
                self._emit_of(shown, self._selection.kept(key), now)

    def _emit_of(self, unit: Unit, visible: dict[str, FoundMatch], now: Now) -> None:
        if not visible and not unit.emitted:
            return
        changed = list(changes(unit, visible, now.floor_ns, self._visibility.emits_final))
        if changed:
            self._emitter.take(self._wiring.number, self.query, self._partition, changed)
            self._state.touch(unit.anchor)
            self._visibility.emitted(unit)

    def _show(self, units: Iterable[Unit], now: Now) -> None:
        """Tell SKIP what is visible of these units, and of those of which time has shown more."""
        selection, visibility = self._selection, self._visibility
        if selection.is_stale:
            selection.is_stale = False
            units = list(self.units.values())
        else:
            found = (self.units.get(key) for key in visibility.uncovered(now))
            units = [*units, *(unit for unit in found if unit is not None)]
        for unit in units:
            selection.replace(unit.anchor.key, visibility.of(unit, now))

    # -- forgetting ---------------------------------------------------------------------------

    def forget(self, now: Now) -> dict[str, None]:
        """Let go of units that nothing can change any more; their keys in the state."""
        if self.automaton is not None:
            for unit in self.automaton.over(now.floor_ns):
                self.automaton.forget(unit)
                self._drop(unit)
            return self._state.take_closed()
        shape = self.query.shape
        if self._selection.chooses:
            self._show((), now)
            self._selection.barrier = self._selection.decided(now.floor_ns)
            self._selection.clear()  # what is decided is let go of
        opens = not shape.by_end or shape.looks_ahead or self._selection.chooses
        open_ns = self.affected.span_ns if opens else self._doubt.margin_ns
        for unit in list(self.units.values()):
            if unit.anchor.time_ns + open_ns < now.floor_ns:
                self.affected.wait(unit, frozenset())
                self._drop(unit)
            elif unit.anchor.time_ns < now.floor_ns:
                unit.forget(now.floor_ns)
        return self._state.take_closed()

    def _drop(self, unit: Unit) -> None:
        del self.units[unit.anchor.key]
        self._sure.drop(unit.anchor.key)
        self._state.forget(unit.anchor)

    def close(self) -> dict[str, None]:
        """The keys in the state of all that is forgotten with the run."""
        return self._state.close()

    # -- state --------------------------------------------------------------------------------

    def state(self, now: Now, *, everything: bool) -> dict[str, Any]:
        """All units, or those that changed since it was asked last."""
        barrier = self._selection.barrier
        if self._selection.chooses:
            self._show((), now)
            barrier = self._selection.decided(now.floor_ns)
        return self._state.rows(
            self.units, self.gathered, barrier, now.floor_ns, everything=everything
        )

    def revive(self, state: dict[str, Any], now: Now, entries: Mapping[Identity, Entry]) -> None:
        """Find again what was found, and take out of the state what was emitted of it."""
        self._selection.clear()
        barrier = self._state.take_barrier(state)
        if barrier is not None:
            self._selection.barrier = barrier
        for anchor in self.affected.anchors(BEFORE_ALL[0], -BEFORE_ALL[0]):
            due_ns, rows = self._state.take_row(anchor, state)
            if due_ns is not None:
                self.give_up()
                self.gathered.add([anchor], due_ns)
                if rows is not None:
                    self._visibility.of(self._revive_waiting(anchor, rows, entries), now)
                continue
            unit = self._walked(anchor, now) or self._evaluate(anchor, now)
            for row in rows:
                take_back(unit, row, now.floor_ns)
            if unit.emitted:
                self.units[anchor.key] = unit
            self._visibility.of(unit, now)
            if self._state.key_of(anchor) in self._state.written and anchor.key not in self.units:
                self._state.touch(anchor)  # decided since it was written

    def _walked(self, anchor: Entry, now: Now) -> Unit | None:
        """The unit as its automaton has it; None if there is none."""
        automaton = self.automaton
        if automaton is None:
            return None
        unit = automaton.walk(anchor) or Unit(anchor)
        self._settle(automaton, unit, now)
        is_over = self._has_starts_that_wait and not automaton.waits(unit)
        if is_over and not unit.found:
            self.units.pop(anchor.key, None)
        return unit

    def _revive_waiting(self, anchor: Entry, state: Any, entries: Mapping[Identity, Entry]) -> Unit:
        """As it was when it was evaluated last, not as it would be now."""
        unit, waits = waiting_unit(anchor, state, entries)
        self.units[anchor.key] = unit
        if self._has_starts_that_wait:
            self.affected.wait(unit, None if waits is None else frozenset(map(tuple, waits)))
        return unit
