"""Law: a query that starts in the middle of its streams agrees with an unbroken run.

A query is added to a running stage, or removed and put back, at any event. There are late events,
duplicates, losses and restarts around it. The definition is the run that has the query from the
first event on.

A confirmed current result of the query's last run exists in that run too, with the same values.
Results of an earlier run were not corrected while the query was removed. All results that start at
or after the query's first counted instant are found. That instant follows all events that had
passed when the state was written. No id is emitted twice with revision 0. The other queries are not
affected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import orjson
import pytest

from tests.kit.places import give_back, places_of
from tests.kit.queries import beginnings_in
from tests.kit.runs import through_changelog
from tests.kit.topologies import in_code
from tests.laws.streams import MS, numbered, raw
from tests.seeds import seeds_of_today
from topology.answer.query.beginning import UNKNOWN
from topology.base.event import WATERMARK, Event, copy_event
from topology.base.result import CONFIRMED, EMIT, RETRACT, Result
from topology.config import Topology
from topology.stage.stage import QUERIES as LATE_QUERIES
from topology.stage.stage import Stage
from topology.state.saved import unpack

SEEDS = (8, *seeds_of_today(2))  # With seed 8 each kind of query confirms a result.
GAP = 6 * MS
REACH = 40 * MS
HEAD = """
streams:
  a: {reorder: {max_wait: 50ms, max_jump: 100}, merge: {max_wait: 50ms}, clock: {unsynced: trust}}
  b: {reorder: {max_wait: 50ms, max_jump: 100}, merge: {max_wait: 50ms}, clock: {unsynced: trust}}
heartbeat: 20ms
correct_for: 150ms
queries:
"""
OLD = """
  old_window: {stream: a, window: tumbling 10ms, aggregate: {n: count()}}
  old_pattern: {stream: a, pattern: 'PATTERN SEQ(A x, B y) WITHIN 40 ms'}
  old_join: {join: interval 4ms, sides: {x: {stream: a}, y: {stream: b}}, outer: full}
