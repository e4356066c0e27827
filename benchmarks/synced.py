"""Run streams with wrong clocks through the whole stage in this process.

A `Method` determines how the clocks are measured. Rows get timestamps from their sources' dials and
go through reorder, clock and merge. The output is compared with the event times
(`benchmarks.truth`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge as merged
from itertools import count
from typing import Final, NamedTuple

from benchmarks.holding import feed
from benchmarks.published.methods import Build, builders
from benchmarks.truth import BEFORE_ALL, Truth
from benchmarks.workloads.clocks import AS_CLIENT, EVERY_MINUTE, Dial, rounds
from benchmarks.workloads.laws import S
from benchmarks.workloads.rows import Row
from benchmarks.workloads.soccer import SOURCE_SHIFT_NS
from topology.base.event import Event
from topology.base.outcome import Step
from topology.base.sample import Sample
from topology.config import ClockConfig, MergeConfig, StreamConfig, Topology
from topology.config.stages import MERGE, REORDER
from topology.order.clock.drift_table import DriftTable
from topology.stage.stage import Stage

AFTERWARDS_NS: Final = 10 * S
"""The time by which the clock advances after the last event."""


class Method(NamedTuple):
    """A method to correct clocks, with the pauses in seconds between bursts of rounds."""

    name: str
    config: ClockConfig
    pauses_s: Sequence[int] = EVERY_MINUTE
    built_by: Mapping[str, Build] = {}


TRUST: Final = Method(
    "no sync: trust",
    # A clock may be ahead of the arrival by the largest offset plus a skew.
    ClockConfig(sync="none", unsynced="trust", max_ahead_ns=2 * 3_600 * S),
)
ESTIMATE: Final = Method("no sync: estimate", ClockConfig(sync="none"))
POLYGON: Final = Method("sync: polygon", ClockConfig())
THESIS: Final = Method("sync: thesis", ClockConfig(), built_by=builders(clock="thesis"))
AS_CLIENT_DOES: Final = Method("sync: polygon, as client", ClockConfig(), AS_CLIENT)
METHODS: Final = (TRUST, ESTIMATE, THESIS, POLYGON, AS_CLIENT_DOES)
SYNCED: Final = (THESIS, POLYGON, AS_CLIENT_DOES)


class Span(NamedTuple):
    """The first and the last event time of a workload."""

    first_ns: int
    last_ns: int


def run(
    rows: Iterable[Row],
    span: Span,
    dials: dict[str, Dial],
    method: Method,
    settled_ns: int = BEFORE_ALL,
) -> Truth:
    """Run all rows through the stage to the end, with timestamps from their sources' dials.

    Raises:
        RuntimeError: Some rows were not emitted.
    """
    truth = Truth(settled_ns)
    samples = rounds(dials, span.first_ns, span.last_ns, method.pauses_s)
    sent = run_events(stamp(rows, dials), tuple(dials), samples, method, truth.take_step)
    if truth.released != sent:
        raise RuntimeError(f"{method.name}: {sent} events sent, {truth.released} emitted")
    return truth


def run_events(
    events: Iterator[Event],
    sources: tuple[str, ...],
    samples: Iterable[Sample],
    method: Method,
    emitted: Callable[[Step], None],
) -> int:
    """Run all events through the stage and to the end, and return their number.

    `emitted` is called with each step.
    """
    table = DriftTable()
    for sample in samples:
        table.add(sample)
    merge = MergeConfig(expected_sources=sources)
    stream = StreamConfig(clock=method.config, merge=merge, built_by=method.built_by)
    stage = Stage(Topology(streams={"default": stream}), (REORDER, MERGE), table=table)
    sent = count()
    now_ns = feed(stage, (event for event, _ in zip(events, sent, strict=False)), emitted)
    emitted(stage.on_time(now_ns + AFTERWARDS_NS))
    emitted(stage.on_end(now_ns + AFTERWARDS_NS))
    return next(sent)


def stamp(rows: Iterable[Row], dials: dict[str, Dial]) -> Iterator[Event]:
    """Yield events with timestamps from their sources' dials.

    `ts` is the reading of the source's dial. `record` is the event time, rounded down to the same
    resolution.
    """
    for offset, (arrival_ns, source, seq, true_ns) in enumerate(rows):
        dial = dials[source]
        ts_ns = dial.shows(true_ns)
        true_ns = true_ns // dial.step_ns * dial.step_ns
        yield Event("default", source, 0, seq, ts_ns, arrival_ns, offset, true_ns)


def replicate_stream(single: Sequence[Row], sources: int) -> Iterator[Row]:
    """Yield the same stream from each source, with source i shifted by 3 ms * i.

    The rows, which may be twenty million, are not stored in a list.
    """
    return merged(*(shift(single, source) for source in range(sources)))


def shift(single: Sequence[Row], source: int) -> Iterator[Row]:
    name, shift_ns = str(source), source * SOURCE_SHIFT_NS
    for row in single:
        yield Row(row.arrival_ns + shift_ns, name, row.seq, row.ts_ns + shift_ns)


def span_of(single: Sequence[Row], sources: int = 1) -> Span:
    stamps = [row.ts_ns for row in single]
    return Span(min(stamps), max(stamps) + (sources - 1) * SOURCE_SHIFT_NS)
