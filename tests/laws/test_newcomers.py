"""Law: a source that is heard for the first time after others had passed its first events changes
what was told, and the last word is that of a run in order; nothing that is known is held back."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from topology.description import parse
from topology.event import Event
from topology.result import CONFIRMED, RETRACT
from topology.stage import Stage

MS: Final = 1_000_000
START: Final = 1_700_000_000_000 * MS

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
    topology = parse(
        f"streams: {{default: {{clock: {{unsynced: trust}}, merge: {{{merge}}}}}}}\n"
        f"stages: [reorder+merge+{operator}]\n"
        f"heartbeat: 5ms\nqueries: {{q: {query}}}\n"
    )
    return Stage(topology, ("reorder", "merge", operator))


def history(seed: int) -> list[Event]:
    """In order. Sources b and c speak from some time on only."""
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
        later = Event(*(getattr(one, name) for name in ("stream", "source", "epoch", "seq")), 0, 0)
        later.ts_ns = later.ref_time_ns = one.ts_ns
        later.arrival_ns = later.at_ns = one.ts_ns + delay_ns
        later.value, later.type = one.value, one.type
        own.append(later)
    own.sort(key=lambda one: one.arrival_ns)
    found: list[Any] = []
    for offset, one in enumerate(own):
        one.offset = offset
        found += running.on_batch([one], one.at_ns).results
    return found + running.on_end(own[-1].at_ns).results


def last_word(found: list[Any]) -> list[Any]:
    latest = {each.id: each for each in found}
    stands = [each for each in latest.values() if each.op != RETRACT]
    return sorted((one.id, one.start_ns, one.end_ns, repr(one.values)) for one in stands)


@pytest.mark.parametrize("name", QUERIES)
def test_the_last_word_is_that_of_a_run_in_order(name: str) -> None:
    changed = 0
    for seed in range(8):
        events = history(seed)
        in_order = run(QUERIES[name], events, {})
        delays = {"b": 40, "c": 90}
        found = run(QUERIES[name], events, delays)
        assert last_word(found) == last_word(in_order), f"seed {seed}"
        closed = run(QUERIES[name], events, delays, merge="newcomers: 0s")
        changed += last_word(closed) != last_word(in_order)
    assert changed, "no newcomer came behind C, so the law says nothing"


def test_what_is_known_is_confirmed_at_once_all_the_same() -> None:
    for seed in range(4):
        events = history(seed)
        found = run(QUERIES["tumbling"], events, {})
        closed = run(QUERIES["tumbling"], events, {}, merge="newcomers: 0s")
        told = [(one.id, one.op, one.at_ns, one.confidence) for one in found]
        assert told == [(one.id, one.op, one.at_ns, one.confidence) for one in closed]
        assert CONFIRMED in {one.confidence for one in found}
        assert sum(one.final for one in found) < sum(one.final for one in closed)
