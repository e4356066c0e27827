"""Examples: the operators' figures as families, over restores, and past the bound of streams."""

from __future__ import annotations

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.watch.deaths import OTHER
from agents.watch.metrics.partition import PartitionMetrics, ShellTotals, StreamFigures
from agents.watch.metrics.worker import MAX_STREAMS, Metrics
from topology.config import parse_with
from topology.config.stages import operators
from topology.detector.detector import Detector
from topology.flow.lanes import lanes_of
from topology.flow.registry import figures as figures_of_all
from topology.flow.stage import Stage
from topology.model.event import Event
from topology.model.user_functions import UserFunctions

STAGE = "reorder+merge"
TOPOLOGY = """\
streams: {default: {clock: {unsynced: trust}}}
topics: {partitions: 1}
queries:
  tumbling: {window: tumbling 1s, aggregate: {n: count()}, quality: {accuracy: 99%}}
  session: {window: session 1s, aggregate: {n: count()}}
  count: {window: count 9, aggregate: {n: count()}}
  pattern: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s", quality: {}}
  join: {join: interval 1s, sides: {a: {type: A}, b: {type: B}}, outer: full, quality: {}}
  detector: {detector: any}
"""
S = 1_000_000_000


class Told:
    """What a scrape of the registry says of one stream in partition 3."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, STAGE)

    def partition(self, *streams: str) -> PartitionMetrics:
        return PartitionMetrics(self.metrics, TopicPartition("raw", 3), streams)

    def __call__(self, family: str, stream: str = "pitch") -> float | None:
        labels = {"stage": STAGE, "stream": stream, "partition": "3"}
        return self.registry.get_sample_value(f"inorder_{family}", labels)


OWN = UserFunctions(detectors={"any": Detector(lambda state, event: (state, None))})


@pytest.mark.parametrize("name", operators())
def test_a_stage_has_the_families_of_its_operators(name: str) -> None:
    stage = Stage(parse_with(TOPOLOGY, OWN), [name], lanes=lanes_of("raw", 1))
    assert figures_of_all([name]).keys() >= stage.figures_of("default").keys()
    registry = CollectorRegistry()
    Metrics(registry, name, [name])
    families = {family.name for family in registry.collect()}
    for figure in figures_of_all():
        family = f"inorder_{figure}".replace("_ns", "_seconds")
        assert (family in families) == (figure in figures_of_all([name]))


@pytest.fixture
def told() -> Told:
    return Told()


def set_current(partition: PartitionMetrics, *, held: int = 0, **figures: int) -> None:
    partition.set_current({"pitch": StreamFigures(held, figures, 2 * S)}, ShellTotals(0, 0))


def begins(partition: PartitionMetrics, **figures: int) -> None:
    """With these totals in its state."""
    partition.begins({"pitch": StreamFigures(0, figures)}, ShellTotals(0, 0))


def test_every_figure_of_a_stage_has_a_family(told: Told) -> None:
    stage = Stage(parse_with(TOPOLOGY, OWN), operators())
    event = Event("default", "s", 0, 0, 5 * S, 7 * S)
    stage.on_batch([event], 7 * S)
    stage.on_time(8 * S)
    figures = stage.figures_of("default")
    assert figures_of_all().keys() == figures.keys(), "name it in FIGURES of its operator"
    partition = told.partition("default")
    partition.begins({}, ShellTotals(0, 0))
    partition.set_current({"default": StreamFigures(0, figures)}, ShellTotals(0, 0))
    assert told("merge_sources", "default") == 1
    assert told("merge_watermark_seconds", "default") == 5
    assert told("merge_watermark_lag_seconds", "default") == 3
    assert told("merge_overflows_total", "default") == 0


def test_totals_found_in_the_state_were_counted_before(told: Told) -> None:
    partition = told.partition("pitch")
    begins(partition, reorder_forgotten=7, reorder_sources=2, reorder_waited_ns=S)
    assert told("reorder_forgotten_total") == 0
    for forgotten in (7, 9, 9, 10):
        figures = {"reorder_sources": 5, "reorder_waited_ns": 4 * S}
        set_current(partition, held=2, reorder_forgotten=forgotten, **figures)
    assert told("reorder_forgotten_total") == 3
    assert told("reorder_sources") == 5
    assert told("reorder_waited_seconds_total") == 3
    assert told("records_held_oldest_seconds") == 2


def test_a_total_that_begins_anew_takes_nothing_back(told: Told) -> None:
    first = told.partition("pitch")
    set_current(first, merge_forgotten=4)
    second = told.partition("pitch")
    begins(second, merge_forgotten=0)
    set_current(second, merge_forgotten=2)
    assert told("merge_forgotten_total") == 6


def test_gauges_go_with_the_partition(told: Told) -> None:
    partition = told.partition("pitch")
    set_current(partition, held=4, merge_queued=4, merge_overflows=1)
    assert (told("records_held"), told("merge_queued")) == (4, 4)
    partition.forget()
    assert (told("records_held"), told("merge_queued")) == (None, None)
    assert told("merge_overflows_total") == 1


def test_streams_beyond_the_bound_are_told_together(told: Told) -> None:
    streams = [f"s{number}" for number in range(MAX_STREAMS + 3)]
    partition = told.partition(*streams)
    figures = {"merge_queued": 2, "merge_overflows": 1, "merge_watermark_ns": 5 * S}
    current = dict.fromkeys(streams, StreamFigures(2, figures))
    for _ in range(2):
        partition.set_current(current, ShellTotals(0, 0))
    assert (told("merge_queued", "s0"), told("merge_watermark_seconds", "s0")) == (2, 5)
    assert (told("merge_queued", OTHER), told("records_held", OTHER)) == (6, 6)
    assert told("merge_watermark_seconds", OTHER) is None
    assert told("merge_overflows_total", OTHER) == 3
    partition.forget()
    assert (told("merge_queued", OTHER), told("records_held", OTHER)) == (None, None)
