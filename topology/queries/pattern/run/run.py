"""Defines the runs, each of which is one query in one partition, with its units.

A *unit* is all matches found from one event, its *anchor*. This is the last event under
skip-till-any, otherwise the first.

| state of a unit | meaning | next states |
| --- | --- | --- |
| followed | an event may advance or correct its walk (`evaluate.follow`) | evaluated, forgotten |
| evaluated | `found` has the matches in all its events | evaluated, removed, forgotten |
| removed | its anchor was a match that no longer exists; its revisions continue | evaluated |
| forgotten | nothing can change it any more | - |

| state of a match | meaning | next states |
| --- | --- | --- |
| hidden | it is found, but may not be emitted yet; the agenda has a timer for it | visible, gone |
| visible | it may be emitted (`emit`) | kept, skipped, hidden, gone |
| skipped | SKIP drops it because of an earlier match | kept, gone |
| kept | SKIP keeps it, or there is no SKIP | emitted, skipped, hidden, gone |
| emitted | consumers have it | updated, retracted |
| retracted | consumers no longer have it; its revisions continue | emitted |

An emitted match that is gone, skipped or hidden is retracted (`emit.emit_unit`). A match is gone
if an event out of order changes the matches that are found. The change may concern:

- its id (`match.ids`), or a condition;
- a negation, UNTIL or GREEDY;
- a step that takes another event;
- a larger match of MAXIMAL, or LIMIT;
- the beginning of a query that was added.

A change of one match may move the barrier of SKIP. Then later matches turn from kept to skipped, or
back (`selection`).

A match becomes hidden if the absence at its end turns out to last longer.

A match is *decided* when the frontier has passed `decided_ns`. A decided match is frozen, because
its events may have been purged: a new evaluation neither adds nor changes nor removes it.

The other modules of this folder have functions of runs.

The timers of an `Agenda` have only an instant and a unit. When a timer is due, the unit's results
are chosen again (`emit`), which also sets the unit's next timer.

| clock | instant that it follows | units scheduled on it |
| --- | --- | --- |
| `events` | the newest event or watermark | waiting for the end of an absence |
| `frontier` | the instant before which all events have arrived | with EMIT FINAL or `emits_final` |
| `Wiring.at_target` | the instant up to which a query may emit | with a quality target |
| `barriers` | the frontier | runs whose barrier row (SKIP) may change |

Memory: some 300 bytes for each result that is not yet decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from topology.answer.frontier import FOR_EVER
from topology.answer.query.results import CurrentResult
from topology.base.operator import NEVER, Changes, Plain, State
from topology.base.result import digest_of, frame, result_id
from topology.base.timers import Timers
from topology.queries.pattern.match.compiled import Compiled, EntryFilter, Slot
from topology.queries.pattern.match.evaluation import Place
from topology.queries.pattern.match.ids import key_bytes
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.tactics.followed import FollowedWalks
from topology.queries.pattern.match.uncertain.doubt import NO_DOUBT, Doubt
from topology.queries.pattern.run.found_match import FoundMatch, SureUnits
from topology.queries.pattern.run.selection import Selection
from topology.queries.pattern.store.entry import Entry, Key
from topology.queries.pattern.store.index import EntryIndex
from topology.queries.pattern.tree.syntax import FROM_START
from topology.state.saved import INT, TEXT, optional, tuple_of

BEFORE_ALL_TIME: Final = -NEVER
"""The initial value of the clock and of the frontier."""

KNOWN_BY: Final = 16
"""The number of digits of a query's fingerprint that identify the query in the state."""

ANY_SLOT: Final[Slot] = (-1, -1)
"""The slot under which units wait that any entry can change."""

QUERY: Final = tuple_of(TEXT, INT, optional(INT))
NO_QUERY: Final = ("", 0, None)
"""The row of a query that is not in the state."""


