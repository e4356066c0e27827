"""What it costs to be looked at: traces, the notes of what left the plain way, and a question.

* *traces*: the core of a fused stage over the same events, in turn without a probe and with one
  that samples one event in 1 000, 100 or 1; ratios of CPU time, each round by itself, median.
* *notes*: what a partition's metrics take for each report of a flood of copies, with the notes that
  `/event` is answered from and without.
* *a question*: where one event is, in a stage that knows very many sources, some behind a hole.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from statistics import median
from typing import Final

import click
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.watch.decisions import Decisions
from agents.watch.metrics.partition import PartitionMetrics
from agents.watch.metrics.worker import Metrics
from benchmarks.core import cut
from benchmarks.tables import Page, Table
from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row, to_events
from sinks.otlp.budget import Budget
from sinks.otlp.sampling import Sampling
from topology.config import Topology, parse
from topology.flow.stage import Stage
from topology.model.event import Event
from topology.model.outcome import Duplicate, Report, Step

TOPOLOGY: Final = "streams: {default: {}}\nstages: [reorder+merge]\n"
OPERATORS: Final = ("reorder", "clock", "merge")
ONE_IN: Final = (1_000, 100, 1)
BATCH: Final = 500
SOURCES: Final = 10_000
QUESTIONS: Final = 2_000
COPIES: Final = 20_000
ROUNDS: Final = 9


def traced(config: Topology, rows: Sequence[Row], one_in: int | None) -> float:
    """CPU seconds; None: without a probe."""
    stage = Stage(config, OPERATORS)
    budget = None if one_in is None else Budget(Sampling(one_in), OPERATORS)
    if budget is not None:
        stage.show(budget)
    batches = cut(to_events(rows), BATCH)
    gc.collect()
    began = time.process_time()
    for number, events in enumerate(batches):
        stage.on_batch(events, events[-1].at_ns)
        if budget is not None and not number % 20:
            budget.take()  # a checkpoint
    return time.process_time() - began


class Mute(Decisions):
    """Keeps nothing."""

    def saw(self, reports: Sequence[Report]) -> None:
        return


def noted(decisions: Decisions) -> float:
    """Microseconds for each copy that is told to a partition's metrics."""
    source = TopicPartition("raw", 0)
    partition = PartitionMetrics(Metrics(CollectorRegistry()), "reorder", source, ["default"])
    partition.decisions = decisions
    copies: list[Report] = [
        Duplicate(n, Event("default", f"s{n % 50}", 0, n, n, n)) for n in range(COPIES)
    ]
    began = time.process_time()
    for at in range(0, COPIES, BATCH):
        partition.emitted(Step(at, [], copies[at : at + BATCH]))
    return (time.process_time() - began) / COPIES * 1e6


def asked() -> tuple[float, float]:
    """Microseconds to say where an event is: of one behind a hole, of one that has left."""
    stage = Stage(parse(TOPOLOGY), OPERATORS)
    events = [
        Event("default", f"s{source}", 0, seq, seq, 1_000_000 + seq)
        for seq in (0, 1, 2, 4)
        for source in range(SOURCES)
    ]
    stage.on_batch(events, events[-1].at_ns)
    took = []
    for seq in (4, 0):
        began = time.process_time()
        for number in range(QUESTIONS):
            stage.locate_in("default", f"s{number % SOURCES}", 0, seq)
        took.append((time.process_time() - began) / QUESTIONS * 1e6)
    return took[0], took[1]


@click.command("watching")
@click.option("--full", is_flag=True, help="300,000 events instead of 50,000.")
@click.option("--rounds", type=click.IntRange(1), default=ROUNDS, show_default=True)
def command(full: bool, rounds: int) -> None:
    """What traces, notes and questions cost."""
    config = parse(TOPOLOGY)
    rows = crowd(300_000 if full else 50_000).rows
    ratios: dict[int, list[float]] = {one_in: [] for one_in in ONE_IN}
    for _ in range(rounds):
        off = traced(config, rows, None)
        for one_in in ONE_IN:
            ratios[one_in].append(traced(config, rows, one_in) / off)
    page = Page(None)
    table = Table("CPU of the core with traces, to that without", ("one in", "ratio"))
    for one_in, found in ratios.items():
        table.add(f"{one_in:,}", f"{median(found):.3f}")
    page.table(table)
    table = Table("microseconds", ("what", "CPU"))
    notes = [(noted(Mute()), noted(Decisions())) for _ in range(rounds)]
    table.add("a copy told to the metrics, not noted", f"{median(off for off, _ in notes):.2f}")
    table.add("the same, noted for /event", f"{median(on for _, on in notes):.2f}")
    held, left = asked()
    table.add(f"where an event is that waits, {SOURCES:,} sources", f"{held:.0f}")
    table.add("where one is that has left", f"{left:.0f}")
    page.table(table)
