"""Measure how the time and the size of a checkpoint grow.

A checkpoint of the fused stage is made as by `agents.restore.partition_state`. It contains the
operators' changes, the encoded pages of buffered events, and their digests. The measured time is
the CPU time of making it. The measured bytes are those written to the changelog, without the
outputs. Three things are increased, one at a time:

* throughput: the number of events since the last checkpoint, from the same sources;
* buffered events: those after one gap and, in the merge, the later events of ten other sources;
* sources: their number, and how many of them have sent events since the last checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from agents.stage.checkpoint_size import pause_collector
from agents.state import changelog
from agents.state.held import HeldPages
from agents.state.stores.seal import StateTally
from benchmarks import harness
from benchmarks.harness import Asked, Figures, Tables, compare_trees, cpu_s
from benchmarks.tables import count
from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row, to_events
from topology.base.event import Event
from topology.config import parse
from topology.config.stages import MERGE, REORDER
from topology.stage.stage import Stage

TOPOLOGY: Final = """\
streams:
  default: {reorder: {max_wait: 1h, max_held: 1000000}, merge: {max_wait: 1s}}
stages: [reorder+merge]
"""
START_NS: Final = 1_700_000_000 * 1_000_000_000
STEP_NS: Final = 100_000
USUAL_EVENTS: Final = 1_000
ROUNDS: Final = 5
QUICK: Final = {"throughput": (1_000, 10_000), "held": (1, 10_000), "sources": (10, 1_000)}
FULL: Final = {
    "throughput": (100, 1_000, 10_000, 50_000),
    "held": (1, 10, 100, 1_000, 10_000, 100_000),
    "sources": (10, 100, 1_000, 10_000, 100_000),
}


@dataclass(frozen=True, slots=True)
class Cut:
    """A checkpoint: its CPU seconds, and the number of keys and bytes written."""

    seconds: float
    keys: int
    bytes: int


class Checkpointing:
    """The part of a worker's partition that takes events and makes checkpoints."""

    def __init__(self) -> None:
        config = parse(TOPOLOGY)
        self._stage = Stage(config, [REORDER, MERGE])
        stage = self._stage
        self._held = HeldPages(config.spill_after_ns, stage.ledger, stage.waiting_places)
        self._tally = StateTally()
        self._now_ns = 0
        self._offset = 0

    def take(self, rows: Sequence[Row]) -> None:
        events = to_events(rows)
        for event in events:
            event.offset = self._offset
            self._offset += 1
        for begin in range(0, len(events), 1_000):
            self._take(events[begin : begin + 1_000])

    def _take(self, events: Sequence[Event]) -> None:
        self._now_ns = events[-1].at_ns
        self._stage.on_batch(events, self._now_ns)
        self._held.update(events)

    def cut(self) -> Cut:
        encoded: dict[bytes, bytes | None] = {}

        def changes() -> None:
            with pause_collector():
                encoded.update(changelog.encode_changes(self._stage.changes(), changelog.STATE))
                encoded.update(changelog.encode_changes(dict(self._held.changes(self._now_ns))))
                self._tally.change(encoded)

        seconds = cpu_s(changes)
        size = sum(len(key) + len(value or b"") for key, value in encoded.items())
        return Cut(seconds, len(encoded), size)


def make_rows_in_turn(
    begin: int, events: int, sources: int, begin_ns: int | None = None
) -> list[Row]:
    """Return events from number `begin` on. The sources take turns, and each is in sequence."""
    first_ns = START_NS + begin * STEP_NS if begin_ns is None else begin_ns
    rows = []
    for at in range(events):
        number, ns = begin + at, first_ns + at * STEP_NS
        rows.append(Row(ns, f"s{number % sources}", number // sources, ns))
    return rows


def measure_throughput(events: int) -> Cut:
    """Measure a checkpoint after `events` of twenty sources with every kind of disorder."""
    rows = crowd(events * (ROUNDS + 1)).rows
    work = Checkpointing()
    cuts = []
    for begin in range(0, len(rows) - events + 1, events):
        work.take(rows[begin : begin + events])
        cuts.append(work.cut())
    return find_median(cuts[1:])


def measure_buffered(held: int) -> Cut:
    """Measure a checkpoint while `held` events are buffered.

    The source `late` lacks its number 1, while ten other sources continue.
    """
    work = Checkpointing()
    work.take(make_rows_in_turn(0, USUAL_EVENTS, 10))
    at_ns = START_NS + USUAL_EVENTS * STEP_NS
    waiting = [Row(at_ns + seq, "late", seq, at_ns + seq) for seq in (0, *range(2, held + 2))]
    work.take(waiting)
    work.cut()
    cuts = []
    for number in range(1, ROUNDS + 1):
        begin_ns = at_ns + held + number * USUAL_EVENTS * STEP_NS
        work.take(make_rows_in_turn(number * USUAL_EVENTS, USUAL_EVENTS, 10, begin_ns))
        cuts.append(work.cut())
    return find_median(cuts)


def measure_sources(sources: int, speaking: int) -> Cut:
    """Measure a checkpoint of `sources`; `speaking` of them have sent one event since the last."""
    work = Checkpointing()
    work.take(make_rows_in_turn(0, sources, sources))
    work.cut()
    cuts = []
    for number in range(1, ROUNDS + 1):
        rows = make_rows_in_turn(number * sources, sources, sources)[:speaking]
        work.take(rows)
        cuts.append(work.cut())
    return find_median(cuts)


def find_median(cuts: Sequence[Cut]) -> Cut:
    return Cut(
        median(cut.seconds for cut in cuts),
        round(median(cut.keys for cut in cuts)),
        round(median(cut.bytes for cut in cuts)),
    )


def measure(throughput: Sequence[int], held: Sequence[int], sources: Sequence[int]) -> Figures:
    """Return the CPU in ms and the bytes of each checkpoint."""
    cuts = {f"{count(each)} events since the last": measure_throughput(each) for each in throughput}
    cuts |= {f"{count(each)} events behind a hole": measure_buffered(each) for each in held}
    for each in sources:
        for speaking in sorted({10, each}):
            name = f"{count(each)} sources, of which {count(speaking)} sent"
            cuts[name] = measure_sources(each, speaking)
    return {
        f"{name}: {what}": figure
        for name, cut in cuts.items()
        for what, figure in (("CPU ms", cut.seconds * 1e3), ("bytes", cut.bytes))
    }


def tables(asked: Asked) -> Tables:
    """Measure bytes and CPU of a checkpoint as load, buffered events and sources grow."""
    sizes = FULL if asked.full else QUICK
    yield (
        "checkpoint",
        lambda: compare_trees(asked, "a checkpoint", "benchmarks.checkpoint:measure", **sizes),
    )


command = harness.command(tables)
