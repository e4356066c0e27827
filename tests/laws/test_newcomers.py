"""Law: results with a late new source are corrected to those of a run in order.

The source's first events come after the others have passed their time. No early result is delayed
for it.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

import pytest

from benchmarks.traces import TraceAbsent, read_jr_umts, to_events
from tests.kit.queries import Side, join_query
from tests.kit.runs import results_of, results_to_end
from tests.kit.topologies import in_code
from tests.laws.streams import in_log_order
from tests.seeds import seeds_of_today
from tests.services import without_trace
from topology.base.event import NO_EPOCH, WATERMARK, Event, copy_event
from topology.base.result import CONFIRMED, RETRACT
from topology.queries.join.operator import Join
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.operator import Pattern
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.settings import PatternQuery
from topology.stage.stage import Stage

MS: Final = 1_000_000
START: Final = 1_700_000_000_000 * MS
SECOND: Final = 1_000 * MS

SEEDS: Final = seeds_of_today(4)

QUERIES: Final = {
    "tumbling": "{window: tumbling 50ms, aggregate: {n: count(), last: last(payload.v)}}",
    "sliding": "{window: sliding 60ms every 20ms, aggregate: {n: count()}}",
    "session": "{window: session 12ms, aggregate: {n: count()}}",
    "count": "{window: count 4, aggregate: {sum: sum(payload.v)}}",
    "join": "{join: interval -4ms to 9ms, sides: {x: {type: A}, y: {type: B}}, outer: left}",
    "pattern": "{pattern: 'PATTERN SEQ(A a, !N n, B b) WITHIN 30 ms'}",
    "pattern at its end": "{pattern: 'PATTERN SEQ(A a, !B b) WITHIN 9 ms'}",
}


def stage(query: str, merge: str = "") -> Stage:
    operator = next(word for word in ("window", "join", "pattern") if f"{word}:" in query)
    topology = in_code(
        f"streams: {{default: {{clock: {{unsynced: trust}}, merge: {{{merge}}}}}}}\n"
        f"stages: [reorder+merge+{operator}]\n"
        f"heartbeat: 5ms\nqueries: {{q: {query}}}\n"
    )
    return Stage(topology, ("reorder", "merge", operator))


def history(seed: int) -> list[Event]:
    """Return events in order; sources b and c start only after a while."""
    rng = Random(seed)
    seqs = {"a": 0, "b": 0, "c": 0}
    begins = {"a": 0, "b": rng.randrange(150), "c": rng.randrange(100, 300)}
    events = []
    for at_ms in sorted(rng.sample(range(700), 150)):
        source = rng.choice([name for name, begin_ms in begins.items() if begin_ms <= at_ms])
        ts_ns = START + at_ms * MS
        value = {"v": rng.randrange(9)}
        type_ = rng.choice("AABN")
        seq = seqs[source]
        events.append(Event("default", source, 0, seq, ts_ns, ts_ns, value=value, type=type_))
        seqs[source] += 1
    return events


def run(query: str, events: list[Event], delay_ms: dict[str, int], merge: str = "") -> list[Any]:
    running = stage(query, merge)
    own = []
    for one in events:
        delay_ns = (1 + delay_ms.get(one.source, 0)) * MS
        later = copy_event(one)
        later.arrival_ns = later.at_ns = one.ts_ns + delay_ns
        own.append(later)
    return results_to_end(running, ([one] for one in in_log_order(own)))


def last_word(found: list[Any]) -> list[Any]:
    latest = {each.id: each for each in found}
    stands = [each for each in latest.values() if each.op != RETRACT]
    return sorted((one.id, one.start_ns, one.end_ns, repr(one.values)) for one in stands)


@pytest.mark.parametrize("name", QUERIES)
def test_last_results_match_ordered_run(name: str) -> None:
    changed = 0
    for seed in SEEDS:
        events = history(seed)
        in_order = run(QUERIES[name], events, {})
        delays = {"b": 40, "c": 90}
        found = run(QUERIES[name], events, delays)
        assert last_word(found) == last_word(in_order), f"seed {seed}"
        closed = run(QUERIES[name], events, delays, merge="new_source_allowance: 0s")
        changed += last_word(closed) != last_word(in_order)
    assert changed, "no newcomer came behind C, so the law says nothing"


@pytest.mark.parametrize("name", ["tumbling", "join", "pattern at its end"])
def test_allowance_delays_only_finality(name: str) -> None:
    finals = [0, 0]
    for seed in SEEDS:
        events = history(seed)
        found = run(QUERIES[name], events, {})
        closed = run(QUERIES[name], events, {}, merge="new_source_allowance: 0s")
        told = [(one.id, one.op, one.at_ns, one.confidence) for one in found]
        assert told == [(one.id, one.op, one.at_ns, one.confidence) for one in closed]
        assert CONFIRMED in {one.confidence for one in found}
        finals[0] += sum(one.final for one in found)
        finals[1] += sum(one.final for one in closed)
    assert finals[0] < finals[1]


def recorded(session: str, merge: str) -> tuple[dict[int, int], Counter[int], int]:
    """Return the last value of each window of 1 s, the true counts, and the expired events."""
    try:
        rows = read_jr_umts(session)
    except TraceAbsent as missing:
        without_trace(missing)
    running = stage("{window: tumbling 1s, aggregate: {n: count()}}", merge)
    events = to_events(rows, epoch=NO_EPOCH)
    batches = (events[start : start + 500] for start in range(0, len(events), 500))
    found = results_to_end(running, batches)
    counted = Counter(row.ts_ns // SECOND * SECOND for row in rows)
    return (
        {one.start_ns: one.values["n"] for one in found},
        counted,
        running.figures_of("default")["window_expired"],
    )


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("session", ["d1", "d2", "d4"])
def test_phones_have_no_wrong_window(session: str) -> None:
    """Recorded phones start over some seconds, and each starts with events that are late by as
    much.
    """
    told, counted, expired = recorded(session, "new_source_allowance: 0s")
    assert told != counted
    assert expired
    told, counted, expired = recorded(session, "")
    assert told == counted
    assert not expired


def ordered(n: int) -> list[Event]:
    """Return one stream as MERGE emits it: an A and a B every 2 ms, a watermark every 20 ms."""
    events = []
    for at_ms in range(n):
        at_ns = START + at_ms * MS
        type_ = "AB"[at_ms % 2]
        events.append(Event("default", "a", 0, at_ms, at_ns, at_ns, at_ms, type=type_))
        if at_ms % 20 == 19:
            said = Event("default", "", 0, 0, at_ns, at_ns, kind=WATERMARK)
            said.complete_ns = at_ns
            events.append(said)
    return events


def test_bounded_pattern_finds_all_matches() -> None:
    query = Compiled(parse_query("PATTERN SEQ(A a, B b) WITHIN 3 ms"))
    running = Pattern(Engine([query], max_retained=400), {"": PatternQuery.model_construct()})
    found: list[Any] = []
    kept = 0
    for one in ordered(4_000):
        found += running.on_batch([one], one.at_ns).results
        kept = max(kept, running.figures()["retained"])
    figures = running.figures()
    assert (len(found), figures["refused"], figures["late"]) == (2_000, 0, 0)
    assert 350 < kept <= 400
    assert 0 < figures["given_up"] < 100


def test_join_at_its_bound_finds_partners() -> None:
    sides = Side("x", "default", "A"), Side("y", "default", "B")
    config = join_query("q", sides, "interval", high_ns=MS, outer="left", max_events=400)
    running = Join(config)
    found = results_of(running, *ordered(4_000))
    figures = running.figures()
    assert [len(row.partners) for row in found] == [2] * 2_000
    assert (figures["given_up"], figures["expired"]) == (0, 0)
