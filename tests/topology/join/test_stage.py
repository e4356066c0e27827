"""Laws of joins within a whole stage: how the input is cut changes nothing, wherever they read."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.runs import cut, results_to_end
from topology.config import parse
from topology.flow.stage import Stage
from topology.model.event import NO_EPOCH, Event

MS = 1_000_000
START = 1_700_000_000_000 * MS
JOIN = "join: interval 40ms, sides: {x: {stream: a}, y: {stream: b}}, outer: left"


def stage(answer: str, quality: str, operators: list[str]) -> Stage:
    topology = parse(
        "streams: {a: {clock: {unsynced: trust}}, b: {clock: {unsynced: trust}}}\n"
        f"queries: {{q: {{{JOIN}{quality}, answer: {answer}}}}}\n"
    )
    return Stage(topology, operators)


def raw(seed: int, n: int = 300) -> list[Event]:
    """Two sources a stream; some events are late, some lost."""
    rng = Random(seed)
    events = []
    seqs = dict.fromkeys(("a0", "a1", "b0", "b1"), -1)
    for i in range(n):
        source = rng.choice(list(seqs))
        seqs[source] += 1
        if rng.random() < 0.02:
            continue
        ts_ns = START + i * 5 * MS
        arrival_ns = ts_ns + MS + (rng.randrange(80) * MS if rng.random() < 0.2 else 0)
        events.append(Event(source[0], source, NO_EPOCH, seqs[source], ts_ns, arrival_ns))
    events.sort(key=lambda event: event.arrival_ns)
    for offset, event in enumerate(events):
        event.offset = offset
    return events


def found_by(
    operator: Stage, events: list[Event], sizes: tuple[int, ...], rng: Random
) -> list[Any]:
    found = results_to_end(operator, cut(copies(events), rng, sizes))
    return sorted((r.at_ns, r.id, r.op, r.revision, r.final, r.confidence) for r in found)


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["early", "speculate"])
def test_cuts_change_nothing(answer: str) -> None:
    quality = ", quality: {accuracy: 90%, max_wait: 300ms}" if answer == "speculate" else ""
    for seed in range(12):
        events = raw(seed)
        operators = ["reorder", "merge", "join"]
        whole = found_by(stage(answer, quality, operators), events, (len(events),), Random(seed))
        cut = found_by(stage(answer, quality, operators), events, (1, 7, 50), Random(seed))
        assert whole == cut, f"seed {seed}"
        assert len(whole) > 100


def test_streams_that_share_a_partition_each_go_by_their_own_clock() -> None:
    """Written by several stages, they are not in one order."""
    topology = parse(
        "streams: {a: {}, b: {}}\nqueries:\n"
        "  p: {window: tumbling 100ms, stream: a, aggregate: {n: count()}, quality: {}}\n"
        "  q: {window: tumbling 100ms, stream: b, aggregate: {n: count()}, quality: {}}\n"
    )
    for seed in range(12):
        rng = Random(seed)
        events, now_ns = [], {"a": START, "b": START - 5_000 * MS}
        for offset in range(300):
            stream = rng.choice("aaab" if offset // 50 % 2 else "ab")
            now_ns[stream] += rng.choice((1, 5, 40)) * MS
            event = Event(stream, "s", 0, offset, now_ns[stream], now_ns[stream] + MS, offset)
            event.value = b"{}"
            events.append(event)
        whole = found_by(Stage(topology, ["window"]), events, (len(events),), Random(seed))
        cut = found_by(Stage(topology, ["window"]), events, (1, 7), Random(seed))
        assert whole == cut, f"seed {seed}"
