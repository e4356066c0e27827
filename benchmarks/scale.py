"""What workers and partitions cost: 1, 2 and 4 workers over 1, 50 and 500 partitions on a machine.

`--machines` sources send `--hz` events a second each. They are dealt over as many streams as there
are partitions, and each stream lies in a partition of its own (`keyed_by: stream`), so every
partition is a place of order of its own. The stage is `reorder+merge`, exactly once, state in
RocksDB. At each point, of all processes of all workers together:

* `start`: CPU until they are ready on empty topics.
* `flow`: CPU against the wall clock, and checkpoints a second, while the fleet sends at its rate.
* `rest`: CPU a while after it has stopped.
* `memory`: their own and their part of shared pages, then.
* `backlog`: CPU an event, less that of `start`, and events a second, of what was sent while they
  were down.

The model has two prices, from the points of one worker with 1 and 50 partitions: an event, and a
checkpoint. A checkpoint is one transaction of a partition that events came to, each `checkpoint`
(100 ms) as long as the broker keeps up. The table puts what the prices say of the flow at each
point, with the checkpoints that were made there, beside what was measured.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final

import click
from confluent_kafka import Consumer, TopicPartition

from agents.kafka.stage_topics import group_of
from benchmarks.backlog import Setting, produce, settle
from benchmarks.kafka import APPEND_TIME
from benchmarks.race import ASK_TIMEOUT_S, cpu_seconds, kept_in
from benchmarks.soak import memory_mib
from benchmarks.tables import Page, Table, thousands
from benchmarks.worker import Worker
from benchmarks.workloads.rows import Row
from cli.local.kafka.client import create_topic
from cli.local.process import NotReady
from infra.kafka import missing, new_broker

WORKERS: Final = (1, 2, 4)
PARTITIONS: Final = (1, 50, 500)
QUICK_PARTITIONS: Final = (1, 50)
MACHINES: Final = 1_000
HZ: Final = 10
FLOW_S: Final = 15.0
"""Behind `SETTLE_S`, in which the sources get known."""

SETTLE_S: Final = 5.0
QUIET_S: Final = 40.0
"""Behind the last event: then the watermark follows the clock again (`merge.quiet_after`)."""

REST_S: Final = 10.0
BACKLOG_S: Final = 20
"""The fleet's time, sent `BACKLOG_SPEED` times as fast."""

BACKLOG_SPEED: Final = 10.0
ASK_EVERY_S: Final = 0.5
DRAIN_TIMEOUT_S: Final = 600.0
S_NS: Final = 1_000_000_000
DELAY_NS: Final = 1_000_000

