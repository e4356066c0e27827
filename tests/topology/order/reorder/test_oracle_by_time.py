"""Oracle: REORDER by time matches its slow definition, alone and in the whole stage."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.k_slack import KSlack
from tests.kit.outputs import settled_offsets
from tests.kit.topologies import in_code
from tests.seeds import seeds_of_today
from tests.topology.order.reorder.oracle_by_time import Arrival, Left, by_time
from topology.base.event import DATA, WATERMARK, Event
from topology.base.outcome import Duplicate
from topology.config import ReorderConfig, parse
from topology.order.reorder.by_time import ReorderByTime
from topology.stage.stage import Stage

MS = 1_000_000
START = 10_000
SEEDS = seeds_of_today(10)


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        # In order: each event waits from its own arrival. The last one arrives when its clock,
        # which ran on from 2 at 2, shows 9, so the wait for 5 is over.
        ([(1, 1), (2, 2), (9, 5)], "4:0 5:1 9:2"),
        ([(1, 1), (2, 2), (9, 8)], "4:0 5:1 12:2"),
        ([(1, 1), (2, 9)], "2:0 5:1"),
        # Out of order by less than the wait, then by more.
        ([(1, 4), (3, 2)], "3:1 4:0"),
        ([(1, 4), (6, 2)], "4:0 6:1*"),
        # Events of equal time are ordered by place.
        ([(1, 4), (2, 4)], "4:0 4:1"),
        # Time hardly advances: no event waits longer than 5.
        ([(1, 4), (3, 4), (5, 4), (9, 5)], "4:0 4:1 5:2 9:3"),
    ],
)
def test_oracle_matches_hand_examples(arrivals: list[tuple[int, int]], expected: str) -> None:
    given = [Arrival(at, time, place) for place, (at, time) in enumerate(arrivals)]
    left = by_time(given, wait=3, max_wait=5)
    assert " ".join(f"{one.at}:{one.place}{'*' if one.late else ''}" for one in left) == expected


def stream(seed: int, n: int = 150, sources: int = 3) -> list[Event]:
    """Return sources without numbers, whose clocks disagree; only some send in order."""
    rng = Random(seed)
    sent = []
    for i in range(sources):
        ts = START + rng.choice((0, 0, -700, 40))
        delayed, reach = rng.choice((0.0, 0.3, 0.9)), rng.choice((4, 15, 60))
        arrival = START + rng.randint(0, 20)
        for _ in range(n // sources):
            step = rng.choice((0, 1, 2, 5, 5, 40 if rng.random() < 0.1 else 1))
            ts += step
            arrival += step
            late = rng.randint(0, reach) if rng.random() < delayed else 0
            sent.append((arrival + late, ts, f"s{i}"))
    sent.sort(key=lambda one: one[0])
    return [
        Event("default", source, -1, offset, ts * MS, arrival * MS, offset)
        for offset, (arrival, ts, source) in enumerate(sent)
    ]


def by_source(events: list[Event]) -> dict[str, list[Arrival]]:
    sources: dict[str, list[Arrival]] = defaultdict(list)
    for one in events:
        sources[one.source].append(Arrival(one.arrival_ns // MS, one.ts_ns // MS, one.offset))
    return sources


@pytest.mark.slow
@pytest.mark.parametrize(("wait", "max_wait"), [(0, 50), (7, 50), (30, 30), (30, 200)])
def test_each_source_matches_oracle(wait: int, max_wait: int) -> None:
    config = ReorderConfig(rule="time", max_wait_ns=max_wait * MS)
    policy = partial(KSlack, wait * MS, idle_ns=0)
    for seed in SEEDS:
        events = stream(seed)
        operator = ReorderByTime("default", config, policy)
        released = []
        for one in copies(events):
            released += operator.on_batch([one], one.at_ns).released
        released += operator.on_time(events[-1].at_ns + 1_000 * MS).released
        said: dict[str, list[Left]] = defaultdict(list)
        numbers: dict[str, list[int]] = defaultdict(list)
        for one in released:
            if one.kind == DATA:
                said[one.source].append(Left(one.at_ns // MS, one.offset, one.late != ""))
                numbers[one.source].append(one.seq)
        for source, arrivals in by_source(events).items():
            assert said[source] == by_time(arrivals, wait, max_wait), (seed, source)
            first = arrivals[0].place
            assert numbers[source] == list(range(first, first + len(arrivals)))


PUBLISHED = "the largest lateness"


def topology(late: str = "pass", more: str = "", clock: str = "unsynced: trust") -> Any:
    reorder = f"{{rule: time, max_wait: 100ms, late: {late}{more}}}"
    if more == PUBLISHED:
        reorder = f"{{rule: time, max_wait: 100ms, late: {late}}}, experimental: {{reorder: mp}}"
    stream = f"{{reorder: {reorder}, clock: {{{clock}}}}}"
    return in_code(f"streams: {{default: {stream}}}\nheartbeat: 20ms\ncorrect_for: 2s\n")


@pytest.mark.slow
@pytest.mark.parametrize("late", ["pass", "side"])
@pytest.mark.parametrize("more", ["", ", miss_target: 10%", PUBLISHED, ", miss_target: 0.0001%"])
def test_stage_output_is_in_order(late: str, more: str) -> None:
    for seed in SEEDS:
        events = stream(seed)
        stage = Stage(topology(late, more), ("reorder", "merge"))
        released: list[Event] = []
        reports: list[Any] = []
        for one in copies(events):
            step = stage.on_batch([one], one.at_ns)
            released += step.released
            reports += step.reports
        end = stage.on_end(events[-1].at_ns)
        released += end.released
        reports += end.reports

        assert sorted(settled_offsets(released, reports, set(range(len(events))))) == [
            one.offset for one in events
        ]
        assert not any(isinstance(report, Duplicate) for report in reports)
        kept = [one for one in released if one.kind == DATA]
        keys = [(e.ref_time_ns, e.at_ns, e.source, e.epoch, e.seq) for e in kept if not e.late]
        assert keys == sorted(set(keys))
        assert len({(one.source, one.epoch, one.seq) for one in kept}) == len(kept)
        for one in kept:
            if not one.late:
                assert one.ref_time_ns == one.ts_ns
        for one in released:
            if one.kind == WATERMARK:
                assert one.complete_ns <= one.ref_time_ns - 2_000 * MS
        waited = [(one.at_ns - one.arrival_ns) // MS for one in kept]
        assert max(waited) <= 100 + 500  # reorder.max_wait and merge.max_wait


def test_merge_waits_for_buffered_source() -> None:
    """No event is late to REORDER, whose wait is long enough. The merge itself has no wait, but no
    event is late to it either.
    """
    text = (
        "streams: {default: {reorder: {rule: time, max_wait: 60ms, miss_target: 0.0001%},"
        " clock: {unsynced: trust}, merge: {max_wait: 0ms}}}"
    )
    late = held_longer = 0
    for seed in SEEDS:
        rng = Random(seed)
        sent = []
        for source, reach in (("calm", 0), ("wild", 50)):
            for i in range(100):
                ts = START + 7 * i
                sent.append((ts + rng.randint(0, reach), ts, source))
        sent.sort()
        stage = Stage(parse(text), ("reorder", "merge"))
        for offset, (arrival, ts, source) in enumerate(sent):
            event = Event("default", source, -1, offset, ts * MS, arrival * MS, offset)
            for one in stage.on_batch([event], event.at_ns).released:
                held_longer += one.source == "wild" and one.at_ns - one.arrival_ns > 5 * MS
                late += one.late != "" and one.arrival_ns - one.ts_ns < 1 * MS
    assert held_longer > 100
    assert late == 0
