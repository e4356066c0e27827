"""Duplicates by id in REORDER by time: examples, and a law that compares runs with and without
duplicates.

The law repeats events of a stream at random later arrivals. The run with the duplicates emits the
same as the run without, even if it is restarted at every point.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.order.reorder.test_by_time import MS, event, operator
from topology.base.event import DATA, Event
from topology.base.outcome import Duplicate, Late, Malformed
from topology.order.reorder.by_time import ReorderByTime
from topology.records.checker import digest_of_id
from topology.state.saved import ShapeRefused


def sent(ts: int, arrival: int, offset: int, id_: str = "", source: str = "a") -> Event:
    one = event(ts, arrival, offset, source)
    if id_:
        one.digest = digest_of_id(source, id_)
    return one


def copies(reorder: ReorderByTime, *events: Event) -> list[int]:
    """Return the offsets of the events that are reported as duplicates."""
    step = reorder.on_batch(events, events[-1].at_ns)
    return [one.event.offset for one in step.reports if isinstance(one, Duplicate)]


def test_repeated_id_is_a_duplicate() -> None:
    reorder = operator()
    events = [sent(1, 100, 0, "x"), sent(2, 101, 1, "y"), sent(1, 102, 2, "x"), sent(9, 103, 3)]
    assert copies(reorder, *events) == [2]
    assert reorder.figures()["ids"] == 2


def test_id_counts_within_its_source() -> None:
    assert copies(operator(), sent(1, 100, 0, "x"), sent(1, 100, 1, "x", "b")) == []


def test_events_without_id_are_distinct() -> None:
    assert copies(operator(), sent(1, 100, 0), sent(1, 100, 1)) == []


def test_id_is_remembered_by_arrival() -> None:
    reorder = operator(id_memory="50ms", max_ids=8)  # A page has one id.
    events = [
        sent(1, 100, 0, "x"),
        sent(1, 149, 1, "x"),
        sent(1, 150, 2, "x"),
        sent(1, 199, 3, "x"),
    ]
    assert copies(reorder, *events) == [1, 3]  # The time counts from the first event.
    assert copies(reorder, sent(1, 300, 4, "y")) == []
    assert (reorder.figures()["ids"], reorder.figures()["ids_forgotten"]) == (1, 0)


def test_id_of_dead_letter_is_not_kept() -> None:
    reorder = operator(max_ahead=10)
    step = reorder.on_batch([sent(500, 100, 0, "x"), sent(99, 101, 1, "x")], 101 * MS)
    assert [type(one) for one in step.reports] == [Malformed]


def test_late_event_can_have_duplicates() -> None:
    reorder = operator(wait=0, late="side")
    events = [sent(100, 200, 0, "x"), sent(90, 201, 1, "y"), sent(90, 202, 2, "y")]
    step = reorder.on_batch(events, 202 * MS)
    assert [type(one) for one in step.reports] == [Late, Duplicate]


@pytest.mark.parametrize("most", [1, 2, 30])
def test_oldest_ids_make_room(most: int) -> None:
    reorder = operator(max_ids=most)
    events = [sent(n, 100 + n, n, f"{n}") for n in range(100)]
    assert copies(reorder, *events) == []
    figures = reorder.figures()
    assert 0 < figures["ids"] <= most
    assert figures["ids"] + figures["ids_forgotten"] == 100
    assert copies(reorder, sent(200, 300, 200, "99"), sent(200, 300, 201, "0")) == [200]


def test_state_without_a_page_is_refused() -> None:
    reorder = operator(max_ids=16)
    copies(reorder, *[sent(n, 100, n, f"{n}") for n in range(10)])
    state = reorder.snapshot()
    del state["ids/2"]
    with pytest.raises(ShapeRefused, match="a page of the ids"):
        operator(max_ids=16).restore(state, [])


def stream(rng: Random) -> tuple[list[Event], list[Event]]:
    """Return events with ids, out of order, and the same with duplicates that arrive later."""
    once: list[Event] = []
    twice: list[Event] = []
    for n in range(60):
        source = rng.choice("ab")
        ts = 100 + 2 * n - rng.choice((0, 0, 3, 8, 30))
        once.append(sent(ts, 100 + 2 * n, n, f"id {n // 2 if n % 2 else n}-{n % 2}", source))
        twice.append(once[-1])
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            copy = sent(ts, 100 + 2 * n + rng.choice((0, 1, 20, 90)), n, source=source)
            copy.digest = once[-1].digest
            twice.append(copy)
    twice.sort(key=lambda one: one.at_ns)
    return once, twice


def emitted(events: Sequence[Event], *, restarts: bool = False, **settings: Any) -> list[Any]:
    reorder = operator(**settings)
    found: list[Event] = []
    reports = 0
    for one in map(fresh, events):
        step = reorder.on_batch([one], one.at_ns)
        found += step.released
        reports += sum(isinstance(each, Duplicate) for each in step.reports)
        if restarts:
            state, held = reorder.snapshot(), list(reorder.iter_held())
            held.sort(key=lambda one: one.offset)
            reorder = operator(**settings)
            reorder.restore(state, held)
    found += reorder.on_time(1_000 * MS).released + reorder.on_end(1_000 * MS).released
    data = [(one.source, one.ts_ns, one.late, one.at_ns) for one in found if one.kind == DATA]
    assert len(data) + reports == len(events)
    return data


def fresh(one: Event) -> Event:
    again = sent(one.ts_ns // MS, one.at_ns // MS, one.offset, source=one.source)
    again.digest = one.digest
    return again


@pytest.mark.parametrize("seed", seeds_of_today(20))
def test_law_duplicates_change_nothing(seed: int) -> None:
    rng = Random(seed)
    once, twice = stream(rng)
    settings: Any = {"wait": rng.choice((0, 5, 40)), "id_memory": "1s", "max_ids": 1_000}
    expected = emitted(once, **settings)
    assert emitted(twice, **settings) == expected
    assert emitted(twice, restarts=True, **settings) == expected
