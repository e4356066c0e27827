"""Pattern queries over one store of events, right in any order of arrival.

Source: patterns.md 3 and 4. An accepted event is put into the indexes of the kinds it is of,
and the units that it can change, in or out of order, are evaluated anew: what they say
differently is said as emit, update or retract. The *frontier* is a promise that every event
before it has come; what is decided before it is final, and events before it are late.

In = stored + irrelevant + late + duplicate + conflict + unsure + refused; `counts` has them.

Order of what one event causes: by query, in the order they were given; of a query first
retracts, then updates, then emits, each by (end, start, id).

Bounds: `MAX_RETAINED` entries, `max_partitions` keys of each partition key, a query's LIMIT
results of a unit and its MAX_STEPS. What is beyond is told, never dropped in silence.

Memory: some 400 bytes an entry retained and 16 for each index it is in; 300 for each result
not yet final, and for each start that still waits (MATCHES ONE).

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py, tests/topology/pattern/test_late_errors.py
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from topology.model.operator import NEVER, Changes, State
from topology.model.result import EMIT, RETRACT, UPDATE, Finding, MatchResult, Overflow
from topology.pattern.match.uncertain.doubt import NO_DOUBT, Doubt
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.ledger import Change, Now, Unit
from topology.pattern.run.partitions import Hall, Shelf, alike
from topology.pattern.run.reach import within_reach
from topology.pattern.run.results import Teller, member
from topology.pattern.run.run import CLOCK, Run
from topology.pattern.run.timers import Waits
from topology.pattern.run.wiring import Wiring
from topology.pattern.store.entry import Entry, Identity, Key
from topology.pattern.store.index import Index
from topology.pattern.tree.defaults import ends_in_negation

STORED: Final = "stored"
IRRELEVANT: Final = "irrelevant"
LATE: Final = "late"
DUPLICATE: Final = "duplicate"
CONFLICT: Final = "conflict"
UNSURE: Final = "unsure"
"""Its error is larger than `max_error_ns`."""

REFUSED: Final = "refused"
"""As many entries as may be are retained."""

FAR: Final = "far"
"""Its time is beyond `FARTHEST_NS`."""

WORDS: Final = (STORED, IRRELEVANT, LATE, DUPLICATE, CONFLICT, UNSURE, REFUSED, FAR)

FARTHEST_NS: Final = 1 << 62
BEFORE_ALL: Final = -NEVER
AFTER_ALL: Final = 1 << 65
"""After the farthest time and the longest window."""
MAX_RETAINED: Final = 1_000_000
MAX_PARTITIONS: Final = 1_000_000

ENGINE: Final = "engine"
"""The key of the engine's own state; the others are of units."""

ORDER_OF_OPS: Final = {RETRACT: 0, UPDATE: 1, EMIT: 2}


class PatienceDiffers(ValueError):
    """Queries that run together take late events alike."""

    def __init__(self) -> None:
        super().__init__(
            "queries of one stream have different LATE AMEND; write the same for all of them"
        )


