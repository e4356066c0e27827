"""Laws and examples: a stage reports what became of single events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.kit.events import event
from tests.laws.streams import raw
from topology.base.event import DATA, Event
from topology.base.location import (
    AWAITED,
    BEFORE_START,
    FORGOTTEN,
    HELD,
    LOST,
    NOT_COME,
    OLD_EPOCH,
    PASSED,
)
from topology.base.outcome import Gap, Step
from topology.config import parse
from topology.stage.registry import places_of
from topology.stage.stage import Stage

OPERATORS = ("reorder", "clock", "merge")
TOPOLOGY = """\
streams:
  default:
    reorder: {rule: fixed, max_wait: 50ms}
    clock: {unsynced: trust}
    merge: {max_wait: 50ms, idle_after: 100ms}
topics: {partitions: 1}
"""
BY_TIME = """\
streams: {default: {reorder: {rule: time, max_wait: 50ms}, clock: {unsynced: trust}}}
topics: {partitions: 1}
"""
MS = 1_000_000


def stage_of(topology: str = TOPOLOGY) -> Stage:
    return Stage(parse(topology), OPERATORS)


def places_in(stage: Stage, source: str, epoch: int, seq: int) -> dict[str, str]:
    """Return where each operator that buffers events places the event."""
    streams = stage.locate_in("default", source, epoch, seq)["streams"]
    found = streams.get("default", {})
    return {name: answer["where"] for name, answer in found.items() if "where" in answer}


def answer_of(stage: Stage, source: str, epoch: int, seq: int, operator: str = "reorder") -> Any:
    return stage.locate_in(None, source, epoch, seq)["streams"]["default"][operator]


def put(stage: Stage, events: Iterable[Event]) -> Step:
    events = sorted(events, key=lambda each: each.arrival_ns)
    return stage.on_batch(events, events[-1].arrival_ns)


@pytest.mark.parametrize("seed", range(12))
def test_location_matches_the_outcome(seed: int) -> None:
    stage = stage_of()
    places = places_of(list(OPERATORS))
    left: set[tuple[str, int, int]] = set()
    sent = raw(seed, n=120)
    gaps: list[Gap] = []
    counted = dict.fromkeys((HELD, PASSED, LOST), 0)
    for one in sent:
        step = stage.on_batch([one], one.at_ns)
        left |= {(e.source, e.epoch, e.seq) for e in step.released if e.kind == DATA and not e.late}
        gaps += [report for report in step.reports if isinstance(report, Gap)]
        for waits in stage.waiting():
            if waits.kind == DATA:
                where = places_in(stage, waits.source, waits.epoch, waits.seq)
                assert (
                    where[
                        "merge" if stage.ledger.places_of(waits) == places["merge"] else "reorder"
                    ]
                    == HELD
                )
                counted[HELD] += 1
    # The epochs of all events are known only now.
    came = {(one.source, one.epoch, one.seq) for one in sent}
    for source, epoch, seq in left:
        assert places_in(stage, source, epoch, seq)["merge"] in {PASSED, OLD_EPOCH}
        counted[PASSED] += 1
    for gap in gaps:
        for seq in range(gap.first, min(gap.last, gap.first + 50) + 1):
            if (gap.source, gap.epoch, seq) not in came:
                gone = places_in(stage, gap.source, gap.epoch, seq)["reorder"]
                assert gone in {LOST, FORGOTTEN, OLD_EPOCH}
                counted[LOST] += 1
    assert counted[HELD], "the stream held nothing"
    assert counted[PASSED], "nothing left"


def test_event_after_gap_is_buffered() -> None:
    stage = stage_of()
    put(stage, [event(0, 1_000), event(3, 1_003), event(4, 1_004)])
    answer = answer_of(stage, "s", -1, 4)
    assert (answer["where"], answer["reason"], answer["missing"]) == (HELD, "hole", [1, 2])
    assert answer["until"] == (1_003 + 50) * MS
    assert places_in(stage, "s", 0, 2)["reorder"] == AWAITED
    assert places_in(stage, "s", 0, 5)["reorder"] == NOT_COME
    assert places_in(stage, "s", 1, 0)["reorder"] == NOT_COME
    assert places_in(stage, "nobody", 0, 0) == {}
    stage.on_time((1_003 + 51) * MS)
    answer = answer_of(stage, "s", 0, 2)
    assert (answer["where"], answer["missing"]) == (LOST, [1, 2])


def test_event_waits_for_start_or_epoch() -> None:
    """Numbers before the start, of an old epoch, or given up as lost are reported as such."""
    stage = stage_of()
    put(stage, [event(7, 1_000)])
    answer = answer_of(stage, "s", 0, 7)
    assert (answer["where"], answer["reason"]) == (HELD, "start")
    stage.on_time(1_100 * MS)
    assert places_in(stage, "s", 0, 6)["reorder"] == BEFORE_START
    put(stage, [event(9, 1_200), event(0, 1_201, epoch=2)])
    answer = answer_of(stage, "s", 2, 0)
    assert (answer["where"], answer["reason"], answer["epoch_in_force"]) == (HELD, "epoch", 0)
    stage.on_time(1_400 * MS)
    assert places_in(stage, "s", 1, 0)["reorder"] == OLD_EPOCH
    assert places_in(stage, "s", 0, 8)["reorder"] == LOST
    assert places_in(stage, "s", 0, 50)["reorder"] == OLD_EPOCH


def test_jumped_number_is_buffered() -> None:
    stage = stage_of(
        TOPOLOGY.replace("max_wait: 50ms}\n    clock", "max_wait: 50ms, max_jump: 9}\n    clock")
    )
    put(stage, [event(0, 1_000), event(500, 1_001)])
    answer = answer_of(stage, "s", 0, 500)
    assert (answer["where"], answer["reason"]) == (HELD, "jump")


def test_merge_names_awaited_source() -> None:
    stage = stage_of()
    sent = ((0, 1_000, "a"), (0, 1_000, "b"), (1, 1_001, "a"))
    put(stage, [event(seq, ts, source=source) for seq, ts, source in sent])
    put(stage, [event(2, 1_010, source="a")])
    answer = answer_of(stage, "a", 0, 2, "merge")
    assert answer["where"] == HELD
    assert [feed["source"] for feed in answer["waits_for"]] == ["b"]


def test_emitted_events_by_time_are_found() -> None:
    stage = stage_of(BY_TIME)
    put(stage, [event(number, 1_000 + number) for number in range(5)])
    stage.on_time(1_500 * MS)
    assert places_in(stage, "s", 0, 3)["reorder"] == PASSED
    assert places_in(stage, "s", 0, 5)["reorder"] == NOT_COME


def test_source_has_its_own_counts() -> None:
    stage = stage_of()
    put(stage, [event(0, 1_000), event(0, 1_000), event(2, 1_002)])
    counts = stage.counts_in("default", "s")
    assert (counts["received"], counts["duplicate"], counts["late"]) == (3, 1, 0)
    assert stage.counts_in("default", "nobody") == stage.counts_in("no stream", "s") == {}
