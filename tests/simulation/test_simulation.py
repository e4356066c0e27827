"""Simulation: the whole chain over seeded worlds of sources, clocks and networks.

Each world goes through a fused stage. Some also go through two stages: REORDER for each partition,
the headers on the wire, and MERGE after an alignment. Some have crashes. These invariants must
hold: each arrived event is accounted for once, each source is in sequence, the stream is in order,
a crash changes nothing. One stage and two agree if there is one partition; otherwise they are not
comparable.

There are 100 worlds a day (some of them with two stages), and `make laws` runs those of all days. A
failure prints the line that runs its world again:

    python -m tests.simulation.test_simulation SEED
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any, Final, Protocol

import pytest

from tests.agents.state.stores.memory import apply_to
from tests.kit.events import copies
from tests.kit.places import give_back
from tests.kit.runs import cut, held_after_restart, through_changelog
from tests.seeds import seeds_of_today
from tests.simulation.world import World
from topology.base.event import DATA, NO_EPOCH, PROGRESS, WATERMARK, Event
from topology.base.outcome import Duplicate, Late, Malformed, Report, Step
from topology.config import HeaderConfig, Topology, parse
from topology.records.header_reader import HeaderReader
from topology.records.header_writer import HeaderWriter
from topology.stage.lanes import lanes_of
from topology.stage.stage import Stage

WORLDS: Final = seeds_of_today(100)
PARTS: Final = 4
SPLIT_EVERY: Final = 4
"""Two stages cost more, so only one world in `SPLIT_EVERY` goes through them."""

SIZES: Final = (1, 7, 50, 200)
SECONDS: Final = 2
TOPOLOGY: Final = parse("streams: {default: {}}")
FUSED_STAMPED_FROM: Final = 4
NEVER_STAMPED: Final = 99
BEAT_NS: Final = TOPOLOGY.heartbeat_ns


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_worlds_keep_invariants(part: int) -> None:
    for seed in WORLDS[part::PARTS]:
        try:
            check(seed)
        except AssertionError as failure:
            failure.add_note(f"again: python -m tests.simulation.test_simulation {seed}")
            raise


def check(seed: int) -> None:
    world = World(seed, seconds=SECONDS)
    rng = Random(seed)
    fused = Fused(world, rng).run(crashes=seed % 2 == 1)
    assert_balance(world, fused)
    in_order(fused.released)
    if seed % 2:
        steady = Fused(world, Random(seed + 1)).run(crashes=False)
        assert coordinates(steady.released) == coordinates(fused.released)
    if seed % SPLIT_EVERY == 0:
        split = Split(world, rng).run()
        assert_balance(world, split)
        in_order(split.released)
        if world.lanes == 1:
            assert coordinates(split.released) == coordinates(fused.released)


def test_worlds_have_each_fault() -> None:
    found: Counter[str] = Counter()
    for seed in range(60):
        world = World(seed)
        events = world.events()
        found["lost"] += bool(world.truth.lost)
        found["copies"] += bool(world.truth.copies)
        found["restarts"] += bool(world.truth.restarts)
        found["restarts unnamed"] += any(e.epoch == NO_EPOCH and e.value.run for e in events)
        found["lanes"] += world.lanes > 1
        found["overtaken"] += _overtaken(events)
        found["high start"] += any(machine.first_seq for machine, _ in world.machines)
    assert len(found) == 7
    assert min(found.values()) >= 5, found


def _overtaken(events: list[Event]) -> bool:
    highest: dict[tuple[str, int], int] = {}
    for event in events:
        key = event.source, event.value.run
        if event.seq < highest.get(key, 0):
            return True
        highest[key] = event.seq
    return False


# -- invariants ------------------------------------------------------------------------------------


def assert_balance(world: World, run: Any) -> None:
    """Assert that each record is emitted once or reported once.

    At most one of several records of one event is accepted; a duplicate that cannot be recognised
    is never emitted.
    """
    data = [event for event in run.released if event.kind == DATA]
    disposed = Counter(event.value for event in data)
    accepted = Counter(disposed)
    for report in run.reports:
        if isinstance(report, Late | Duplicate):
            disposed[report.event.value] += 1
        elif isinstance(report, Malformed):
            disposed[run.origins[report.offset]] += 1
    assert disposed == world.truth.arrived
    assert max(accepted.values(), default=0) <= 1


def in_order(released: Iterable[Event]) -> None:
    last = None
    watermark_ns = complete_ns = -(1 << 63)
    last_of: dict[str, tuple[int, int]] = {}
    for event in released:
        if event.kind == WATERMARK:
            assert event.ref_time_ns >= watermark_ns
            assert complete_ns <= event.complete_ns <= event.ref_time_ns
            watermark_ns, complete_ns = event.ref_time_ns, event.complete_ns
        elif event.kind == DATA and not event.late:
            # Events of equal time that are emitted together are ordered by source.
            key = (event.ref_time_ns, event.at_ns, event.source, event.epoch, event.seq)
            assert last is None or key > last
            assert event.ref_time_ns >= watermark_ns
            assert (event.epoch, event.seq) > last_of.get(event.source, (-1, -1))
            last, last_of[event.source] = key, (event.epoch, event.seq)


def coordinates(released: Iterable[Event]) -> list[tuple[Any, ...]]:
    return [
        (e.source, e.epoch, e.seq, e.ref_time_ns, e.error_ns, e.late, e.at_ns, e.value)
        for e in released
        if e.kind == DATA
    ]


# -- one stage and two -----------------------------------------------------------------------------


class Log(Protocol):
    """A broker's log: in `lanes` partitions, or (None) all of it in one order."""

    lanes: int

    def events(self, lane: int | None = None) -> list[Event]: ...