class Engine:
    """`tells_final`: names of queries of which a result shown before it was final is updated
    once more when it is.

    `max_error_ns`: the largest error an event may have, where a query does not ignore it (see
    `uncertain.doubt`).

    `findings` is what there is to tell, and `gone` the entries that nothing holds any more; the
    driver empties both."""

    def __init__(
        self,
        queries: Sequence[Compiled],
        stream: str = "",
        tells_final: Collection[str] = (),
        max_partitions: int = MAX_PARTITIONS,
        max_retained: int = MAX_RETAINED,
        max_error_ns: int | None = None,
    ) -> None:
        if len({query.query.amend_ns for query in queries}) > 1:
            raise PatienceDiffers
        self._stream = stream
        self._teller = Teller(stream)
        self._max_partitions = max_partitions
        self._max_retained = max_retained
        self._heeds_errors = any(query.grading is not None for query in queries)
        self._doubt = Doubt(max_error_ns) if self._heeds_errors else NO_DOUBT
        self._everything = Index() if any(q.shape.everywhere for q in queries) else None
        self._halls = [
            Hall(group, self._everything, tells_final, self._doubt) for group in alike(queries)
        ]
        self._patience_ns = max((hall.amend_ns for hall in self._halls), default=0)
        self._identities: dict[Identity, Entry] = {}
        self._newest: Key | None = None
        self.clock_ns = BEFORE_ALL
        self._waits = Waits()
        self._said: list[tuple[Run, Hall, Change]] = []
        self._overflowed: list[tuple[Run, Unit]] = []
        self._gathering: dict[Run, tuple[Hall, int]] = {}
        self._stale: dict[str, None] = {}  # keys of a restored state that mean nothing any more
        self.frontier_ns = BEFORE_ALL
        self.counts = dict.fromkeys(WORDS, 0)
        self.findings: list[Finding] = []
        self.gone: list[Entry] = []

    @property
    def compiled(self) -> dict[str, Compiled]:
        return {wiring.query.name: wiring.query for wiring in self._wirings()}

    @property
    def names(self) -> list[str]:
        return [wiring.query.name for hall in self._halls for wiring in hall.wirings]

    @property
    def retained(self) -> int:
        """Entries that some index holds."""
        return len(self._identities)

    @property
    def is_crowded(self) -> bool:
        """An eighth of the room for entries is left, at most."""
        return 8 * len(self._identities) > 7 * self._max_retained

    @property
    def unpartitioned(self) -> int:
        """How often an entry had no value for the key of a query, which so ignores it."""
        return sum(hall.unpartitioned for hall in self._halls)

    @property
    def refused_partitions(self) -> int:
        return sum(hall.refused for hall in self._halls)

    # -- events -------------------------------------------------------------------------------

    def accept(self, entry: Entry, at_ns: int) -> str:
        """Take an event; says what became of it: one of the words above."""
        word = self._accept(entry, at_ns)
        self.counts[word] += 1
        return word

    def _accept(self, entry: Entry, at_ns: int) -> str:
        if self._gathering:
            self._gather_until(at_ns - 1)
        refused = self._refused(entry)
        if refused:
            return refused
        if self._heeds_errors and entry.event.error_ns:
            self._widen(entry.event.error_ns)
        self.clock_ns = max(self.clock_ns, entry.time_ns)
        in_order = self._newest is None or entry.key > self._newest
        for hall in self._halls:
            if entry.time_ns >= self.frontier_ns - hall.amend_ns:
                self._offer(hall, entry, at_ns, in_order=in_order)
        self._look_again(
            self._waits.at_clock(self.clock_ns)
        )  # now, so that what it puts in doubt is told once, with that
        if in_order:
            self._newest = entry.key
        self._flush(at_ns)
        if not entry.places:
            return IRRELEVANT
        self._identities[entry.identity] = entry
        return STORED

    def _refused(self, entry: Entry) -> str:
        """Why it is not taken; empty if it is."""
        known = self._identities.get(entry.identity)
        if known is not None:
            return DUPLICATE if known.is_copy_of(entry) else CONFLICT
        if entry.time_ns < self.frontier_ns - self._patience_ns:
            return LATE
        if not -FARTHEST_NS <= entry.time_ns <= FARTHEST_NS:
            return FAR
        if self._heeds_errors and not self._doubt.admits(entry.event.error_ns):
            return UNSURE
        return REFUSED if len(self._identities) >= self._max_retained else ""

    def _widen(self, error_ns: int) -> None:
        by_ns = self._doubt.widen(error_ns, self.frontier_ns)
        if by_ns:
            for hall in self._halls:
                for shelf in hall.shelves.values():
                    for run in shelf.runs:
                        run.put_off(by_ns, self.frontier_ns - hall.amend_ns)

    def _offer(self, hall: Hall, entry: Entry, at_ns: int, *, in_order: bool) -> None:
        kinds = hall.kinds_of(entry)
        newest, shelf = self._shelve(hall, entry, kinds)
        now = self._now(hall)
        if shelf is not None:
            in_shelf = newest is None or entry.key > newest
            for run in shelf.runs:
                ordered = in_order if run.query.shape.everywhere else in_shelf
                anchors = run.affected(entry, kinds, in_order=ordered)
                if hall.doubt.margin_ns and run.query.grading is not None:
                    anchors = within_reach(run.query, run.units, entry, anchors)
                if run.query.query.emit == "slack":
                    late_by_ns = 0 if ordered else max(1, self.clock_ns - entry.time_ns)
                    wait_ns = run.gathers_ns(kinds, late_by_ns)
                    if anchors and wait_ns > 0 and not ordered:
                        self._gather(run, hall, anchors, at_ns + wait_ns)
                        continue
                self._look(run, hall, anchors, now)
        if hall.strict_everywhere and (not in_order or hall.doubt.margin_ns):
            for other in hall.shelves.values():
                for run in other.runs if other is not shelf else ():
                    if run.query.shape.everywhere:
                        self._look(run, hall, run.affected(entry, (), in_order=False), now)

    def _gather(self, run: Run, hall: Hall, anchors: Sequence[Entry], due_ns: int) -> None:
        """Look at these units later, together with what else comes by then."""
        run.postpone(anchors)
        if run not in self._gathering:
            self._gathering[run] = (hall, due_ns)

    def _gather_until(self, now_ns: int) -> None:
        """Correct what was gathered until an instant up to `now_ns`, each at its own time."""
        while self._gathering and (due_ns := self.next_deadline_ns() or 0) <= now_ns:
            for run, (hall, due) in list(self._gathering.items()):
                if due == due_ns:
                    self._correct(run, hall)
            self._flush(due_ns)

    def _correct(self, run: Run, hall: Hall) -> None:
        del self._gathering[run]
        self._look(run, hall, run.take_postponed(), self._now(hall))

    def next_deadline_ns(self) -> int | None:
        """When corrections that wait for more of their kind are due (EMIT SLACK)."""
        return min((due_ns for _, due_ns in self._gathering.values()), default=None)

    def on_time(self, now_ns: int) -> None:
        """Nothing came up to and including `now_ns`."""
        self._gather_until(now_ns)

    def _shelve(
        self, hall: Hall, entry: Entry, kinds: Sequence[int]
    ) -> tuple[Key | None, Shelf | None]:
        """Put it where it belongs; the newest key there before it, and the shelf."""
        if hall.strict_everywhere and self._everything is not None and not entry.everywhere:
            self._everything.add(entry)
            entry.everywhere = True
            entry.places += 1
        if not kinds:
            return None, None
        key = hall.key_of(entry)
        if key is None:
            hall.unpartitioned += 1
            return None, None
        if key not in hall.shelves and len(hall.shelves) >= self._max_partitions:
            hall.refused += 1
            return None, None
        shelf = hall.shelf(key)
        newest = shelf.newest
        hall.put(entry, kinds, shelf)
        return newest, shelf

    def _look(self, run: Run, hall: Hall, anchors: Sequence[Entry], now: Now) -> None:
        if anchors:
            run.look(anchors, now)
            self._collect(run, hall)

    # -- time ---------------------------------------------------------------------------------

    def advance(self, frontier_ns: int, at_ns: int) -> None:
        """Every event before `frontier_ns` has come. It never falls."""
        if frontier_ns <= self.frontier_ns:
            return
        if self._gathering:
            self._gather_until(at_ns - 1)
            for run, (hall, _) in list(self._gathering.items()):
                if run.postponed_since_ns < frontier_ns - hall.amend_ns:
                    self._correct(run, hall)  # it would be decided without
        self.frontier_ns = frontier_ns
        self.clock_ns = max(self.clock_ns, frontier_ns)
        self._look_again(self._waits.at_clock(self.clock_ns))
        self._look_again(self._waits.at_floor(frontier_ns))
        for wiring in self._wirings():
            if wiring.promised_ns is not None and wiring.promised_ns < frontier_ns:
                self._keep(wiring, frontier_ns)
        self._flush(at_ns)
        for hall in self._halls:
            self._let_go(hall)

    def is_due(self, frontier_ns: int, promised_ns: int) -> bool:
        """With the frontier, or what is promised, there, would anything be told?"""
        return bool(self._gathering) or self._waits.are_due(frontier_ns, promised_ns)

    def promise(self, query: str, until_ns: int, at_ns: int) -> None:
        """The query tells what is decided before `until_ns`; called with the earliest instant
        before its first event, and never with less."""
        for wiring in self._wirings():
            if wiring.query.name == query:
                self._keep(wiring, until_ns)
        self._flush(at_ns)

    @property
    def margin_ns(self) -> int:
        """By how much errors put decisions off, as far as they are known."""
        return self._doubt.margin_ns

    @property
    def reaches(self) -> dict[str, int]:
        """How long an event may matter to a query, by its name."""
        return {each.query.name: each.query.reach_ns for each in self._wirings()}

    @property
    def told_when_heard(self) -> list[str]:
        """The queries that wait for the end of a gap in which nothing may happen, by name."""
        queries = [wiring.query.query for wiring in self._wirings()]
        return [q.name for q in queries if q.emit == "final" and ends_in_negation(q.node)]

    def _keep(self, wiring: Wiring, until_ns: int) -> None:
        if wiring.promised_ns is not None:
            until_ns = max(until_ns, wiring.promised_ns)
        wiring.promised_ns = until_ns
        self._look_again(self._waits.at_promise(wiring.query.name, until_ns))

    def _wirings(self) -> Iterable[Wiring]:
        return (wiring for hall in self._halls for wiring in hall.wirings)

    def end(self, at_ns: int) -> None:
        """The input is over: everything is decided."""
        self.advance(AFTER_ALL, at_ns)

    def _look_again(self, waiting: Iterable[tuple[Hall, Run, Key]]) -> None:
        for hall, run, key in waiting:
            run.ask_again(key, self._now(hall))
            self._collect(run, hall)

    def _let_go(self, hall: Hall) -> None:
        floor_ns = self.frontier_ns - hall.amend_ns
        if not hall.strict_everywhere and not hall.is_due(floor_ns):
            return
        gone = hall.purge(floor_ns, self._now(hall))
        if hall.strict_everywhere and self._everything is not None:
            reach_ns = max(each.reach_ns for each in self._halls if each.strict_everywhere)
            gone += self._everything.purge(floor_ns - reach_ns)
        for entry in gone:
            entry.places -= 1
            if not entry.places:
                del self._identities[entry.identity]
                self.gone.append(entry)

    def _now(self, hall: Hall) -> Now:
        return Now(self.clock_ns, self.frontier_ns - hall.amend_ns)

    # -- what runs have found -----------------------------------------------------------------

    def _collect(self, run: Run, hall: Hall) -> None:
        if run.due:
            self._waits.collect(run, hall)
        self._said += [(run, hall, change) for change in run.changes]
        run.changes.clear()
        if run.overflowed:
            self._overflowed += [(run, unit) for unit in run.overflowed]
            run.overflowed.clear()

    def _flush(self, at_ns: int) -> None:
        if not self._said and not self._overflowed:
            return
        if len(self._said) > 1:
            self._said.sort(key=_order)
        for run, hall, change in self._said:
            self.findings.append(self._result(run, hall, change, at_ns))
        self._said.clear()
        self._teller.forget()
        for run, unit in self._overflowed:
            anchor = member(unit.anchor, "")
            shown = len(unit.found)
            self.findings.append(Overflow(at_ns, self._stream, run.query.name, anchor, shown))
        self._overflowed.clear()

    def _result(self, run: Run, hall: Hall, change: Change, at_ns: int) -> MatchResult:
        key = list(run.partition[1::2]) or None  # the odd places say what kind of value
        told_before = change.revision > 0
        amended = told_before and hall.amend_ns > 0 and change.found.decided_ns < self.frontier_ns
        return self._teller.result(run.query, change, key, at_ns, amended=amended)

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return {ENGINE: self._own_state(), **self._unit_states(everything=True)}

    def changes(self) -> Changes:
        return {ENGINE: self._own_state(), **self._unit_states(everything=False)}

    def _own_state(self) -> Any:
        since = {
            wiring.query.name: [
                wiring.query.form.fingerprint,
                wiring.since_ns,
                wiring.lateness.snapshot(),
                wiring.promised_ns,
            ]
            for wiring in self._wirings()
        }
        return [self.clock_ns, self.frontier_ns, self.counts, since, self._doubt.snapshot()]

    def _unit_states(self, *, everything: bool) -> dict[str, Any]:
        states: dict[str, Any] = {}
        if not everything:
            states, self._stale = self._stale, {}
        for hall in self._halls:
            now = self._now(hall)
            if not everything:
                states.update(hall.take_closed())
            for shelf in hall.shelves.values():
                for run in shelf.runs:
                    due_ns = self._gathering.get(run, (hall, None))[1]
                    states.update(run.state(now, due_ns, everything=everything))
        return states

    def entries(self) -> Iterable[Entry]:
        return self._identities.values()

    def restore(self, state: Mapping[str, Any], entries: Iterable[Entry]) -> None:
        """Into a fresh engine. `entries`: those retained, in any order. A query that the state does
        not know counts from now on; what it says of one that is no more is left."""
        own = state.get(ENGINE, self._own_state())
        self.clock_ns, self.frontier_ns, counts, since, doubt = own
        if self._heeds_errors:
            self._doubt.restore(doubt)
        self.counts.update(counts)
        released = self._restore_wirings(since)
        rest = dict(state)
        rest.pop(ENGINE, None)
        for entry in sorted(entries, key=attrgetter("key")):
            for hall in self._halls:
                self._shelve(hall, entry, hall.kinds_of(entry))
            if entry.places:
                self._identities[entry.identity] = entry
                self._newest = entry.key
            else:
                self.gone.append(entry)
        for hall in self._halls:
            for shelf in hall.shelves.values():
                for run in shelf.runs:
                    due_ns = run.revive(rest, self._now(hall), self._identities)
                    if run.query.name in released:
                        run.due += [(CLOCK, BEFORE_ALL, key) for key in run.units]
                    self._collect(run, hall)
                    if due_ns is not None:
                        self._gathering[run] = (hall, due_ns)
        self._overflowed.clear()
        self._stale = dict.fromkeys(rest)

    def _restore_wirings(self, since: Mapping[str, Any]) -> set[str]:
        """The queries that waited and wait no more: what they have not told is told at the next
        event."""
        released = set()
        for wiring in self._wirings():
            told = since.get(wiring.query.name, ("", 0, None, None))
            fingerprint, since_ns, lateness, promised_ns = told
            known = fingerprint == wiring.query.form.fingerprint
            wiring.since_ns = since_ns if known else self._from_now_on(wiring.query)
            if promised_ns is not None and wiring.promised_ns is not None:
                wiring.promised_ns = promised_ns
            elif promised_ns is not None and known:
                released.add(wiring.query.name)
            if known:
                wiring.lateness.restore(lateness)
        return released

    def _from_now_on(self, query: Compiled) -> int:
        """Matches that start here or later rest on no event that came before now: those were
        kept only if another query asked for them."""
        if self.clock_ns == BEFORE_ALL:
            return BEFORE_ALL
        return self.clock_ns + 1 + (query.within_ns if query.shape.has_start_negation else 0)


def _order(said: tuple[Run, Hall, Change]) -> Any:
    run, _, change = said
    match = change.found.match
    return (run.number, ORDER_OF_OPS[change.op], match.last.key, match.first.key, change.id)
