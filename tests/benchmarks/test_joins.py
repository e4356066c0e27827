"""Examples: the benchmark of joins in small; what it counts is what there is."""

from __future__ import annotations

from benchmarks.joins import KEYS, KINDS, by_kind, by_outer, config_of, joined_per_second, stream
from topology.model.event import DATA


def test_every_table_has_its_rows() -> None:
    assert len(by_outer(300).rows) == len(KEYS)
    assert [row[0] for row in by_kind(300).rows] == list(KINDS)


def test_rows_are_those_of_the_definition() -> None:
    events = stream(2_000, 50)
    data = [event for event in events if event.kind == DATA]
    pairs = sum(
        0 <= other.ref_time_ns - first.ref_time_ns <= 100_000_000
        for first in data
        if first.stream == "here"
        for other in data
        if other.stream == "there" and other.value["k"] == first.value["k"]
    )
    assert joined_per_second(config_of("interval 0s to 100ms"), events)[1] == pairs > 100
