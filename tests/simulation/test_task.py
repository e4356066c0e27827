"""Law: a task over several partitions gives the output of two stages.

The task reads each partition at a different pace, in batches of any size, and is restored from its
changes from time to time. Its output and reports match those of REORDER by partition and MERGE
after `events.sequenced`, event by event and at the same instants.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest

from tests.agents.state.stores.memory import apply_to
from tests.kit.events import copies
from tests.kit.places import give_back
from tests.kit.runs import held_after_restart, through_changelog
from tests.seeds import seeds_of_today
from tests.simulation.test_simulation import (
    FUSED_STAMPED_FROM,
    SIZES,
    TOPOLOGY,
    Log,
    Run,
    Split,
    assert_balance,
    coordinates,
    in_order,
    new_stage,
    progress,
)
from tests.simulation.world import World
from topology.base.event import Event
from topology.base.outcome import Duplicate, Gap, Late, Malformed
from topology.config import Topology, parse
from topology.stage.lanes import OFFSET_BITS

WORLDS: Final = seeds_of_today(24)
SECONDS: Final = 2
RULES: Final = {
    "defaults": "{}",
    "time": "{reorder: {rule: time}, clock: {unsynced: trust}}",
    "small": "{reorder: {max_held: 5, max_jump: 10, max_sources: 3}}",
}


class Task(Run):
    """REORDER by partition and MERGE in one stage."""

    def __init__(self, world: Log, rng: Random, topology: Topology = TOPOLOGY) -> None:
        super().__init__()
        self.rng = rng
        self.topology = topology
        self.lanes = [world.events(lane) for lane in range(world.lanes)]
        for lane, events in enumerate(self.lanes):
            for event in events:
                event.lane = lane
                event.offset += lane << OFFSET_BITS
        self.raw = {event.offset: event for lane in self.lanes for event in lane}
        self.origins = {number: event.value for number, event in self.raw.items()}
        self.end_ns = max((lane[-1].at_ns for lane in self.lanes if lane), default=0)

    def run(self) -> Task:
        stage = self._new()
        table: dict[str, Any] = {}
        for batch in self._polls():
            self._add(stage.on_batch(batch, 0))
            if self.rng.random() < 0.2:
                self._add(stage.on_time(0))
            if self.rng.random() < 0.2:
                apply_to(table, through_changelog(stage.changes()))
                if self.rng.random() < 0.5:
                    held = self._held(stage)
                    stage = self._new()
                    give_back(stage, table, held)
        self._add(stage.on_end(self.end_ns))
        return self

    def _new(self) -> Any:
        return new_stage(self.topology, "reorder", "merge", lanes=len(self.lanes))

    def _held(self, stage: Any) -> dict[Event, int]:
        """Return the events that the driver reads again, by arrival, partition and offset."""
        held = held_after_restart(stage, [*self.raw.values()], FUSED_STAMPED_FROM)
        in_order = sorted(held, key=lambda event: (event.arrival_ns, event.offset))
        return {event: held[event] for event in in_order}

    def _polls(self) -> Iterator[list[Event]]:
        """Yield batches from one partition each, followed by its clock; then the ends of all
        partitions.
        """
        left = [copies(lane) for lane in self.lanes]
        while any(left):
            lane = self.rng.choice([lane for lane, events in enumerate(left) if events])
            size = self.rng.choice(SIZES)
            batch, left[lane] = left[lane][:size], left[lane][size:]
            clock = progress(left[lane][0].at_ns if left[lane] else self.end_ns)
            if self.rng.random() < 0.5:
                clock.at_ns = batch[-1].at_ns
            clock.lane = lane
            yield [*batch, clock]
        for lane in range(len(left)):
            clock = progress(self.end_ns)
            clock.lane = lane
            yield [clock]


def reported(run: Run) -> list[tuple[Any, ...]]:
    """Return the reports, sorted, so that their order does not depend on the operators."""
    found = []
    for report in run.reports:
        match report:
            case Late() | Duplicate():
                found.append((report.at_ns, type(report).__name__, str(report.event.value)))
            case Gap():
                place = report.source, report.epoch, report.first, report.last, report.reason
                found.append((report.at_ns, "Gap", str(place)))
            case Malformed():
                found.append((report.at_ns, report.reason, f"{report.source}/{report.seq}"))
    return sorted(found)


def before_end(run: Any) -> list[tuple[Any, ...]]:
    """Return the events that were emitted before the input ended; later ones have no order."""
    return [each for each in coordinates(run.released) if each[6] < run.end_ns]


@pytest.mark.parametrize("rule", RULES)
def test_task_matches_two_stages(rule: str) -> None:
    topology = parse(f"streams: {{default: {RULES[rule]}}}")
    for seed in WORLDS:
        world = World(seed, seconds=SECONDS, lanes=(2, 3, 8)[seed % 3])
        task = Task(world, Random(seed), topology).run()
        split = Split(world, Random(seed), topology).run()
        if rule == "defaults":  # The other rules forget sources, or do not recognise duplicates.
            assert_balance(world, task)
            in_order(task.released)
        assert before_end(task) == before_end(split), f"world {seed}"
        assert sorted(map(str, coordinates(task.released))) == sorted(
            map(str, coordinates(split.released))
        ), f"world {seed}"
        assert reported(task) == reported(split), f"world {seed}"