Point = tuple[int, int]
"""Workers and partitions."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """`machines` sources that send `hz` times a second each."""

    machines: int
    hz: int

    @property
    def events_hz(self) -> int:
        return self.machines * self.hz

    def rows(self, first: int, seconds: float) -> list[Row]:
        """A stretch that begins with the number `first` of each source, their phases spread."""
        step_ns = S_NS // self.hz
        rows = []
        for number in range(first, first + round(seconds * self.hz)):
            for machine in range(self.machines):
                ts_ns = number * step_ns + machine * step_ns // self.machines
                rows.append(Row(ts_ns + DELAY_NS, f"machine-{machine:06}", number, ts_ns))
        return rows

    def places(self, partitions: int) -> dict[str, tuple[str, int]]:
        """The stream and the partition of each source."""
        dealt = ((f"machine-{m:06}", m % partitions) for m in range(self.machines))
        return {source: (stream_of(number), number) for source, number in dealt}


@dataclass(frozen=True, slots=True)
class Cost:
    """`flow` and `rest`: shares of a core."""

    start_s: float
    flow: float
    checkpoints_hz: float
    rest: float
    memory_mib: float
    backlog_us: float
    backlog_hz: float


@dataclass(frozen=True, slots=True)
class Model:
    """CPU seconds of an event and of a checkpoint."""

    event_s: float
    checkpoint_s: float

    @classmethod
    def of(cls, found: Mapping[Point, Cost], events_hz: int) -> Model | None:
        """None where one of its points is not measured."""
        one, fifty = (found.get((1, partitions)) for partitions in QUICK_PARTITIONS)
        if one is None or fifty is None:
            return None
        more_hz = fifty.checkpoints_hz - one.checkpoints_hz
        checkpoint_s = max(fifty.flow - one.flow, 0.0) / more_hz
        return cls((one.flow - one.checkpoints_hz * checkpoint_s) / events_hz, checkpoint_s)

    def flow(self, events_hz: float, checkpoints_hz: float) -> float:
        """The share of a core."""
        return events_hz * self.event_s + checkpoints_hz * self.checkpoint_s

    def __str__(self) -> str:
        return (
            f"an event {1e6 * self.event_s:.1f} us, a checkpoint {1e6 * self.checkpoint_s:.0f} us"
        )


def stream_of(partition: int) -> str:
    return f"line-{partition:03}"


class Progress:
    """How many records of the input the stage has committed, cheaply asked of the broker."""

    def __init__(self, setting: Setting, bootstrap: str, raw: str, partitions: int) -> None:
        (stage,) = setting.topology.stages
        group = group_of(setting.topology, stage)
        # Else it would wait while a transaction is open, and some are at all times.
        now = {"isolation.level": "read_uncommitted"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **now})
        self._partitions = [TopicPartition(raw, number) for number in range(partitions)]

    def records(self) -> int:
        found = self._consumer.committed(self._partitions, timeout=ASK_TIMEOUT_S)
        return sum(max(0, each.offset) for each in found)

    def wait_for(self, records: int) -> int:
        """How many there are then."""
        deadline_s = time.monotonic() + DRAIN_TIMEOUT_S
        while (done := self.records()) < records:
            if time.monotonic() > deadline_s:
                raise NotReady(f"{done} of {records} records after {DRAIN_TIMEOUT_S:.0f} s")
            time.sleep(ASK_EVERY_S)
        return done

    def close(self) -> None:
        self._consumer.close()


def spent_s(workers: Sequence[Worker]) -> float:
    return sum(cpu_seconds(worker.pid) for worker in workers)


def commits(workers: Sequence[Worker]) -> float:
    """Checkpoints of all of them since they began."""
    name = "inorder_checkpoint_commits_total"
    return sum(s.value for worker in workers for s in worker.samples() if s.name == name)


def share_of_core(workers: Sequence[Worker], seconds: float) -> float:
    began_s, before_s = time.monotonic(), spent_s(workers)
    time.sleep(seconds)
    return (spent_s(workers) - before_s) / (time.monotonic() - began_s)


def measured(point: Point, fleet: Fleet, folder: Path, bootstrap: str) -> Cost:
    count, partitions = point
    raw = f"raw-{count}-{partitions}"
    create_topic(bootstrap, raw, partitions, config=APPEND_TIME)
    streams = [stream_of(number) for number in range(partitions)]
    setting = settle(
        folder, bootstrap, raw, partitions=partitions, streams=streams, stream="keyed_by: stream"
    )
    workers = [
        Worker(f"{count}-{partitions}-{n}", setting, bootstrap, folder) for n in range(count)
    ]
    places = fleet.places(partitions)
    flowing = fleet.rows(0, SETTLE_S + FLOW_S + 1)
    with ExitStack() as ends:
        progress = Progress(setting, bootstrap, raw, partitions)
        ends.callback(progress.close)
        for worker in workers:
            ends.callback(worker.stop)
        begin(workers)
        start_s = spent_s(workers)
        feed = Thread(target=produce, args=(bootstrap, raw, flowing, 1.0, places))
        feed.start()
        time.sleep(SETTLE_S)
        checkpoints, began_s = commits(workers), time.monotonic()
        flow = share_of_core(workers, FLOW_S)
        checkpoints_hz = (commits(workers) - checkpoints) / (time.monotonic() - began_s)
        feed.join()
        progress.wait_for(len(flowing))
        time.sleep(QUIET_S)
        rest = share_of_core(workers, REST_S)
        memory = sum(sum(memory_mib(worker.pid).values()) for worker in workers)
        for worker in workers:
            worker.stop()
        backlog = fleet.rows(flowing[-1].seq + 1, BACKLOG_S)
        produce(bootstrap, raw, backlog, BACKLOG_SPEED, places)
        for worker in workers:
            worker.begin()
        first, first_s = progress.wait_for(len(flowing) + 1), time.monotonic()
        last = progress.wait_for(len(flowing) + len(backlog))
        wall_s = time.monotonic() - first_s
        cpu_s = max(spent_s(workers) - start_s, 0.0)
    return Cost(
        start_s,
        flow,
        checkpoints_hz,
        rest,
        memory,
        1e6 * cpu_s / len(backlog),
        (last - first) / max(wall_s, 1e-9),
    )


def begin(workers: Sequence[Worker]) -> None:
    for worker in workers:
        worker.begin()
    for worker in workers:
        worker.wait_until_ready()


def table_of(found: Mapping[Point, Cost], events_hz: int) -> Table:
    columns = (
        *("workers", "partitions", "start: CPU s", f"% of a core at {thousands(events_hz)}/s"),
        *("checkpoints/s", "by the model %", "at rest %", "MiB", "backlog: us/event", "events/s"),
    )
    model = Model.of(found, events_hz)
    table = Table("workers and partitions", columns, note="" if model is None else str(model))
    for (workers, partitions), cost in found.items():
        flow = None if model is None else model.flow(events_hz, cost.checkpoints_hz)
        table.add(
            str(workers),
            str(partitions),
            f"{cost.start_s:.1f}",
            f"{100 * cost.flow:.0f}",
            f"{cost.checkpoints_hz:.0f}",
            "-" if flow is None else f"{100 * flow:.0f}",
            f"{100 * cost.rest:.1f}",
            f"{cost.memory_mib:.0f}",
            f"{cost.backlog_us:.1f}",
            thousands(cost.backlog_hz),
        )
    return table


@click.command("scale")
@click.option(
    "--full", is_flag=True, help=f"Up to {WORKERS[-1]} workers and {PARTITIONS[-1]} partitions."
)
@click.option("--workers", multiple=True, type=click.IntRange(1), help="So many; again for more.")
@click.option("--partitions", multiple=True, type=click.IntRange(1), help="Likewise.")
@click.option("--machines", default=MACHINES, show_default=True, type=click.IntRange(1))
@click.option("--hz", default=HZ, show_default=True, type=click.IntRange(1))
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the table here.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep logs and data here.")
def command(
    full: bool,
    workers: tuple[int, ...],
    partitions: tuple[int, ...],
    machines: int,
    hz: int,
    markdown: Path | None,
    folder: Path | None,
) -> None:
    """CPU and memory by workers and partitions, and a model of both."""
    page = Page(markdown)
    absent = missing()
    if absent:
        page.say(f"left out: {absent}")
        return
    fleet = Fleet(machines, hz)
    found: dict[Point, Cost] = {}
    with kept_in(folder) as place:
        for count in partitions or (PARTITIONS if full else QUICK_PARTITIONS):
            for running in workers or (WORKERS if full else WORKERS[:1]):
                with new_broker(place / f"kafka-{running}-{count}") as broker:
                    point = running, count
                    found[point] = measured(point, fleet, place, broker.bootstrap)
                    page.say(f"{point}: {found[point]}")
    page.table(table_of(found, fleet.events_hz))
