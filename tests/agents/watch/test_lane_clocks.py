"""Examples: a source that waits is told with its clock, however sure that is."""

from __future__ import annotations

from agents.watch import lane_clocks
from agents.watch.frequent import Frequent
from agents.watch.lane_clocks import explained
from agents.watch.troubled import COUNTED, TOLD, Troubled
from topology.clock import operator as clock
from topology.config import parse
from topology.flow.stage import Stage
from topology.model.event import Event

TOPOLOGY = "streams: {default: {clock: {unsynced: trust}}}\nstages: [reorder+merge]\n"


def stage_with(sources: int, waiting: int) -> Stage:
    """The last `waiting` stand behind a hole."""
    stage = Stage(parse(TOPOLOGY), ("reorder", "clock", "merge"))
    names = [f"s{number:03}" for number in range(sources)]
    events = [
        Event("default", name, 0, seq, 1_000 + seq, 1_000_000 + seq)
        for seq, late in ((0, names), (2, names[sources - waiting :]))
        for name in late
    ]
    stage.on_batch(events, events[-1].at_ns)
    return stage


def clocks_of(stage: Stage, *late: str) -> list[str]:
    table = Frequent(COUNTED)
    for name in late:
        table.note(("default", name))
    told = explained(stage, Troubled(table), TOLD)
    return [each["source"] for each in told["streams"]["default"]["clock"]["clocks"]]


def test_who_comes_late_is_among_the_clocks_and_who_is_not_known_is_not() -> None:
    found = clocks_of(stage_with(clock.MAX_TOLD + 50, 20), "s120", "s149", "gone")
    assert found.count("s120") == found.count("s149") == 1
    assert "gone" not in found


def test_who_waits_is_among_the_clocks_once() -> None:
    found = clocks_of(stage_with(clock.MAX_TOLD + 50, 20))
    assert len(set(found)) == len(found)
    assert {f"s{number:03}" for number in range(130, 150)} <= {*found}


def test_no_more_are_asked_than_the_bound() -> None:
    found = clocks_of(stage_with(500, 400))  # all clocks are as sure, and so the first are told
    assert len(found) <= clock.MAX_TOLD + lane_clocks.MAX_ASKED
    assert len(found) > clock.MAX_TOLD


def test_who_waits_is_told_with_how_often_it_was_late_though_others_were_more_often() -> None:
    table = Frequent(COUNTED)
    table.note(("default", "s149"))
    table.note(("default", "worse"), 7)
    told = explained(stage_with(150, 20), Troubled(table), 1)
    assert {each["source"]: each["late"] for each in told["troubled"]} == {"s149": 1, "worse": 7}
