"""Laws of REORDER (reorder_drift_merge.md 1.6), MERGE (3.4) and ALIGNMENT, each run alone."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from benchmarks.published.merge import PacedMerge
from tests.kit.events import copies
from tests.laws.streams import MS, START, in_log_order, orderly, raw
from tests.laws.streams_between import MAX_WAIT, aligned, sequenced
from tests.seeds import seeds_of_today
from topology.base.event import BLOCKED, DATA, PROGRESS, UNBLOCKED, Event, copy_event
from topology.base.operator import Operator
from topology.base.outcome import Gap, Late, Report
from topology.config import MergeConfig, ReorderConfig
from topology.order.merge.operator import Merge
from topology.order.reorder.operator import Reorder
from topology.stage.alignment import Alignment
from topology.stage.lanes import lanes_of

SEEDS = seeds_of_today(20)
MAX_WAIT_NS = 50 * MS

every_seed = pytest.mark.parametrize("seed", SEEDS)


def run(operator: Operator, events: list[Event]) -> tuple[list[Event], list[Report]]:
    """Run the operator until the end, and return its output without control events."""
    now_ns = events[-1].at_ns
    step = operator.on_batch(copies(events), now_ns)
    end = operator.on_end(now_ns)
    released = [event for event in step.released + end.released if event.kind == DATA]
    return released, step.reports + end.reports


def reorder(**settings: Any) -> Reorder:
    return Reorder("default", ReorderConfig(**{"max_wait": MAX_WAIT, **settings}))


def merge(made: type[Merge] = Merge, **settings: Any) -> Merge:
    chosen = {"max_wait": MAX_WAIT, "idle_after": "150ms", **settings}
    return made("default", MergeConfig(**chosen, heartbeat_ns=0))


def key(event: Event) -> tuple[int, str, int, int]:
    return event.ref_time_ns, event.source, event.epoch, event.seq


# -- REORDER ---------------------------------------------------------------------------------------


@every_seed
def test_events_in_order_do_not_wait(seed: int) -> None:
    released, reports = run(reorder(), orderly(seed))
    assert [event.offset for event in released] == list(range(len(released)))
    assert all(event.at_ns == event.arrival_ns for event in released)
    assert not reports


@every_seed
def test_wait_is_bounded(seed: int) -> None:
    """An event waits for a gap, for its epoch's start, and for the previous epoch."""
    released, _ = run(reorder(max_jump=100), raw(seed))
    assert max(event.at_ns - event.arrival_ns for event in released) <= 3 * MAX_WAIT_NS
    released, _ = run(reorder(start="zero"), simple_stream(seed))
    assert max(event.at_ns - event.arrival_ns for event in released) <= MAX_WAIT_NS


def simple_stream(seed: int) -> list[Event]:
    """Return one epoch from 0, with reordering, loss and duplicates."""
    rng = Random(seed)
    events = []
    for event in orderly(seed, n=90):
        if rng.random() < 0.05:
            continue
        event.arrival_ns = event.at_ns = event.ts_ns + rng.choice((1, 1, 4, 30, 70)) * MS
        events.append(event)
    events += [copy_event(event) for event in events if rng.random() < 0.05]
    return in_log_order(events)


@every_seed
def test_each_number_has_one_outcome(seed: int) -> None:
    events = simple_stream(seed)
    released, reports = run(reorder(start="zero", late="side"), events)
    settled: dict[str, list[int]] = defaultdict(list)
    for event in released:
        settled[event.source].append(event.seq)
    for gap in reports:
        if isinstance(gap, Gap):
            settled[gap.source] += range(gap.first, gap.last + 1)
    for numbers in settled.values():
        assert sorted(numbers) == list(range(max(numbers) + 1))
    lost = {
        (g.source, n) for g in reports if isinstance(g, Gap) for n in range(g.first, g.last + 1)
    }
    assert {(r.event.source, r.event.seq) for r in reports if isinstance(r, Late)} <= lost


@every_seed
def test_short_disorder_is_sorted(seed: int) -> None:
    rng = Random(seed)
    events = orderly(seed)
    for event in events:
        event.arrival_ns = event.at_ns = event.ts_ns + rng.randint(0, 49) * MS
    events.sort(key=lambda event: event.arrival_ns)
    released, reports = run(reorder(rule="fixed", start="zero"), events)
    assert not reports
    numbers: dict[str, list[int]] = defaultdict(list)
    for event in released:
        numbers[event.source].append(event.seq)
    for own in numbers.values():
        assert own == list(range(len(own)))


# -- MERGE -----------------------------------------------------------------------------------------


def merge_input(seed: int) -> list[Event]:
    """Return each source in sequence, without control events; the corrected timestamp is `ts`."""
    return [e for e in sequenced(seed) if e.kind == DATA and not e.late]


@every_seed
def test_long_wait_sorts_all(seed: int) -> None:
    """Until 64 delays are known, MERGE waits for a source as long as `max_wait`, which is an hour
    here.
    """
    events = merge_input(seed)[:63]
    names = sorted({event.source for event in events})
    patient = merge(max_wait="1h", idle_after="2h", expected_sources=names)
    released, reports = run(patient, events)
    assert not reports
    assert not any(event.late for event in released)
    assert [key(event) for event in released] == sorted(key(event) for event in events)


