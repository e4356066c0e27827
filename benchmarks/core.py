"""Measure the speed of the core alone: REORDER, MERGE, and the fused stage, without Kafka.

The workload `crowd` is used with no, 1 % and 12 % of the events delayed, in batches of several
sizes. The time to make the events is not measured. MERGE takes the output of REORDER and CLOCK.
Memory is measured in the interpreter's allocator, per event buffered after a gap and per source. It
does not include the events.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from benchmarks import harness
from benchmarks.harness import Asked, Figures, Tables, compare_trees, cpu_s
from benchmarks.workloads import crowd, to_events
from benchmarks.workloads.rows import Row
from topology.base.event import Event
from topology.config import Topology, parse
from topology.config.stages import MERGE, REORDER
from topology.stage.ledger import Ledger
from topology.stage.registry import chain_of
from topology.stage.stage import Stage

BATCHES: Final = (1, 10, 100, 1_000)
DELAYED: Final = (0.0, 0.01, 0.12)
MEMORY_COUNT: Final = 20_000
TOPOLOGY: Final = "streams: {default: {}}\nstages: [reorder+merge]\n"

OnBatch = Callable[[Sequence[Event], int], Any]
Given = list[tuple[Sequence[Event], int]]
"""The batches, each with the time of its arrival."""


def _prepare_stage(config: Topology, batches: list[Sequence[Event]]) -> tuple[OnBatch, Given]:
    return Stage(config, [REORDER, MERGE]).on_batch, _add_times(batches)


def _prepare_reorder(config: Topology, batches: list[Sequence[Event]]) -> tuple[OnBatch, Given]:
    chain = chain_of(config, "default", [REORDER], Ledger())
    return chain.nodes[0].operator.on_batch, _add_times(batches)


def _merge(config: Topology, batches: list[Sequence[Event]]) -> tuple[OnBatch, Given]:
    chain = chain_of(config, "default", [REORDER, MERGE], Ledger())
    reorder, clock, merge = (node.operator for node in chain.nodes)
    given: Given = []
    for events, now_ns in _add_times(batches):
        step = reorder.on_batch(events, now_ns)
        given.append((clock.on_batch(step.released, step.now_ns).released, step.now_ns))
    return merge.on_batch, given


def _add_times(batches: list[Sequence[Event]]) -> Given:
    return [(events, events[-1].at_ns) for events in batches]


PARTS: Final = {"reorder": _prepare_reorder, "merge": _merge, "fused stage": _prepare_stage}


def measure(events: int, batches: Sequence[int] = BATCHES) -> Figures:
    """Return microseconds of CPU per event for each part, and the bytes of memory."""
    config = parse(TOPOLOGY)
    found: Figures = {}
    for delayed in DELAYED:
        rows = crowd(events, delayed=delayed).rows
        for size in batches:
            for what, part in PARTS.items():
                on_batch, given = part(config, cut(to_events(rows), size))
                seconds = cpu_s(partial(_run, on_batch, given))
                name = f"{what}, {delayed:.0%} delayed, batches of {size}: us an event"
                found[name] = 1e6 * seconds / len(rows)
    return found | memory(config, min(events, MEMORY_COUNT))


def _run(on_batch: OnBatch, given: Given) -> None:
    for events, now_ns in given:
        on_batch(events, now_ns)


def cut(events: Sequence[Event], batch: int) -> list[Sequence[Event]]:
    return [events[begin : begin + batch] for begin in range(0, len(events), batch)]


def memory(config: Topology, every: int) -> Figures:
    """Return the bytes per buffered event and per source, and those of an event itself."""
    first_ns = 1_700_000_000 * 1_000_000_000
    behind_hole = [Row(first_ns, "s", 0, first_ns)]
    behind_hole += [Row(first_ns + at, "s", at, first_ns + at) for at in range(2, every)]
    in_order = [Row(first_ns + at, f"s{at}", 0, first_ns + at) for at in range(every)]
    return {
        "an event held: bytes": _measure_growth(config, behind_hole) / every,
        "a source: bytes": _measure_growth(config, in_order) / every,
        "an event itself: bytes": _measure_growth(config, in_order, events_too=True) / every,
    }


def _measure_growth(config: Topology, rows: Sequence[Row], *, events_too: bool = False) -> int:
    """Return the memory that a stage takes for the rows, or that their events take."""
    stage, events = Stage(config, [REORDER, MERGE]), [] if events_too else to_events(rows)
    tracemalloc.start()
    if events_too:
        events = to_events(rows)
    else:
        for batch in cut(events, 1_000):
            stage.on_batch(batch, batch[-1].at_ns)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return grown


def tables(asked: Asked) -> Tables:
    """Measure the CPU of the core alone, and its memory."""
    sizes = BATCHES if asked.full else BATCHES[::2]
    events = 300_000 if asked.full else 20_000
    yield (
        "core",
        lambda: compare_trees(
            asked, "the core alone", "benchmarks.core:measure", events=events, batches=sizes
        ),
    )


command = harness.command(tables)