class Run:
    """A run's emitted events and reports."""

    def __init__(self) -> None:
        self.released: list[Event] = []
        self.reports: list[Report] = []

    def _add(self, step: Step) -> None:
        self.released += step.released
        self.reports += step.reports


class Fused(Run):
    """One stage and one partition, in batches of any size.

    A crash restores it from its changes and from the input.
    """

    def __init__(self, world: Log, rng: Random, topology: Topology = TOPOLOGY) -> None:
        super().__init__()
        self.rng = rng
        self.topology = topology
        self.raw = world.events()
        self.origins = {event.offset: event.value for event in self.raw}
        self.stage = new_stage(topology, "reorder", "merge")

    def run(self, crashes: bool) -> Fused:
        table: dict[str, Any] = {}
        for batch in cut(copies(self.raw), self.rng, SIZES):
            self._add(self.stage.on_batch(batch, batch[-1].at_ns))
            if crashes and self.rng.random() < 0.2:
                apply_to(table, through_changelog(self.stage.changes()))
                if self.rng.random() < 0.5:
                    held = held_after_restart(self.stage, self.raw, FUSED_STAMPED_FROM)
                    self.stage = new_stage(self.topology, "reorder", "merge")
                    give_back(self.stage, table, held)
        self._add(self.stage.on_end(self.raw[-1].at_ns if self.raw else 0))
        return self


class Split(Run):
    """REORDER for each partition, by workers at different paces, and then one MERGE."""

    def __init__(self, world: Log, rng: Random, topology: Topology = TOPOLOGY) -> None:
        super().__init__()
        self.rng = rng
        self.topology = topology
        self.lanes = [world.events(lane) for lane in range(world.lanes)]
        self.origins: dict[int, Any] = {}
        self.end_ns = max((lane[-1].at_ns for lane in self.lanes if lane), default=0)

    def run(self) -> Split:
        topic = self._interleaved([self._sequenced(lane) for lane in range(len(self.lanes))])
        merge = self._merge()
        for batch in cut(topic, self.rng, SIZES):
            self._add(merge.on_batch(batch, batch[-1].at_ns))
            if self.rng.random() < 0.1:
                state = through_changelog(merge.snapshot())
                held = held_after_restart(merge, topic, stamped_from=1)
                merge = self._merge()
                give_back(merge, state, held)
        self._add(merge.on_end(self.end_ns))
        return self

    def _merge(self) -> Stage:
        return new_stage(self.topology, "merge", lanes=len(self.lanes))

    def _sequenced(self, lane: int) -> list[Event]:
        """Return the output of the partition's worker, as the next stage reads it.

        Time advances as in a bounded replay: no tick, and the end is at the stream's last instant.
        """
        stage = new_stage(self.topology, "reorder")
        written: list[Event] = []
        beat_ns = 0
        raw = self.lanes[lane]
        for batch in cut(copies(raw), self.rng, SIZES):
            step = stage.on_batch(batch, batch[-1].at_ns)
            if self.rng.random() < 0.1:
                state, held = (
                    through_changelog(stage.snapshot()),
                    held_after_restart(stage, raw, NEVER_STAMPED),
                )
                stage = new_stage(self.topology, "reorder")
                give_back(stage, state, held)
            self.reports += step.reports
            written += step.released
            if step.now_ns // BEAT_NS > beat_ns:
                beat_ns = step.now_ns // BEAT_NS
                written.append(progress(step.now_ns))
        step = stage.on_end(self.end_ns)
        self.reports += step.reports
        written += [*step.released, progress(self.end_ns)]
        self.origins |= {event.offset: event.value for event in self.lanes[lane]}
        return [over_the_topic(event, lane) for event in written]

    def _interleaved(self, lanes: list[list[Event]]) -> list[Event]:
        topic: list[Event] = []
        waiting = [(lane, 0) for lane in range(len(lanes))]
        while waiting:
            place = self.rng.randrange(len(waiting))
            lane, at = waiting[place]
            end = at + self.rng.choice((1, 3, 20))
            topic += lanes[lane][at:end]
            waiting[place] = (lane, end)
            waiting = [(lane, at) for lane, at in waiting if at < len(lanes[lane])]
        for offset, event in enumerate(topic):
            event.offset = offset
        return topic


def new_stage(topology: Topology, *operators: str, lanes: int = 0) -> Stage:
    return Stage(topology, operators, lanes_of(topology.streams["default"].input, lanes))


def progress(at_ns: int) -> Event:
    return Event("default", "", 0, 0, 0, at_ns, kind=PROGRESS)


def over_the_topic(event: Event, lane: int) -> Event:
    """Return the event as written to `events.sequenced` and read from it."""
    if event.kind == DATA:
        original = [
            ("sourceId", event.source.encode()),
            ("seqNum", b"%d" % event.seq),
            ("ts", b"%d" % event.ts_ns),
        ]
        headers = WRITER.stamp(event, original, lane)
    else:
        headers = WRITER.write_control(event, lane)
    read = READER.read_sequenced(headers, 0, event.offset, None, event.value)
    assert isinstance(read, Event), read
    return read


WRITER: Final = HeaderWriter(HeaderConfig())
READER: Final = HeaderReader(HeaderConfig())


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        check(int(argument))
        print(f"world {argument} holds")