@every_seed
def test_without_wait_older_are_late(seed: int) -> None:
    """With `max_wait: 0ms`, exactly the events older than the newest one emitted are marked as
    late.
    """
    released, _ = run(merge(max_wait="0ms"), merge_input(seed))
    assert all(event.at_ns >= event.arrival_ns for event in released)
    newest_ns = 0
    for event in released:
        assert bool(event.late) == (event.ref_time_ns < newest_ns)
        newest_ns = max(newest_ns, event.ref_time_ns)


@every_seed
def test_idle_source_changes_nothing(seed: int) -> None:
    first = Event("default", "aa", 0, 0, (START - 100) * MS, (START - 100) * MS)
    events = [first, *merge_input(seed)]
    alone, _ = run(merge(), events)
    beside, _ = run(merge(expected_sources=["zz"]), events)
    emitted = [(e.offset, e.late, e.at_ns) for e in alone if e.source != "aa"]
    assert emitted == [(e.offset, e.late, e.at_ns) for e in beside if e.source != "aa"]
    assert len(emitted) == len(events) - 1


@every_seed
@pytest.mark.parametrize("made", [Merge, PacedMerge])
def test_time_shift_changes_nothing(seed: int, made: type[Merge]) -> None:
    events = sequenced(seed)
    shifted = copies(events)
    by_ns = 3_600_000_000_007
    for event in shifted:
        event.at_ns += by_ns
        event.arrival_ns += by_ns
        if event.kind not in (BLOCKED, UNBLOCKED):
            event.ref_time_ns += by_ns
            event.ts_ns += by_ns
    plain, plain_reports = run(merge(made), events)
    moved, moved_reports = run(merge(made), shifted)
    emitted = [(e.offset, e.late, e.at_ns) for e in plain]
    assert [(e.offset, e.late, e.at_ns - by_ns) for e in moved] == emitted
    assert len(plain_reports) == len(moved_reports)


# -- ALIGNMENT -------------------------------------------------------------------------------------


@every_seed
def test_alignment_orders_by_time(seed: int) -> None:
    events = aligned(seed)
    alignment = Alignment(lanes_of("raw", 3), max_queued=10_000)
    step = alignment.on_batch(copies(events), 0)
    released = step.released + alignment.on_end(0).released
    order = [(event.at_ns, event.lane, event.offset) for event in released]
    assert order == sorted(order)
    assert len(order) == sum(event.kind != PROGRESS for event in events)
    assert (alignment.waivers, alignment.overtaken) == (0, 0)


@every_seed
def test_full_alignment_waives_lagging_lane(seed: int) -> None:
    events = aligned(seed)
    alignment = Alignment(lanes_of("raw", 3), max_queued=3)
    released: list[Event] = []
    spoken_ns = 0
    for event in copies(events):
        step = alignment.on_batch([event], event.at_ns)
        assert len(list(alignment.iter_held())) <= 3
        assert all(spoken_ns <= out.at_ns for out in step.released)
        spoken_ns = step.now_ns
        released += step.released
    released += alignment.on_end(0).released
    assert len(released) == sum(event.kind != PROGRESS for event in events)
    raised = sum(event.at_ns > events[event.offset].at_ns for event in released)
    assert raised <= alignment.overtaken
    assert alignment.waivers or not alignment.overtaken


def test_silent_lane_is_awaited() -> None:
    alignment = Alignment(lanes_of("raw", 2), max_queued=100)
    event = Event("default", "a", 0, 0, 5, 5)
    assert not alignment.on_batch([event], 5).released
    assert alignment.blocking_partitions() == ["raw/1"]
    progress = Event("default", "", 0, 0, 0, 6, kind=PROGRESS)
    progress.lane = 1
    assert [e.source for e in alignment.on_batch([progress], 6).released] == ["a"]
    assert alignment.blocking_partitions() == ["raw/0"]


def test_event_of_waived_lane_arrives_now() -> None:
    alignment = Alignment(lanes_of("raw", 2), max_queued=1)
    events = [Event("default", "a", 0, seq, at, at) for seq, at in enumerate((5, 6))]
    for event in events:
        event.lane = 1
    assert len(alignment.on_batch(events, 6).released) == 2
    (late,) = alignment.on_batch([Event("default", "b", 0, 0, 3, 3)], 6).released
    assert (late.at_ns, late.arrival_ns) == (6, 3)
    assert (alignment.waivers, alignment.overtaken) == (1, 1)
    caught_up = Event("default", "b", 0, 1, 7, 7)
    next_one = Event("default", "a", 0, 2, 8, 8)
    next_one.lane = 1
    assert alignment.on_batch([caught_up, next_one], 8).released == [caught_up]
    assert alignment.blocking_partitions() == [
        "raw/0"
    ]  # Alignment waits for the caught-up lane again.
