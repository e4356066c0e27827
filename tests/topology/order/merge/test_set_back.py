"""Laws of MERGE for sources whose timestamps fall: order, watermark and completeness frontier.

Nothing is lost and no source is new, so only set-backs can break a guarantee. Times are in
milliseconds; `max_wait` is longer than any delay.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.laws.streams import orderly
from tests.seeds import seeds_of_today
from topology.base.event import BYE, DATA, WATERMARK, Event
from topology.base.late import SET_BACK
from topology.base.outcome import Step
from topology.config import MergeConfig
from topology.order.merge.operator import Merge

MS = 1_000_000
LARGEST = 30
SEEDS = seeds_of_today(20)

every_seed = pytest.mark.parametrize("seed", SEEDS)


def gateways(seed: int, largest: int = LARGEST) -> list[Event]:
    """Return events of three sources in sequence, a third of them set back."""
    rng = Random(seed)
    events = orderly(seed, n=300)
    for event in events:
        if rng.random() < 0.3:
            event.ts_ns -= rng.randint(1, largest) * MS
        event.ref_time_ns = event.ts_ns
    return events


def merge(max_set_back: int | None = None) -> Merge:
    declared_ns = None if max_set_back is None else max_set_back * MS
    config = MergeConfig(
        max_wait_ns=50 * MS,
        expected_sources=tuple(f"s{number}" for number in range(3)),
        heartbeat_ns=5 * MS,
        max_set_back_ns=declared_ns,
        new_source_allowance_ns=0,
    )
    return Merge("default", config)


def key(event: Event) -> tuple[int, str, int]:
    return event.ref_time_ns, event.source, event.seq


def steps(operator: Merge, events: list[Event]) -> list[Step]:
    found = [operator.on_batch([event], event.at_ns) for event in events]
    return [*found, operator.on_end(events[-1].at_ns)]


def data(found: list[Step]) -> list[Event]:
    return [event for step in found for event in step.released if event.kind == DATA]


@every_seed
def test_declared_fall_keeps_time_order(seed: int) -> None:
    events = gateways(seed)
    operator = merge(LARGEST)
    released = data(steps(operator, events))
    assert not any(event.late for event in released)
    assert [key(event) for event in released] == sorted(key(event) for event in events)
    figures = operator.figures()
    assert figures["set_backs"] > 0
    assert figures["set_backs_beyond"] == 0


@every_seed
@pytest.mark.parametrize("declared", [None, 0, LARGEST // 3, LARGEST])
def test_all_emitted_and_unmarked_in_order(seed: int, declared: int | None) -> None:
    events = gateways(seed)
    operator = merge(declared)
    released = data(steps(operator, events))
    unmarked = [key(event) for event in released if not event.late]
    assert unmarked == sorted(unmarked)
    assert sorted(map(key, released)) == sorted(map(key, events))
    causes = {event.late for event in released} - {""}
    assert causes <= {SET_BACK}


@every_seed
@pytest.mark.parametrize("declared", [None, 0, LARGEST // 3, LARGEST])
def test_events_below_frontier_are_counted(seed: int, declared: int | None) -> None:
    operator = merge(declared)
    watermark_ns = complete_ns = last_ns = -(1 << 63)
    beyond = 0
    for event in gateways(seed):
        for said in operator.on_time(event.at_ns - 1).released:
            if said.kind == WATERMARK:
                watermark_ns, complete_ns = said.ref_time_ns, said.complete_ns
            elif not said.late:
                assert said.ref_time_ns >= watermark_ns
                last_ns = said.ref_time_ns
        known_ns = last_ns if complete_ns >= watermark_ns else complete_ns
        beyond += event.ref_time_ns < known_ns
        assert not operator.on_batch([event], event.at_ns).released
    assert operator.figures()["set_backs_beyond"] == beyond
    assert not beyond or declared != LARGEST


@every_seed
def test_frontier_learns_from_first_falls(seed: int) -> None:
    """MERGE allows for twice the largest fall so far, so few falls exceed it."""
    operator = merge()
    steps(operator, gateways(seed))
    figures = operator.figures()
    assert figures["set_backs_beyond"] < figures["set_backs"] / 4


def test_huge_fall_costs_nothing() -> None:
    """One timestamp of 1970 does not lower the completeness frontier."""
    frontiers = []
    for is_wrong in (False, True):
        operator = merge()
        for event in orderly(1, n=300):
            is_glitch = is_wrong and (event.source, event.seq) == ("s0", 50)
            event.ref_time_ns = 0 if is_glitch else event.ts_ns
            operator.on_batch([event], event.at_ns)
        figures = operator.figures()
        assert figures["set_backs"] == figures["set_backs_beyond"] == int(is_wrong)
        frontiers.append(figures["completeness_frontier_ns"])
    assert frontiers[0] == frontiers[1]


def test_falls_count_until_end_of_stream() -> None:
    """Two of three sources end, so only the largest fall of the third lowers the frontier."""
    operator = merge()
    for each in gateways(1):
        operator.on_batch([each], each.at_ns)
    at_ns = each.at_ns
    for source, seq, kind in (("s0", 100, BYE), ("s1", 100, BYE), ("s2", 100, DATA)):
        at_ns += MS
        one = Event("default", source, -1, seq, at_ns, at_ns, kind=kind)
        operator.on_batch([one], at_ns)
    operator.on_time(at_ns + 10 * MS)
    fallen_ns = operator.explain()["sets_back"]["s2"]
    figures = operator.figures()
    assert figures["watermark_ns"] - figures["completeness_frontier_ns"] == 2 * fallen_ns


@every_seed
def test_restart_keeps_learned_falls(seed: int) -> None:
    events = gateways(seed)
    steady, shaken = merge(), merge()
    half = len(events) // 2
    expected = [key(event) for event in data(steps(steady, gateways(seed)))]
    found = data([shaken.on_batch([event], event.at_ns) for event in events[:half]])
    again = merge()
    again.restore(shaken.snapshot(), list(shaken.iter_held()))
    found += data(steps(again, events[half:]))
    assert [key(event) for event in found] == expected
    assert again.figures() == steady.figures()