"""
PROMISED = "quality: {max_wait: 40ms}"
QUERIES = ("window", "pattern", "join")
CHAIN = ("reorder", "merge")
SUMS = "key: payload.k, aggregate: {n: count(), s: sum(payload.n)}"
SIDES = "sides: {x: {stream: a}, y: {stream: b}}"
THREE = "sides: {x: {stream: a}, y: {stream: b}, z: {stream: b, type: B}}"
ADDED = {
    "tumbling": f"{{stream: a, window: tumbling 20ms, {SUMS}}}",
    "tumbling, finals": f"{{stream: a, window: tumbling 20ms, {SUMS}, finals: true}}",
    "tumbling, final": f"{{stream: a, window: tumbling 20ms, {SUMS}, answer: final}}",
    "tumbling, early": f"{{stream: a, window: tumbling 20ms, {SUMS}, early: 7ms}}",
    "tumbling, ignore": f"{{stream: a, window: tumbling 20ms, {SUMS}, uncertainty: ignore}}",
    "tumbling, expected": f"{{stream: a, window: tumbling 20ms, {SUMS}, uncertainty: expected}}",
    "tumbling, thesis3": f"{{stream: a, window: tumbling 60ms, {SUMS}, uncertainty: thesis3}}",
    "quality, window": f"{{stream: a, window: tumbling 20ms, {SUMS}, {PROMISED}}}",
    "quality, join": f"{{join: interval 10ms, {SIDES}, outer: full, {PROMISED}}}",
    "quality, session": f"{{stream: a, window: session 6ms, {SUMS}, {PROMISED}}}",
    "sliding": f"{{stream: a, window: sliding 30ms every 10ms, {SUMS}}}",
    "session": f"{{stream: a, window: session 6ms, {SUMS}}}",
    "session, early": f"{{stream: a, window: session 6ms, {SUMS}, early: 7ms, finals: true}}",
    "count": f"{{stream: a, window: count 5, {SUMS}}}",
    "inner": f"{{join: interval 40ms, {SIDES}}}",
    "left": f"{{join: interval 3ms, {SIDES}, outer: left}}",
    "full": f"{{join: interval 3ms, {SIDES}, outer: full, finals: true}}",
    "full, keyed": f"{{join: interval 0ms to 30ms, {SIDES}, key: payload.k, outer: full}}",
    "full, bounds": f"{{join: interval 10ms, {SIDES}, outer: full, uncertainty: bounds}}",
    "full, three": f"{{join: interval 4ms, {THREE}, outer: full}}",
    "full, tumbling": f"{{join: tumbling 20ms, {SIDES}, outer: full}}",
    "full, sliding": f"{{join: sliding 20ms every 10ms, {SIDES}, outer: full}}",
    "pattern": "{stream: a, pattern: 'PATTERN SEQ(A x, B y) WITHIN 20 ms'}",
    "pattern, keyed": "{stream: a, pattern: 'PATTERN SEQ(A x, B y) WHERE x.k = y.k WITHIN 20 ms'}",
    "pattern, skip": ("{stream: a, pattern: 'PATTERN SEQ(A x, B y) WITHIN 20 ms SKIP PAST LAST'}"),
    "pattern, negated": "{stream: a, pattern: 'PATTERN SEQ(A x, !B n, A y) WITHIN 20 ms'}",
    "pattern, begins negated": "{stream: a, pattern: 'PATTERN SEQ(!B n, A x, A y) WITHIN 20 ms'}",
}


def topology_of(mode: str, added: str | None, old: str = OLD) -> Topology:
    queries = old if added is None else f"{old}  added: {ADDED[added]}\n"
    if mode == "unmerged":
        queries = queries.replace("}\n", ", answer: speculate}\n")
    return in_code(HEAD + (queries or "  {}\n"))


def stage_of(mode: str, added: str | None, old: str = OLD) -> Stage:
    operators = QUERIES if mode == "unsure" else (*CHAIN, *QUERIES)
    return Stage(topology_of(mode, added, old), operators)


def arriving(seed: int) -> list[Event]:
    rng = Random(seed)
    events = raw(seed, n=300, sources=4)
    for event in events:
        event.stream = "ab"[int(event.source[1:]) % 2]
        event.type = rng.choice("AB")
        if event.value is None:
            event.value = orjson.dumps({"n": rng.randrange(9), "k": rng.randrange(2)})
    return events


@cache
def ordered(seed: int) -> list[Event]:
    """Return these events as in the ordered topic; each source has its own time error."""
    stage = Stage(topology_of("chain", None), CHAIN)
    events = arriving(seed)
    released = stage.on_batch(events, events[-1].at_ns).released
    released += stage.on_end(events[-1].at_ns).released
    for event in numbered(released):
        error_ns = 2 * MS if event.kind == WATERMARK else int(event.source[1:]) * MS * 2 // 3
        event.error_ns = event.error_all_ns = error_ns
    return released


def events_of(mode: str, seed: int) -> list[Event]:
    if mode != "unsure":
        return arriving(seed)
    events = []
    for event in ordered(seed):
        again = copy_event(event)
        again.arrival_ns = event.arrival_ns
        events.append(again)
    return events


def lives_of(rng: Random, n: int) -> list[tuple[int, bool]]:
    """Return the query's periods: the place at which each ends, and whether the query is present.

    The query is added, or removed and put back.
    """
    first, second = sorted(rng.sample(range(n // 8, 5 * n // 8), 2))
    if rng.random() < 0.5:
        return [(first, False), (n, True)]
    if rng.random() < 0.3:
        second = first  # The query is put back before any event arrives.
    return [(first, True), (second, False), (n, True)]


class Run:
    """A stage that is restarted from time to time, and the results of the added query."""

    def __init__(self, make: Callable[[bool], Stage], seed: int) -> None:
        self._make = make
        self._rng = Random(seed)
        self._has_added = True
        self.begun = 0
        """The number of results that belong to an earlier run of the query."""
        self.before_ns: int | None = None
        """The newest event before the query's present run; None if there is none."""
        self.begun_ns: int | None = None
        """The instant from which the window or join counted at the start of this run."""
        self._newest_ns: int | None = None
        self._state: dict[str, Any] = {}
        self.found: list[Result] = []
        self.others: list[Result] = []
        """The results of the queries that are present throughout."""
        self.stage: Stage | None = None

    def restart(self, *, has_added: bool) -> None:
        before, self.stage = self.stage, self._make(has_added)
        if has_added and not self._has_added:
            self.begun = len(self.found)
            self.before_ns = self._newest_ns
        self._has_added = has_added
        if before is not None:
            self._note_changes(before)
            state = through_changelog(self._state)
            give_back(self.stage, state, places_of(before))
        if has_added:
            self.begun_ns = self.since_ns()

    def _note_changes(self, stage: Stage) -> None:
        for key, value in stage.changes().items():
            if value is None:
                self._state.pop(key, None)
            else:
                self._state[key] = value

    def take(self, events: Sequence[Event], *, restarts: bool) -> None:
        at = 0
        while at < len(events):
            assert self.stage is not None
            end = at + self._rng.choice((1, 2, 7, 40))
            batch = events[at:end]
            self._newest_ns = max([self._newest_ns or 0, *(each.ref_time_ns for each in batch)])
            self._note(self.stage.on_batch(batch, batch[-1].at_ns).results)
            if self._rng.random() < 0.3:
                self._note_changes(self.stage)
            if restarts and self._rng.random() < 0.1:
                self.restart(has_added=self._has_added)
            at = end

    def end(self, now_ns: int) -> None:
        assert self.stage is not None
        self._note(self.stage.on_end(now_ns).results)

    def _note(self, results: Sequence[Any]) -> None:
        for result in results:
            if isinstance(result, Result):
                (self.found if result.query == "added" else self.others).append(result)

    def since_ns(self) -> int | None:
        """Return the latest instant from which the added window or join counts; None means the
        start.
        """
        assert self.stage is not None
        found = beginnings_in(self.stage.snapshot(), "added")
        return max(int(unpack(each)) for each in found[0]) if found else None


