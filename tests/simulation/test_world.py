"""Laws of the simulation's worlds: the truth beside the events is the truth."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.seeds import seeds_of_today
from tests.simulation.world import LONGEST_DELAY_NS, LONGEST_STALL_NS, World
from topology.model.event import NO_EPOCH, Event

SEEDS = seeds_of_today(20)


def _content(events: list[Event]) -> list[tuple[object, ...]]:
    return [
        (e.source, e.epoch, e.seq, e.ts_ns, e.arrival_ns, e.value, e.lane, e.offset) for e in events
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_truth_is_in_balance(seed: int) -> None:
    world = World(seed)
    events, truth = world.events(), world.truth
    assert set(truth.sent) == set(truth.arrived) | truth.lost
    assert not set(truth.arrived) & truth.lost
    assert Counter(event.value for event in events) == truth.arrived
    assert len(events) == len(truth.sent) - len(truth.lost) + truth.copies
    assert sorted(truth.in_order()) == sorted(truth.arrived)
    for event in events:
        sent = truth.sent[event.value]
        assert (event.source, event.seq) == (event.value.source, event.value.seq)
        assert event.epoch in (NO_EPOCH, event.value.run)
        assert event.ts_ns == sent.ts_ns
        delay_ns = event.arrival_ns - sent.sent_ns
        assert 0 <= delay_ns <= LONGEST_DELAY_NS + LONGEST_STALL_NS


@pytest.mark.parametrize("seed", SEEDS)
def test_arrival_never_goes_back_and_lanes_are_parts(seed: int) -> None:
    world = World(seed)
    events = world.events()
    assert all(before.arrival_ns <= after.arrival_ns for before, after in pairwise(events))
    lanes = [world.events(lane) for lane in range(world.lanes)]
    assert sum(map(len, lanes)) == len(events)
    sources = [{event.source for event in lane} for lane in lanes]
    assert sum(map(len, sources)) == len(set().union(*sources))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_not_named_is_over_before_the_next_begins(seed: int) -> None:
    world = World(seed)
    run_of: dict[str, int] = {}
    for event in world.events():
        if event.epoch == NO_EPOCH:
            assert event.value.run >= run_of.get(event.source, 0)
            run_of[event.source] = event.value.run


@pytest.mark.parametrize("seed", [0, 7, 1234])
def test_a_line_replays_a_world(seed: int) -> None:
    world = World(seed, most_sources=4, seconds=2)
    again = eval(repr(world), {"World": World})
    assert _content(again.events()) == _content(world.events()) == _content(world.events())
    assert again.truth == world.truth
    assert _content(World(seed + 1).events()) != _content(world.events())


def test_worlds_have_every_kind_of_trouble() -> None:
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