class Agenda:
    """The clock and the frontier of a level, and what is left to do there.

    Attributes:
        clock_ns: The newest time accepted, or the time that the watermark has passed if that is
            later.
        frontier_ns: The instant before which every event has arrived. Results decided before it
            never change.
        proven_ns: The time from which results are decided only because the input ended
            (`Engine.seal`).
        events: The timers that follow the newest event or watermark.
        frontier: The timers that follow the frontier.
        barriers: The timers of the runs whose barrier row may change. They follow the frontier.
        arrival_ns: The arrival time at which the level has something to do; NEVER if there is none.
        quiet_ns: The instant up to which the frontier may move without any effect.
        changed: The runs with rows to write.
        rows: The rows that differ from the changelog; None for a deleted row.
    """

    def __init__(self) -> None:
        self.clock_ns = BEFORE_ALL_TIME
        self.frontier_ns = BEFORE_ALL_TIME
        self.proven_ns = FOR_EVER
        self.events: Timers[MatchUnit] = Timers()
        self.frontier: Timers[MatchUnit] = Timers()
        self.barriers: Timers[Run] = Timers()
        self.arrival_ns = NEVER
        self.quiet_ns = BEFORE_ALL_TIME
        self.changed: dict[Run, None] = {}
        self.rows: Changes = {}

    def advance(self, frontier_ns: int) -> None:
        """Move the frontier to `frontier_ns`, and the clock at least as far."""
        self.frontier_ns = frontier_ns
        if frontier_ns > self.clock_ns:
            self.clock_ns = frontier_ns

    @property
    def next_ns(self) -> int:
        """The instant before which no timer in `events` or `frontier` is due."""
        return min(self.events.next_ns, self.frontier.next_ns)


class Wiring:
    """A query of a level, connected to the indexes that it shares with other queries.

    Filters are given by their numbers in the partition group.

    Attributes:
        number: The query's position among the queries of its level.
        doubt: The largest error; NO_DOUBT if the query ignores errors.
        emits_final: Whether an early result is emitted once more when it becomes final.
        is_plain: Whether runs take the plain way if they can (`evaluate.follow`).
        reads_matches: Whether some entries are matches of other queries.
        since_ns: The earliest start of a match, if earlier events may be missing. A match that a
            late event extends to before this time is retracted.
        target_ns: The instant before which a match must be decided to be emitted (`quality`);
            None if the query does not wait.
        at_target: The timers of the units that wait for the target.
        gathers: Whether late corrections are gathered (EMIT SLACK). Otherwise, each event is
            followed by an evaluation of all units it changes.
        starts_wait: Whether a start waits for the entries that can change its unit.
        doubts_apart: Whether each event puts matches in doubt independently of all others.
        possible_apart: Whether each event rules out possible matches (UNCERTAIN POSSIBLE)
            independently of all others.
        components: The filter of each component of a plain sequence (`match.tactics.followed`).
        slots_of: The slots of each filter.
        filters: All filters of the query.
        anchors: The filters of the slots that a unit's anchor can fill.
        enders: The filters of the slots that the last event of a match can fill.
        blockers: The filters of entries that may forbid a match: those of negations, and of greedy
            groups at its end.
    """

    def __init__(
        self,
        number: int,
        query: Compiled,
        filters: Sequence[EntryFilter],
        doubt: Doubt,
        known_by: str,
        *,
        emits_final: bool,
        is_plain: bool,
    ) -> None:
        """Connect a query. `known_by` is a digest of the match types that its level reads."""
        self.number = number
        self.query = query
        self.doubt = NO_DOUBT if query.grading is None else doubt
        self.emits_final = emits_final
        self.is_plain = is_plain and not known_by
        self.reads_matches = bool(known_by)
        self.since_ns = -NEVER
        self.target_ns: int | None = None
        self.at_target: Timers[MatchUnit] = Timers()
        self.row_key = f"{query.known_by[:KNOWN_BY]}{known_by}/{query.name}"
        shape, possible = query.shape, query.possible
        self.gathers = query.query.emit == "slack" and not known_by
        self.starts_wait = query.query.matches in FROM_START and not shape.by_end
        self.possible_apart = possible is not None and possible.each_apart and not self.gathers
        is_apart = possible is None and not shape.strict and not query.untils
        self.doubts_apart = query.grading is not None and is_apart and not self.gathers
        count = 0 if query.steps is None else query.steps.count
        self.components = [filters.index(query.filters[0, j]) for j in range(count)]
        self.slots_of: dict[int, list[Slot]] = {}
        for slot, each in query.filters.items():
            self.slots_of.setdefault(filters.index(each), []).append(slot)
        untils = {filters.index(each) for each in query.untils.values()}
        self.filters = frozenset(self.slots_of.keys() | untils)
        self.anchors = frozenset(filters.index(query.filters[slot]) for slot in query.anchors)
        self.enders = frozenset(filters.index(query.filters[slot]) for slot in query.ends)
        components = [a.components for a in query.form.alternatives]
        forbidding = [(a, j) for a, j in query.filters if j >= len(components[a])]
        forbidding += [(a, j) for a, j in query.ends if components[a][j].greedy]
        self.blockers = frozenset(filters.index(query.filters[slot]) for slot in forbidding)

    def raise_target(self, until_ns: int) -> None:
        """Allow the query to emit what is decided before `until_ns`. The target never falls."""
        self.target_ns = until_ns if self.target_ns is None else max(until_ns, self.target_ns)

    def take_woken(self) -> list[MatchUnit]:
        """Take the units with a match that the query may emit now, by its target."""
        return [] if self.target_ns is None else self.at_target.due(self.target_ns)

    def row(self) -> Plain:
        return self.query.known_by, self.since_ns, self.target_ns

    def restore(self, row: Plain, now_ns: int) -> bool:
        """Restore the row, and return whether the query had a target to wait for and now has none.

        If so, the caller must emit the results for which the query was waiting. `now_ns`: the
        earliest start of the query's matches if the row has another fingerprint.
        """
        fingerprint, since_ns, target_ns = QUERY.load(row, None, self.query.name)
        is_known: bool = fingerprint == self.query.known_by
        self.since_ns = since_ns if is_known else now_ns
        waits = self.target_ns is not None
        if waits and target_ns is not None:
            self.target_ns = target_ns
        return is_known and not waits and target_ns is not None