def standing(found: Sequence[Result]) -> dict[str, Result]:
    current: dict[str, Result] = {}
    for result in found:
        if result.op == RETRACT:
            current.pop(result.id, None)
        else:
            current[result.id] = result
    return current


def content(result: Result) -> Any:
    return result.start_ns, result.end_ns, result.values


@cache
def runs_of(mode: str, kind: str, seed: int) -> tuple[Run, Run]:
    def make(has_added: bool) -> Stage:
        return stage_of(mode, kind if has_added else None)

    rng = Random(seed)
    events = events_of(mode, seed)
    last_ns = events[-1].at_ns
    unbroken, broken = Run(make, seed), Run(make, seed + 1)
    unbroken.restart(has_added=True)
    unbroken.take(events_of(mode, seed), restarts=False)
    at = 0
    again = events_of(mode, seed)
    for end, has_added in lives_of(rng, len(events)):
        if not at or end > at:
            broken.restart(has_added=has_added)
        broken.take(again[at:end], restarts=True)
        at = end
    for run in (unbroken, broken):
        run.end(last_ns)
    return unbroken, broken


CASES = [
    (mode, kind)
    for mode in ("chain", "unsure", "unmerged")
    for kind in ADDED
    if mode != "unmerged" or "answer: final" not in ADDED[kind]
]


@pytest.mark.in_turns(4)
@pytest.mark.parametrize(("mode", "kind"), CASES)
def test_law_added_query_agrees(mode: str, kind: str) -> None:
    checked = 0
    for seed in SEEDS:
        unbroken, broken = runs_of(mode, kind, seed)
        firsts = [r.id for r in broken.found if r.op == EMIT and r.revision == 0]
        assert len(firsts) == len(set(firsts)), f"seed {seed}: an id twice"
        assert said(broken.others) == said(unbroken.others), f"seed {seed}: by ids and revisions"
        assert {r.query for r in broken.others} == topology_of(mode, None).queries.keys()
        true, seen = standing(unbroken.found), standing(broken.found[broken.begun :])
        if kind == "count":
            since_ns = broken.since_ns()
            late = [r for r in seen.values() if since_ns is not None and r.start_ns >= since_ns]
            assert not [r for r in late if r.confidence == CONFIRMED]
            checked += len(late)
            continue
        for id_, result in seen.items():
            if result.confidence == CONFIRMED:
                assert id_ in true, f"seed {seed}: {result}"
                assert content(result) == content(true[id_]), f"seed {seed}: {result}"
                is_sure = true[id_].confidence == CONFIRMED
                assert is_sure, f"seed {seed}: {result} {true[id_]}"
                checked += 1
    assert checked


@pytest.mark.parametrize(("mode", "kind"), CASES)
def test_law_later_results_are_found(mode: str, kind: str) -> None:
    if kind == "count" or (mode != "chain" and "session" in kind):
        pytest.skip("where its windows lie depends on what came before")
    if "quality" in kind:
        pytest.skip("a quality target may close times before the first watermark")
    allowance_ns = 0 if "window" in ADDED[kind] else 2 * REACH
    if "session" in kind:
        allowance_ns = GAP
    checked = 0
    for seed in {*SEEDS, 9}:  # With seed 9 each kind starts a result.
        unbroken, broken = runs_of(mode, kind, seed)
        since_ns = broken.before_ns if kind.startswith("pattern") else broken.since_ns()
        if since_ns is not None:
            checked += found_from(since_ns + allowance_ns, unbroken, broken, seed)
    assert checked


