"""Examples: what is told of a source that comes late or leaves gaps."""

from __future__ import annotations

from operator import itemgetter
from random import Random

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.watch.frequent import Frequent
from agents.watch.metrics import Metrics
from agents.watch.page.lanes import MAX_LATE, lanes
from agents.watch.partition_metrics import PartitionMetrics
from agents.watch.troubled import COUNTED, NAMED, TOLD, Troubled, share
from topology.model.event import Event
from topology.model.outcome import Duplicate, Gap, Late, Report, Step


def event(source: str, seq: int = 0, late: str = "") -> Event:
    made = Event("pitch", source, 0, seq, 0, 0)
    made.late = late
    return made


def gap(source: str, first: int, last: int) -> Gap:
    return Gap(9, "pitch", source, 0, first, last, "timeout", 1)


def test_late_events_and_gaps_by_source() -> None:
    partition = PartitionMetrics(
        Metrics(CollectorRegistry()), "reorder", TopicPartition("raw", 0), ["pitch"]
    )
    reports: list[Report] = [
        gap("a", 3, 5),
        gap("a", 7, 7),
        Late(9, event("b"), "gap", 0),
        Duplicate(9, event("c")),
    ]
    partition.said(Step(9, [event("a", 4, late="gap"), event("a", 8), event("c", 1)], reports))
    exact = {"stream": "pitch", "late_error": 0, "lost_error": 0}
    assert partition.troubled.explain(TOLD) == [
        {**exact, "source": "a", "late": 1, "gaps": 2, "lost": 4},
        {**exact, "source": "b", "late": 1, "gaps": 0, "lost": 0},
    ]


def test_one_ten_times_as_late_as_ten_thousand_others_is_told_first_and_with_its_error() -> None:
    """More sources than are counted."""
    names = [f"s{n}" for n in range(10_000) for _ in range(3)] + ["bad"] * 30
    Random(4).shuffle(names)
    late = Frequent(COUNTED)
    for name in names:
        late.note(("pitch", name))
    told = Troubled(late).explain(TOLD)
    assert len(told) == TOLD
    worst = max(told, key=itemgetter("late"))
    assert worst["source"] == "bad"
    assert worst["late"] <= 30 <= worst["late"] + worst["late_error"]
    assert worst["late_error"] <= len(names) / COUNTED
    assert any(each["late_error"] for each in told)


def test_who_loses_much_in_one_hole_is_told_before_those_with_many_holes() -> None:
    troubled = Troubled(Frequent(COUNTED))
    troubled.saw([gap("much", 1, 20_000)])
    troubled.saw([gap(f"s{n}", 2 * k, 2 * k) for k in range(3) for n in range(2 * COUNTED)])
    told = {each["source"]: each for each in troubled.explain(TOLD)}
    assert len(told) == TOLD
    assert (told["much"]["gaps"], told["much"]["lost"]) == (1, 20_000)
    assert told["much"]["lost_error"] == 0


def test_partitions_share_what_is_told_and_the_worst_of_all_are_the_same() -> None:
    """32 partitions of a thousand sources that are late, each more or less than any other."""
    partitions = 32
    parts = []
    for partition in range(partitions):
        late = Frequent(COUNTED)
        for number in range(1_000):
            amount = 1 + (number * 7_919 + partition * 104_729) % 32_003
            late.note(("pitch", f"{partition}-{number}"), amount)
        parts.append(Troubled(late))
    all_of_them = [each for part in parts for each in part.explain(1_000)]
    shared = [each for part in parts for each in part.explain(share(partitions))]
    assert len(shared) == partitions * NAMED
    named = lanes([], [], shared)["troubled"]
    assert len(named) == MAX_LATE
    assert named == lanes([], [], all_of_them)["troubled"]
    assert share(0) == share(1) == TOLD


def test_who_is_asked_for_is_told_too_if_it_was_late_at_all() -> None:
    late = Frequent(COUNTED)
    for number in range(10):
        late.note(("pitch", f"s{number}"), 10 - number)
    asked = [("pitch", "s9"), ("pitch", "s0"), ("pitch", "in order")]
    told = [each["source"] for each in Troubled(late).explain(2, asked)]
    assert told == ["s0", "s1", "s9"]