class MatchUnit:
    """An end event or a start event, the anchor, with all matches found from it.

    Attributes:
        found: The current matches, by id.
        emitted: The results that consumers have, and retracted ones, by id.
        hi_ns: The time after which no event changes the evaluation (`evaluation.Evaluation`).
        waits: The slots whose new entries change it (`evaluation.Evaluation`).
        overflowed: Whether it has more matches than `found`.
        is_overflow_known: Whether that was reported.
    """

    __slots__ = ("anchor", "emitted", "found", "hi_ns", "is_overflow_known", "overflowed", "run",
                 "waits")  # fmt: skip

    def __init__(self, anchor: Entry, run: Run) -> None:
        self.anchor = anchor
        self.run = run
        self.found: dict[str, FoundMatch] = {}
        self.emitted: dict[str, CurrentResult[FoundMatch]] = {}
        self.hi_ns = 0
        self.waits: frozenset[Slot] | None = None
        self.overflowed = False
        self.is_overflow_known = False

    def replace(self, found: Mapping[str, FoundMatch], frontier_ns: int) -> None:
        """Replace the matches that are not yet decided by those of a new evaluation."""
        frozen = {id_: old for id_, old in self.found.items() if old.decided_ns < frontier_ns}
        open_ = {id_: new for id_, new in found.items() if new.decided_ns >= frontier_ns}
        self.found = open_ if not frozen else {**open_, **frozen}

    def is_undecided(self, time_ns: int) -> bool:
        """Return whether an event at that time can change a current match."""
        return any(found.decided_ns >= time_ns for found in self.found.values())

    def delay_decisions(self, by_ns: int, frontier_ns: int) -> None:
        """Delay the decision of open matches by `by_ns`, because errors are larger than before."""
        every = (*self.found.values(), *(each.content for each in self.emitted.values()))
        for found in {id(found): found for found in every}.values():
            if found.decided_ns >= frontier_ns:
                found.decided_ns += by_ns

    def forget(self, before_ns: int) -> None:
        """Forget the matches and results that were decided before `before_ns`."""
        if self.found:
            for id_ in [i for i, found in self.found.items() if found.decided_ns < before_ns]:
                del self.found[id_]
        if self.emitted:
            for id_ in [i for i, old in self.emitted.items() if old.content.decided_ns < before_ns]:
                del self.emitted[id_]