def found_from(begin_ns: int, unbroken: Run, broken: Run, seed: int) -> int:
    """Assert that the broken run has all results that start at or after the instant; return their
    number.
    """
    seen = standing(broken.found)
    wanted = {i: r for i, r in standing(unbroken.found).items() if r.start_ns >= begin_ns}
    for id_, result in wanted.items():
        assert id_ in seen, f"seed {seed}: {result}"
        assert content(seen[id_]) == content(result), f"seed {seed}"
    return len(wanted)


def behind(mode: str, seed: int, at: int) -> list[Event]:
    """Return the events; those from `at` on arrived while no stage ran.

    The stage gets no watermark among those.
    """
    events = events_of(mode, seed)
    if mode == "unsure":
        return [e for n, e in enumerate(events) if n < at or e.kind != WATERMARK]
    for event in events[at:]:
        event.arrival_ns = event.at_ns = events[-1].arrival_ns
    return events


@pytest.mark.in_turns(4)
@pytest.mark.parametrize(("mode", "kind"), CASES)
def test_added_query_reads_backlog(mode: str, kind: str) -> None:
    """The added query can be the first one in the topology."""
    if kind == "count" or "session" in kind or "quality" in kind:
        pytest.skip("as above")
    checked = 0
    for seed in SEEDS:
        at = len(events_of(mode, seed)) // 3
        unbroken, broken = (
            Run(lambda has_added: stage_of(mode, kind if has_added else None, ""), seed)
            for _ in range(2)
        )
        for run in (unbroken, broken):
            events = behind(mode, seed, at)
            run.restart(has_added=run is unbroken)
            run.take(events[:at], restarts=False)
            run.restart(has_added=True)
            run.take(events[at:], restarts=False)
            run.end(events[-1].at_ns)
        assert broken.begun == 0
        assert broken.before_ns is not None
        begin_ns = broken.before_ns + 2 * REACH
        if not kind.startswith("pattern"):
            assert broken.begun_ns == broken.since_ns() != UNKNOWN
            assert broken.begun_ns is not None
            begin_ns = broken.begun_ns + (0 if "window" in ADDED[kind] else 2 * REACH)
            assert broken.begun_ns <= broken.before_ns + REACH
        checked += found_from(begin_ns, unbroken, broken, seed)
        true = standing(unbroken.found)
        for id_, result in standing(broken.found).items():
            if result.confidence == CONFIRMED:
                assert true[id_].confidence == CONFIRMED, f"seed {seed}: {result}"
                assert content(result) == content(true[id_]), f"seed {seed}: {result}"
    assert checked


def said(found: Sequence[Result]) -> dict[tuple[str, int], Any]:
    return {(r.id, r.revision): (r.query, r.op, content(r), r.confidence) for r in found}


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("kind", ADDED)
def test_midstream_confirms_true_results(kind: str) -> None:
    """Without any state the earlier events are unknown, and no confirmed result depends on them."""
    checked = 0
    for seed in SEEDS:
        true = standing(runs_of("unsure", kind, seed)[0].found)
        events = events_of("unsure", seed)
        events = events[len(events) // 3 :]
        midstream = Run(lambda has_added: stage_of("unsure", kind), seed)
        midstream.restart(has_added=True)
        assert midstream.stage is not None
        midstream.stage.begin_midstream(LATE_QUERIES)
        midstream.take(events, restarts=True)
        midstream.end(events[-1].at_ns)
        for id_, result in standing(midstream.found).items():
            if kind == "count":
                assert result.confidence != CONFIRMED
            elif result.confidence == CONFIRMED:
                assert id_ in true, f"seed {seed}: {result}"
                assert content(result) == content(true[id_]), f"seed {seed}: {result}"
                assert true[id_].confidence == CONFIRMED
            checked += 1
    assert checked


def test_later_streams_start_midstream() -> None:
    stage = Stage(topology_of("unsure", "left"), ("window", "join"), streams=["a", "b"])
    stage.begin_midstream(LATE_QUERIES)
    stage.begin(["a", "b"])
    assert len(beginnings_in(stage.snapshot())) == 3
