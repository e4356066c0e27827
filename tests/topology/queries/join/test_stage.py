"""Laws of joins within a whole stage: how the input is cut into batches changes no result."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.runs import cut, results_to_end
from tests.laws.streams import MS, START, raw
from topology.base.event import Event
from topology.config import parse
from topology.stage.stage import Stage

JOIN = "join: interval 40ms, sides: {x: {stream: a}, y: {stream: b}}, outer: left"


def stage(answer: str, quality: str) -> Stage:
    topology = parse(
        "streams: {a: {clock: {unsynced: trust}}, b: {clock: {unsynced: trust}}}\n"
        f"queries: {{q: {{{JOIN}{quality}, answer: {answer}}}}}\n"
    )
    return Stage(topology, ["reorder", "merge", "join"])


def sent(seed: int) -> list[Event]:
    """Return events of two sources per stream; some are late, some lost."""
    events = raw(seed, n=300, sources=4)
    for event in events:
        event.stream = "ab"[int(event.source[1:]) % 2]
    return events


def check_cuts(make: Callable[[], Stage], events: list[Event], seed: int) -> int:
    """Assert that cuts change no result, and return the number of results."""
    found = []
    for sizes in ((len(events),), (1, 7, 50)):
        results: list[Any] = results_to_end(make(), cut(copies(events), Random(seed), sizes))
        found.append(
            sorted((r.at_ns, r.id, r.op, r.revision, r.final, r.confidence) for r in results)
        )
    assert found[0] == found[1], f"seed {seed}"
    return len(found[0])


@pytest.mark.in_turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("answer", ["early", "speculate"])
def test_cuts_change_nothing(answer: str) -> None:
    quality = ", quality: {accuracy: 90%, max_wait: 300ms}" if answer == "speculate" else ""
    for seed in range(12):
        assert check_cuts(lambda: stage(answer, quality), sent(seed), seed) > 100


def test_cuts_change_nothing_for_two_streams() -> None:
    """Two streams share a partition that is not in time order, since several stages wrote to it."""
    topology = parse(
        "streams: {a: {}, b: {}}\nqueries:\n"
        "  p: {window: tumbling 100ms, stream: a, aggregate: {n: count()}, quality: {}}\n"
        "  q: {window: tumbling 100ms, stream: b, aggregate: {n: count()}, quality: {}}\n"
    )
    for seed in range(12):
        rng = Random(seed)
        events, now_ns = [], {"a": START * MS, "b": (START - 5_000) * MS}
        for offset in range(300):
            stream = rng.choice("aaab" if offset // 50 % 2 else "ab")
            now_ns[stream] += rng.choice((1, 5, 40)) * MS
            event = Event(stream, "s", 0, offset, now_ns[stream], now_ns[stream] + MS, offset)
            event.value = b"{}"
            events.append(event)
        assert check_cuts(lambda: Stage(topology, ["window"]), events, seed)