class Run:
    """One query in one partition, with its units.

    Attributes:
        place: The indexes by alternative and component.
        indexes: The same indexes by filter.
        units: The units by the key of their anchor, but only those that have emitted something or
            may still do so.
        walks: The walks that the plain way follows; None if the run takes the general way.
        waiting: The units that wait for a new entry, by slot.
        sure: The units with a certain match, if events put matches in doubt independently.
        searched_ns: The largest error for which a unit's possible matches were all found, by the
            anchor's key.
        selection: The selection by SKIP; None if the query has no SKIP.
        again: The units that must be passed to SKIP again, by the anchor's key.
        touched: The anchors of the units that differ from their written rows.
        written: The run's rows by key, as last written.
    """

    __slots__ = ("_id_prefix", "again", "agenda", "barrier_key", "doubt", "indexes", "partition",
                 "place", "query", "searched_ns", "selection", "sure", "touched", "units",
                 "waiting", "walks", "wiring", "written")  # fmt: skip

    def __init__(
        self,
        wiring: Wiring,
        place: Place,
        indexes: Sequence[EntryIndex],
        partition: Sequence[Any],
        agenda: Agenda,
    ) -> None:
        query = wiring.query
        self.wiring = wiring
        self.query: Compiled = query
        self.place = place
        self.indexes = indexes
        self.partition = partition
        self.agenda = agenda
        self.doubt = wiring.doubt
        self.units: dict[Key, MatchUnit] = {}
        self.waiting: dict[Slot, dict[Key, MatchUnit]] = {}
        self.sure = SureUnits()
        self.searched_ns: dict[Key, int] = {}
        self.selection = Selection(query) if query.shape.skips else None
        self.again: dict[Key, None] = {}
        self.touched: dict[Key, Entry] = {}
        self.written: State = {}
        key = key_bytes(partition)
        self._id_prefix = frame(b"%d:" % len(key) + key + query.form.fingerprint.encode())
        self.barrier_key = f"barrier/{wiring.row_key}/{result_id(key)}"
        self.walks: FollowedWalks | None = None
        waits = wiring.emits_final or wiring.target_ns is not None
        if wiring.is_plain and query.steps and not waits and not self.doubt.margin_ns:
            self.walks = FollowedWalks(query.steps, wiring.components, wiring.since_ns, place)

    def id_of(self, match: Match) -> str:
        return digest_of(self._id_prefix + frame(self.query.ids.of(match)))

    def row_key(self, anchor: Entry) -> str:
        """Return the key of the row of the unit with this anchor."""
        source, epoch, seq = anchor.identity
        return f"unit/{self.wiring.row_key}/{epoch:d}/{seq:d}/{source}"

    def mark_changed(self, anchor: Entry) -> None:
        """Record that the unit differs from its written row."""
        if not self.touched:
            self.agenda.changed[self] = None
        self.touched[anchor.key] = anchor

    @property
    def span_ns(self) -> int:
        """The largest distance from a match to an event that forbids it.

        It is measured by corrected timestamps, so it includes the margin for errors.
        """
        return self.query.span_ns + self.doubt.margin_ns

    @property
    def open_ns(self) -> int:
        """The time after its anchor's timestamp during which a unit may still change."""
        shape = self.query.shape
        opens = not shape.by_end or shape.looks_ahead or shape.skips
        return self.span_ns if opens else self.doubt.margin_ns

    @property
    def doubts_independently(self) -> bool:
        """Whether events have errors, and each puts matches in doubt independently of the others.

        It is False for a query with SKIP that waits for a quality target. There, each evaluation of
        a unit looks at all visible matches of the run.
        """
        if not self.wiring.doubts_apart or self.doubt.margin_ns <= 0:
            return False
        return self.wiring.target_ns is None or self.selection is None

    def anchors(self, since_ns: int, until_ns: int) -> list[Entry]:
        """Return the anchors of all units between these instants (inclusive), ordered by key."""
        cuts = []
        for number in self.wiring.anchors:
            index = self.indexes[number]
            low, high = index.count_before(since_ns), index.count_up_to(until_ns)
            cuts.append(index.entries[low:high])
        if len(cuts) == 1:
            return cuts[0]
        found = {entry.key: entry for cut in cuts for entry in cut}
        return [found[key] for key in sorted(found)]

    def wait(self, unit: MatchUnit, waits: frozenset[Slot] | None) -> None:
        """Set the slots whose new entries change the unit; None means that any entry does."""
        for slot in (ANY_SLOT,) if unit.waits is None else unit.waits:
            self.waiting.get(slot, {}).pop(unit.anchor.key, None)
        unit.waits = waits
        for slot in (ANY_SLOT,) if waits is None else waits:
            self.waiting.setdefault(slot, {})[unit.anchor.key] = unit

    def drop(self, anchor: Entry) -> None:
        """Forget the unit of this anchor, and delete its row."""
        self.units.pop(anchor.key, None)
        self.sure.drop(anchor.key)
        self.searched_ns.pop(anchor.key, None)
        self.touched.pop(anchor.key, None)
        if self.written:
            key = self.row_key(anchor)
            if self.written.pop(key, None) is not None:
                self.agenda.rows[key] = None
