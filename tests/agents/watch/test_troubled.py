"""Examples: what is told of a source that comes late or leaves gaps."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from agents.watch.frequent import Frequent
from agents.watch.metrics import Metrics
from agents.watch.partition_metrics import PartitionMetrics
from agents.watch.troubled import COUNTED, Troubled
from topology.model.event import Event
from topology.model.outcome import Duplicate, Gap, Late, Report, Step


def event(source: str, seq: int = 0, late: str = "") -> Event:
    made = Event("pitch", source, 0, seq, 0, 0)
    made.late = late
    return made


def gap(source: str, first: int, last: int) -> Gap:
    return Gap(9, "pitch", source, 0, first, last, "timeout", 1)


def test_late_events_and_gaps_by_source() -> None:
    partition = PartitionMetrics(Metrics(CollectorRegistry()), "reorder", 0, ["pitch"])
    reports: list[Report] = [
        gap("a", 3, 5),
        gap("a", 7, 7),
        Late(9, event("b"), "gap", 0),
        Duplicate(9, event("c")),
    ]
    partition.said(Step(9, [event("a", 4, late="gap"), event("a", 8), event("c", 1)], reports))
    assert partition.troubled.explain() == [
        {"stream": "pitch", "source": "a", "late": 1, "gaps": 2, "lost": 4},
        {"stream": "pitch", "source": "b", "late": 1, "gaps": 0, "lost": 0},
    ]


def test_it_is_bounded_for_any_number_of_sources() -> None:
    troubled = Troubled(Frequent(COUNTED))
    troubled.saw([gap("often", n, n) for n in range(300)])
    troubled.saw([gap(f"s{n}", 0, 0) for n in range(20 * COUNTED)])
    told = troubled.explain()
    assert len(told) <= COUNTED
    assert [each["lost"] for each in told if each["source"] == "often"] == [300]
