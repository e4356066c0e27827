"""Law: the order on the ordered topic depends neither on stages nor on partitions.

With `rule: time`, or `rule: fixed` and a known start, no rule looks across the sources in a
partition. Then one stage gives the output of two over several partitions. The outputs match event
by event, including the late ones of one instant. Records are appended as a broker does it: a batch
at a time, each with one timestamp in whole milliseconds. Thus many instants have events from many
sources. Each chain is cut into batches anywhere; the single stage is also restarted anywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Final

import pytest

from tests.kit.events import copies
from tests.simulation.test_simulation import Fused, Split, coordinates, in_order
from tests.simulation.world import MS, World
from topology.base.event import Event
from topology.config import Topology, parse

SECONDS: Final = 2
WORLDS: Final = (1, 5, 9, 11, 14, 20)
"""The worlds of the first 24 in which late events of several partitions share an instant."""
RULES: Final = {
    "fixed": "{rule: fixed, max_wait: 30ms, start: zero}",
    "time": "{rule: time, miss_target: 10%}",
    "time, short": "{rule: time, max_wait: 5ms}",
}
MERGES: Final = ("{}", "{max_wait: 20ms, miss_target: 10%}")


class Appended:
    """The log of a world whose producers send a batch from time to time."""

    def __init__(self, world: World, rng: Random, topology: Topology) -> None:
        self.lanes = world.lanes
        events = world.events()
        appends_ns = [events[0].arrival_ns // MS * MS] if events else []
        while events and appends_ns[-1] < events[-1].arrival_ns:
            appends_ns.append(appends_ns[-1] + rng.choice((1, 1, 2, 5, 10, 30, 30, 100, 400)) * MS)
        for event in events:
            appended_ns = appends_ns[bisect_left(appends_ns, event.arrival_ns)]
            event.arrival_ns = event.at_ns = appended_ns
        events.sort(key=lambda event: (event.arrival_ns, event.lane))
        if not topology.streams["default"].reorder.numbered:
            places = Counter[int]()
            for event in events:  # The place in the log is used as the number.
                event.epoch, event.seq = -1, places[event.lane]
                places[event.lane] += 1
        self._events = events

    def events(self, lane: int | None = None) -> list[Event]:
        mine = copies(event for event in self._events if lane in (None, event.lane))
        for offset, event in enumerate(mine):
            event.offset = offset
        return mine


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("merge", MERGES)
def test_one_stage_matches_two(rule: str, merge: str) -> None:
    topology = parse(
        "streams: {default: {clock: {unsynced: trust},"
        f" reorder: {RULES[rule]}, merge: {merge}}}}}"
    )
    mixed = 0
    for seed in WORLDS:
        world = World(seed, seconds=SECONDS, lanes=2 + seed % 2)
        log = Appended(world, Random(seed), topology)
        fused = Fused(log, Random(seed), topology).run(crashes=True)
        split = Split(log, Random(seed), topology).run()
        in_order(split.released)
        assert coordinates(split.released) == coordinates(fused.released), f"world {seed}"
        late = [event for event in fused.released if event.late]
        mixed += sum(
            one.at_ns == other.at_ns and one.lane != other.lane for one, other in pairwise(late)
        )
    assert mixed, "no instant had late events of several lanes"
