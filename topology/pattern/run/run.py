"""One query on one shelf: which units an event can change, and what they say then.

Source: patterns.md 3.2, 4.4, 4.5. A match is *visible* once it may be told: at once (EMIT
EAGER), but with a negation at its end only when the clock has passed the end of its
window; or when nothing can change it any more (EMIT FINAL).

Cost of an event in order: under skip-till-any one evaluation, if it can end a match; for
MATCHES ONE one for each start that waits for its kind; for ALL by start events one for each
start in the window, if it can end a match. A late event: one for each unit in a window. Where
events have errors, one more for each match that is not decided yet: it may be in doubt now.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from topology.model.result import result_id
from topology.pattern.match.anchors import spelled_key
from topology.pattern.match.evaluation import Evaluation, Place
from topology.pattern.match.match import Match
from topology.pattern.match.skip import BEFORE_ALL, Barrier, after, by_start
from topology.pattern.match.uncertain.doubt import NO_DOUBT, Doubt
from topology.pattern.run.compiled import Compiled, Slot
from topology.pattern.run.ledger import Change, Found, Now, Unit, changes
from topology.pattern.run.unit_state import said_rows, take_back, waiting_state, waiting_unit
from topology.pattern.run.wiring import Wiring
from topology.pattern.store.entry import Entry, Identity, Key
from topology.pattern.store.index import Index

KNOWN_BY: Final = 16
"""Digits of a query's fingerprint that its state is known by."""

CLOCK: Final = "clock"
FLOOR: Final = "floor"
PROMISE: Final = "promise"
"""What a unit waits for."""

ANY_SLOT: Final[Slot] = (-1, -1)
"""Where those wait that an entry of any kind can change."""


