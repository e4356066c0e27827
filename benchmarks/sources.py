"""What an event costs when many sources send it: REORDER, CLOCK and MERGE fused, no Kafka.

`RATE_HZ` events a second in all, the sources in turn, delayed as in `crowd`, none lost; the more
sources there are, the more seldom each one sends. A *warm* fleet has sent `WARM_EVENTS` of each
source, once in `WARM_EVERY_NS`, and then for two rounds at the rate that is measured. A *starting*
one has sent nothing. Beside CPU: the bytes that a source keeps while it is silent, found by
tracemalloc, the sources' names apart. Garbage is collected as seldom as in a worker.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from agents.process.garbage import GC_THRESHOLDS
from benchmarks.core import cut, is_compiled
from benchmarks.tables import Page, Table
from benchmarks.workloads.laws import DELAYS, MS, S, constant, exponential, generator, sometimes
from benchmarks.workloads.merging import START_NS
from topology.config import Topology, parse
from topology.config.stages import MERGE, REORDER
from topology.flow.stage import Stage
from topology.model.event import Event

TOPOLOGY: Final = "streams: {default: {}}\nstages: [reorder+merge]\n"
FEW: Final = 20
"""So many sources cost 1.00."""
QUICK_SOURCES: Final = (10, FEW, 100, 1_000, 10_000)
FULL_SOURCES: Final = (*QUICK_SOURCES, 100_000)
QUICK_EVENTS: Final = 30_000
FULL_EVENTS: Final = 200_000
RATE_HZ: Final = 10_000
BATCH: Final = 100
WARM_EVENTS: Final = 66
WARM_EVERY_NS: Final = 500 * MS
WEIGHED: Final = 10_000
"""So many sources are weighed at most."""

_LONGEST_NS: Final = 450 * MS
"""No delay is longer, so that one round of a warm-up is over before the next."""
_DELAY: Final = sometimes(0.12, exponential(50 * MS, _LONGEST_NS), constant(0))


class Fleet:
    """`sources` of them; events come in order of arrival."""

    def __init__(self, sources: int, seed: int = 1) -> None:
        self.names = [f"s{number:06d}" for number in range(sources)]
        self._next_seq = [0] * sources
        self._rng = generator(seed, DELAYS)
        self.now_ns = START_NS

    def send(self, events: int, every_ns: int) -> list[Event]:
        """The next events, one each `every_ns`; the time goes on to behind the last arrival."""
        sources = len(self.names)
        made: list[Event] = []
        for at in range(events):
            turn = at % sources
            ts_ns = self.now_ns + at * every_ns
            arrival_ns = ts_ns + MS + _DELAY(self._rng)
            seq = self._next_seq[turn]
            self._next_seq[turn] += 1
            made.append(Event("default", self.names[turn], 0, seq, ts_ns, arrival_ns, at))
        self.now_ns += events * every_ns
        made.sort(key=lambda event: event.arrival_ns)
        return made

    def warm_up(self) -> Iterator[list[Event]]:
        for _ in range(WARM_EVENTS):
            began_ns = self.now_ns
            yield self.send(len(self.names), (WARM_EVERY_NS - _LONGEST_NS) // (2 * len(self.names)))
            self.now_ns = began_ns + WARM_EVERY_NS


def stage_of(config: Topology) -> Stage:
    return Stage(config, [REORDER, MERGE])


def take(stage: Stage, events: Sequence[Event]) -> float:
    """CPU seconds for all."""
    batches = cut(events, BATCH)
    gc.collect()
    began = time.process_time()
    for batch in batches:
        stage.on_batch(batch, batch[-1].at_ns)
    return time.process_time() - began


def warm_us(config: Topology, sources: int, events: int) -> float:
    """Microseconds of CPU an event of a warm fleet."""
    stage, fleet = stage_of(config), Fleet(sources)
    for made in fleet.warm_up():
        take(stage, made)
    settling = max(events, 2 * sources)
    made = fleet.send(settling + events, S // RATE_HZ)
    take(stage, made[:settling])
    return 1e6 * take(stage, made[settling:]) / events


def starting_us(config: Topology, sources: int, events: int) -> float:
    """The same of a fleet that begins."""
    return 1e6 * take(stage_of(config), Fleet(sources).send(events, S // RATE_HZ)) / events


def silent_bytes(config: Topology, sources: int) -> float:
    """What a source keeps that has sent one event, which has left."""
    fleet = Fleet(sources)
    batches = cut(fleet.send(sources, S // RATE_HZ), BATCH)[::-1]
    stage = stage_of(config)
    gc.collect()
    tracemalloc.start()
    while batches:
        batch = batches.pop()
        stage.on_batch(batch, batch[-1].at_ns)
    del batch
    stage.on_time(fleet.now_ns + 60 * S)
    stage.changes()
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return grown / sources


def measured(counts: Sequence[int], events: int) -> Table:
    config = parse(TOPOLOGY)
    warm = {count: warm_us(config, count, events) for count in counts}
    starting = {count: starting_us(config, count, events) for count in counts}
    few = FEW if FEW in warm else counts[0]
    title = f"many sources, {'compiled' if is_compiled() else 'pure'}, us of CPU an event"
    table = Table(title, ("sources", "warm", f"of {few}", "starting", f"of {few}"))
    for count in counts:
        table.add(
            f"{count:,}",
            f"{warm[count]:.2f}",
            f"{warm[count] / warm[few]:.2f}",
            f"{starting[count]:.2f}",
            f"{starting[count] / starting[few]:.2f}",
        )
    table.note = f"{silent_bytes(config, min(WEIGHED, events)):.0f} bytes a silent source"
    return table


@click.command("sources")
@click.option("--full", is_flag=True, help=f"{FULL_SOURCES[-1]:,} sources too; 10 minutes.")
@click.option("--sources", "counts", type=click.IntRange(1), multiple=True, help="Only so many.")
@click.option("--events", type=click.IntRange(100))
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
def command(full: bool, counts: tuple[int, ...], events: int | None, markdown: Path | None) -> None:
    """CPU an event, and bytes a source, of fleets of 10 to 100,000."""
    gc.set_threshold(*GC_THRESHOLDS)
    length = events or (FULL_EVENTS if full else QUICK_EVENTS)
    Page(markdown).table(measured(counts or (FULL_SOURCES if full else QUICK_SOURCES), length))