class Run:
    """`units` by the key of their anchor, those only that have said something or may yet.

    What it finds out it leaves for the engine to collect: `changes`; `overflowed` units;
    `due`, the instants at which units ask to be looked at again, and by what they are counted."""

    __slots__ = (
        "_barrier",
        "_closed",
        "_doubt",
        "_indexes",
        "_key",
        "_postponed",
        "_prefix",
        "_tells_final",
        "_told_barrier",
        "_touched",
        "_waiting",
        "_wiring",
        "_written",
        "changes",
        "due",
        "number",
        "overflowed",
        "partition",
        "place",
        "query",
        "units",
    )

    def __init__(
        self,
        wiring: Wiring,
        place: Place,
        indexes: Sequence[Index],
        partition: Sequence[Any],
        doubt: Doubt,
        *,
        tells_final: bool,
    ) -> None:
        self._wiring = wiring
        self._doubt = NO_DOUBT if wiring.query.grading is None else doubt
        self._indexes = indexes
        self._key = spelled_key(partition)
        self._prefix = b"%d:" % len(self._key) + self._key + wiring.query.form.fingerprint.encode()
        self.partition = partition
        self.number = wiring.number
        self._tells_final = tells_final
        self._waiting: dict[Slot, dict[Key, Unit]] = {}
        self._barrier = Barrier()
        self.place = place
        self.query: Compiled = wiring.query
        self.units: dict[Key, Unit] = {}
        self.changes: list[Change] = []
        self.due: list[tuple[str, int, Key]] = []
        self.overflowed: list[Unit] = []
        self._touched: dict[Key, Entry] = {}
        self._closed: dict[str, None] = {}
        self._told_barrier = BEFORE_ALL
        self._written: dict[str, Any] = {}  # as a table has it
        self._postponed: dict[Key, Entry] = {}

    # -- who is affected ----------------------------------------------------------------------

    def affected(self, entry: Entry, kinds: Sequence[int], *, in_order: bool) -> list[Entry]:
        """The anchors of the units that the entry, now in the indexes, can change."""
        wiring, shape = self._wiring, self.query.shape
        mine = wiring.kinds.intersection(kinds)
        if not mine and not shape.strict:
            return []
        if not in_order or (self._doubt.margin_ns and self.query.possible is not None):
            return self._affected_late(entry)
        anchors = self._affected_in_order(entry, mine)
        if self._doubt.margin_ns:
            affected = {anchor.key: anchor for anchor in (*anchors, *self._undecided(entry))}
            return [affected[key] for key in sorted(affected)]
        return anchors

    def _affected_in_order(self, entry: Entry, mine: frozenset[int]) -> list[Entry]:
        wiring, shape = self._wiring, self.query.shape
        if shape.by_end:
            if shape.looks_ahead and mine & wiring.blockers:
                return self._anchors(entry.time_ns - self._span_ns, entry.time_ns)
            return [entry] if mine & wiring.anchors else []
        if self.query.query.matches == "one":
            woken = self._woken(mine, entry)
            if mine & wiring.anchors:
                woken.append(entry)
            return woken
        if mine & wiring.enders or (shape.has_end_negation and mine & wiring.blockers):
            return self._anchors(entry.time_ns - self._span_ns, entry.time_ns)
        return []

    def _undecided(self, entry: Entry) -> list[Entry]:
        """Units with a match that an event of this time can still change."""
        time_ns, known = entry.time_ns, self.units.get
        since_ns = time_ns - self._span_ns - self._doubt.margin_ns
        return [
            anchor
            for anchor in self._anchors(since_ns, -BEFORE_ALL[0])
            if (unit := known(anchor.key)) is not None and unit.is_undecided(time_ns)
        ]

    @property
    def _span_ns(self) -> int:
        return self.query.within_ns + self._doubt.margin_ns

    def _affected_late(self, entry: Entry) -> list[Entry]:
        shape, time_ns, span_ns = self.query.shape, entry.time_ns, self._span_ns
        margin_ns = self._doubt.margin_ns
        if shape.by_end:
            since_ns = time_ns - (span_ns if shape.looks_ahead else margin_ns)
            anchors = self._anchors(since_ns, time_ns + span_ns)
        else:
            until_ns = time_ns + (span_ns if shape.has_start_negation else margin_ns)
            anchors = self._anchors(time_ns - span_ns, until_ns)
        if margin_ns:
            if self.query.possible is not None:
                return anchors  # a bound may be from before errors were so large
            return [anchor for anchor in anchors if self._reaches(anchor, entry)]
        known = self.units.get
        return [
            anchor
            for anchor in anchors
            if (unit := known(anchor.key)) is None or time_ns <= unit.hi_ns or anchor is entry
        ]

    def _reaches(self, anchor: Entry, entry: Entry) -> bool:
        unit = self.units.get(anchor.key)
        if unit is None or entry.time_ns <= unit.hi_ns or anchor is entry:
            return True
        return unit.is_undecided(entry.time_ns)

    def _anchors(self, since_ns: int, until_ns: int) -> list[Entry]:
        cuts = []
        for kind in self._wiring.anchors:
            index = self._indexes[kind]
            low, high = index.before_time(since_ns), index.up_to_time(until_ns)
            cuts.append(index.entries[low:high])
        if len(cuts) == 1:
            return cuts[0]
        found = {entry.key: entry for cut in cuts for entry in cut}
        return [found[key] for key in sorted(found)]

    def _woken(self, kinds: Iterable[int], entry: Entry) -> list[Entry]:
        """The starts whose walk goes on with this entry; those too old for it wait no more."""
        slots = {slot for kind in kinds for slot in self._wiring.slots_of.get(kind, ())}
        since_ns = entry.time_ns - self._span_ns
        found: dict[Key, Entry] = {}
        for slot in (ANY_SLOT, *sorted(slots)):
            for key, unit in list(self._waiting.get(slot, {}).items()):
                if unit.anchor.time_ns < since_ns:
                    self._wait(unit, frozenset())
                else:
                    found[key] = unit.anchor
        return [found[key] for key in sorted(found)]

    def _wait(self, unit: Unit, waits: frozenset[Slot] | None) -> None:
        for slot in (ANY_SLOT,) if unit.waits is None else unit.waits:
            self._waiting.get(slot, {}).pop(unit.anchor.key, None)
        unit.waits = waits
        for slot in (ANY_SLOT,) if waits is None else waits:
            self._waiting.setdefault(slot, {})[unit.anchor.key] = unit

    # -- what they say ------------------------------------------------------------------------

    def look(self, anchors: Iterable[Entry], now: Now) -> None:
        """Evaluate these units anew, and say what has changed."""
        self._say([self._evaluate(anchor, now) for anchor in anchors], now)

    def gathers_ns(self, kinds: Sequence[int], late_by_ns: int) -> int:
        """Note an event of these kinds; for how long late ones are gathered (EMIT SLACK)."""
        lateness = self._wiring.lateness
        if self._wiring.kinds.intersection(kinds):
            lateness.saw(late_by_ns)
        if self.query.query.slack_ns is not None:
            return self.query.query.slack_ns
        return lateness.wait_ns(self.query.within_ns)

    def postpone(self, anchors: Iterable[Entry]) -> None:
        """Look at these units when what is gathered is due."""
        for anchor in anchors:
            self._postponed[anchor.key] = anchor
            self._touched[anchor.key] = anchor

    def take_postponed(self) -> list[Entry]:
        postponed = [self._postponed[key] for key in sorted(self._postponed)]
        self._postponed.clear()
        self._touched.update((anchor.key, anchor) for anchor in postponed)
        return postponed

    @property
    def postponed_since_ns(self) -> int:
        return min(key[0] for key in self._postponed)

    def ask_again(self, anchor: Key, now: Now) -> None:
        """An instant has come that the unit asked for."""
        unit = self.units.get(anchor)
        if unit is not None:
            self._say([unit], now)

    def _evaluate(self, anchor: Entry, now: Now) -> Unit:
        evaluation = self._matches_of(anchor)
        unit = self.units.get(anchor.key)
        if unit is None:
            unit = Unit(anchor)
        unit.hi_ns = evaluation.hi_ns
        if self.query.query.matches == "one" and not self.query.shape.by_end:
            self._wait(unit, evaluation.waits)
        if evaluation.overflow and not unit.overflowed:
            unit.overflowed = True
            self.overflowed.append(unit)
        found = {}
        for match in evaluation.matches:
            if match.first.time_ns < self._wiring.since_ns:
                continue
            found[self.id_of(match)] = self._found(match, now)
        unit.replace(found, now.floor_ns)
        if unit.found or unit.said or unit.overflowed or unit.waits != frozenset():
            self.units[anchor.key] = unit
        return unit

    def _matches_of(self, anchor: Entry) -> Evaluation:
        if self.query.possible is not None and self._doubt.error_ns:
            return self.query.possible.evaluate(self.place, anchor, self._doubt.error_ns)
        return self.query.tactic.evaluate(self.place, anchor)

    def _found(self, match: Match, now: Now) -> Found:
        """With how sure it is; of what is decided nobody will ask."""
        error_ns, grading = self._doubt.error_ns, self.query.grading
        decided_ns = self.query.decided_ns(match)
        if not error_ns or grading is None:
            return Found(match, decided_ns)
        decided_ns = self._doubt.decided_ns(decided_ns, self.query.query.amend_ns)
        if decided_ns < now.floor_ns:
            return Found(match, decided_ns)
        return Found(match, decided_ns, grading.confidence(self.place, match, error_ns))

    def id_of(self, match: Match) -> str:
        return result_id(self._prefix, self.query.ids.of(match))

    def _say(self, units: Iterable[Unit], now: Now) -> None:
        if self.query.query.skip == "none":
            for unit in units:
                self._tell(unit, self._visible(unit, now), now)
            return
        kept = self._selected(now)
        for unit in list(self.units.values()):
            self._tell(unit, kept.get(unit.anchor.key, {}), now)

    def _tell(self, unit: Unit, visible: dict[str, Found], now: Now) -> None:
        if not visible and not unit.said:
            return
        told = list(changes(unit, visible, now.floor_ns, self._tells_final))
        if told:
            self.changes += told
            self._touched[unit.anchor.key] = unit.anchor

    def _visible(self, unit: Unit, now: Now) -> dict[str, Found]:
        """What may be told of the unit; asks for another look when there will be more."""
        if self._wiring.promised_ns is not None:
            visible = self._promised(unit, self._wiring.promised_ns)
        elif self.query.query.emit == "final":
            visible = {i: f for i, f in unit.found.items() if f.decided_ns < now.floor_ns}
        elif self.query.shape.has_end_negation:
            visible = {}
            for id_, found in unit.found.items():
                over_ns = found.match.first.time_ns + self.query.within_ns
                if over_ns < now.clock_ns:
                    visible[id_] = found
                else:
                    self._ask(unit, over_ns, CLOCK)
        else:
            visible = unit.found
        if self._tells_final or self.query.query.emit == "final":
            for found in unit.found.values():
                if found.decided_ns >= now.floor_ns:
                    self._ask(unit, found.decided_ns, FLOOR)
        return visible

    def _promised(self, unit: Unit, promised_ns: int) -> dict[str, Found]:
        """What is decided before that instant, and what was told when it was."""
        visible = {}
        for id_, found in unit.found.items():
            said = unit.said.get(id_)
            if found.decided_ns < promised_ns or (said is not None and said.live):
                visible[id_] = found
            else:
                self._ask(unit, found.decided_ns, PROMISE)
        return visible

    def _ask(self, unit: Unit, ns: int, why: str) -> None:
        asked = (ns, why)
        if asked not in unit.asked:
            unit.asked.add(asked)
            self.due.append((why, ns, unit.anchor.key))

    def _selected(self, now: Now) -> dict[Key, dict[str, Found]]:
        """By unit, what SKIP keeps of all that is visible."""
        kept: dict[Key, dict[str, Found]] = {}
        barrier = self._barrier
        for key, id_, found in self._sorted(now):
            if not barrier.drops(found.match):
                kept.setdefault(key, {})[id_] = found
                barrier = barrier.behind(self._after(found.match))
        return kept

    def _sorted(self, now: Now) -> list[tuple[Key, str, Found]]:
        visible = [
            (key, id_, found)
            for key, unit in self.units.items()
            for id_, found in self._visible(unit, now).items()
        ]
        order = {id(match): at for at, match in enumerate(by_start(f.match for _, _, f in visible))}
        return sorted(visible, key=lambda each: order[id(each[2].match)])

    def _after(self, match: Match) -> Barrier:
        query = self.query.query
        aliases = self.query.aliases[match.alternative]
        component = aliases.index(query.skip_to) if query.skip_to in aliases else None
        return after(match, query.skip, component)

    def put_off(self, by_ns: int, floor_ns: int) -> None:
        """Errors are larger than it seemed."""
        if self._doubt.margin_ns:
            for key, unit in self.units.items():
                unit.put_off(by_ns, floor_ns)
                if unit.said:
                    self._touched[key] = unit.anchor

    # -- forgetting ---------------------------------------------------------------------------

    def forget(self, now: Now) -> None:
        """Let go of units that nothing can change any more."""
        self._barrier = self._decided_barrier(now)
        shape = self.query.shape
        opens = not shape.by_end or shape.looks_ahead or self.query.query.skip != "none"
        open_ns = self._span_ns if opens else self._doubt.margin_ns
        for key, unit in list(self.units.items()):
            if unit.anchor.time_ns + open_ns < now.floor_ns:
                self._wait(unit, frozenset())
                del self.units[key]
                self._touched.pop(key, None)
                name = self._state_key(unit.anchor)
                if self._written.pop(name, None) is not None:
                    self._closed[name] = None
            else:
                unit.forget(now.floor_ns)

    def _decided_barrier(self, now: Now) -> Barrier:
        """What the decided matches drop of those that follow."""
        barrier = self._barrier
        if self.query.query.skip != "none":
            for _, _, found in self._sorted(now):
                if found.decided_ns < now.floor_ns and not barrier.drops(found.match):
                    barrier = barrier.behind(self._after(found.match))
        return barrier

    def take_closed(self) -> dict[str, None]:
        """The state keys of what was forgotten since it was asked last."""
        closed, self._closed = self._closed, {}
        return closed

    def close(self) -> dict[str, None]:
        """The state keys of all that is forgotten with the run."""
        if self._told_barrier != BEFORE_ALL:
            self._closed[self._barrier_key] = None
        return self._closed | dict.fromkeys(self._written)

    # -- state --------------------------------------------------------------------------------

    def state(self, now: Now, due_ns: int | None, *, everything: bool) -> dict[str, Any]:
        """Revisions of what is not decided, by unit; all units, or those that changed. For one
        that waits to be looked at (until `due_ns`) also what was said: it is not what would be
        found now. What has been decided since it was written stands until the unit changes, or is
        forgotten."""
        states: dict[str, Any] = {}
        for key, anchor in sorted(self._touched.items()):
            state = self._state_of(key, due_ns, now.floor_ns)
            name = self._state_key(anchor)
            if state is not None or name in self._written:
                states[name] = state
        if everything:
            states = {name: s for name, s in (self._written | states).items() if s is not None}
        else:
            self._written.update(states)
            for name in [name for name, state in states.items() if state is None]:
                del self._written[name]
        barrier = self._decided_barrier(now)
        if barrier.key != BEFORE_ALL and (everything or barrier.key != self._told_barrier):
            states[self._barrier_key] = [*barrier.key, barrier.includes]
        if not everything:
            self._touched.clear()
            self._told_barrier = barrier.key
        return states

    def _state_of(self, key: Key, due_ns: int | None, floor_ns: int) -> Any:
        unit = self.units.get(key)
        if key in self._postponed:
            return [due_ns, None if unit is None else waiting_state(unit, floor_ns)]
        rows = [] if unit is None else said_rows(unit, floor_ns)
        return [None, rows] if rows else None

    def _state_key(self, anchor: Entry) -> str:
        event = anchor.event
        return f"unit/{self._known_by}/{event.epoch}/{event.seq}/{event.source}"

    @property
    def _barrier_key(self) -> str:
        return f"barrier/{self._known_by}/{result_id(self._key)}"

    @property
    def _known_by(self) -> str:
        return f"{self.query.form.fingerprint[:KNOWN_BY]}/{self.query.name}"

    def revive(
        self, state: dict[str, Any], now: Now, entries: Mapping[Identity, Entry]
    ) -> int | None:
        """Find again what was found, and take out of the state what was said of it; when what
        waits to be looked at is due."""
        barrier = state.pop(self._barrier_key, None)
        if barrier is not None:
            *key, includes = barrier
            self._barrier = Barrier(tuple(key), includes)
            self._told_barrier = self._barrier.key
        gathered_until_ns = None
        for anchor in self._anchors(BEFORE_ALL[0], -BEFORE_ALL[0]):
            name = self._state_key(anchor)
            if name in state:
                self._written[name] = state[name]
            due_ns, rows = state.pop(name, (None, ()))
            if due_ns is not None:
                gathered_until_ns = due_ns
                self._postponed[anchor.key] = anchor
                if rows is not None:
                    self._visible(self._revive_waiting(anchor, rows, entries), now)
                continue
            unit = self._evaluate(anchor, now)
            for row in rows:
                take_back(unit, row, now.floor_ns)
            if unit.said:
                self.units[anchor.key] = unit
            self._visible(unit, now)
            if name in self._written and anchor.key not in self.units:
                self._touched[anchor.key] = anchor  # decided since it was written
        return gathered_until_ns

    def _revive_waiting(self, anchor: Entry, state: Any, entries: Mapping[Identity, Entry]) -> Unit:
        """As it was when it was evaluated last, not as it would be now."""
        unit, waits = waiting_unit(anchor, state, entries)
        self.units[anchor.key] = unit
        if self.query.query.matches == "one" and not self.query.shape.by_end:
            self._wait(unit, None if waits is None else frozenset(map(tuple, waits)))
        return unit
