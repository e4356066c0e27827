"""Law: an operator may start with its stream's first event; this has no effect on results.

The definition is a stage whose operators all start at once. A stage whose operators start with
their streams emits, buffers and stores the same, batch after batch, through time and restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import orjson
import pytest

from tests.kit.events import copies
from tests.kit.outputs import Outputs
from tests.kit.places import give_back, places_of
from tests.kit.runs import through_changelog
from tests.kit.topologies import in_code
from tests.laws.streams import MS, in_log_order, raw
from tests.seeds import seeds_of_today
from topology.base.event import Event
from topology.base.operator import State
from topology.stage.stage import Stage

SEEDS = seeds_of_today(6)
STREAMS = ("a", "b", "c", "d", "e")
NEVER_COMES = "e"
TEXT = """
streams:
  a: {reorder: {max_wait: 50ms, max_jump: 100}, merge: {max_wait: 50ms}}
  b: {reorder: {max_wait: 50ms, max_jump: 100, late: side}, merge: {max_wait: 50ms}}
  c: {reorder: {max_wait: 50ms, max_jump: 100}, merge: {max_wait: 50ms}}
  d: {reorder: {max_wait: 50ms, max_jump: 100}, merge: {max_wait: 50ms}}
  e: {reorder: {max_wait: 50ms, max_jump: 100}, merge: {max_wait: 50ms}}
heartbeat: 20ms
queries:
  joined: {join: interval 40ms, sides: {x: {stream: a}, y: {stream: d}}, outer: full}
  counted: {stream: b, window: tumbling 20ms, aggregate: {n: count()}}
  seen: {stream: c, pattern: 'PATTERN SEQ(A x, B y) WITHIN 40 ms'}
  never: {stream: e, window: session 20ms, aggregate: {n: count()}}
"""
TOPOLOGY = in_code(TEXT)
QUERIES = ("window", "pattern", "join")
STAGES: dict[str, Callable[[], Stage]] = {
    "reorder": lambda: Stage(TOPOLOGY, ("reorder",)),
    "reorder+merge": lambda: Stage(TOPOLOGY, ("reorder", "merge")),
    "all": lambda: Stage(TOPOLOGY, ("reorder", "merge", *QUERIES)),
    "behind the ordered topic": lambda: Stage(TOPOLOGY, QUERIES),
}


def arriving(seed: int) -> list[Event]:
    """Return events of four streams, some of whose sources start late."""
    rng = Random(seed)
    events = raw(seed, n=200, sources=6)
    later = {source: rng.choice((0, 0, 300, 900)) * MS for source in {e.source for e in events}}
    for event in events:
        event.stream = STREAMS[int(event.source[1:]) % 4]
        event.type = rng.choice("AB")
        event.value = orjson.dumps({"n": rng.randrange(9)})
        event.ts_ns += later[event.source]
        event.ref_time_ns = event.ts_ns
        event.arrival_ns += later[event.source]
        event.at_ns = event.arrival_ns
    return in_log_order(events)


def ordered(seed: int) -> list[Event]:
    stage = STAGES["reorder+merge"]()
    events = arriving(seed)
    step = stage.on_batch(events, events[-1].at_ns)
    return in_log_order(step.released + stage.on_end(events[-1].at_ns).released)


def begun(stage: Stage) -> Stage:
    stage.begin(stage.streams)
    return stage


def kept(state: State, streams: Sequence[str]) -> State:
    return {key: value for key, value in state.items() if key.strip("\n").split("\n")[0] in streams}


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("seed", SEEDS)
def test_late_start_has_no_effect(name: str, seed: int) -> None:
    rng = Random(seed)
    make = STAGES[name]
    behind = name == "behind the ordered topic"
    events = ordered(seed) if behind else arriving(seed)
    stages = [make(), begun(make())]
    inputs = [copies(events), copies(events)]
    for one, other in zip(*inputs, strict=True):
        one.at_ns = other.at_ns = events[one.offset].at_ns
    at, now_ns = 0, 0
    assert not stages[0].chains
    while at < len(events):
        end = at + rng.choice((1, 2, 7, 40))
        now_ns = max(now_ns, *(event.at_ns for event in events[at:end]))
        ticks = not behind and rng.random() < 0.3
        restarts = rng.random() < 0.1
        seen = []
        for which, stage in enumerate(stages):
            outputs = Outputs()
            outputs.add(stage.on_batch(inputs[which][at:end], now_ns))
            if ticks:
                outputs.add(stage.on_time(now_ns))
            places = places_of(stage)
            seen_held = [(event.offset, at) for event, at in places.items()]
            state = through_changelog(stage.snapshot())
            seen.append((outputs.released, outputs.reports, outputs.results, seen_held))
            if restarts:
                again = make() if which == 0 else begun(make())
                give_back(again, state, places)
                stages[which] = again
        assert seen[0] == seen[1]
        come = list(stages[0].chains)
        assert stages[0].snapshot() == kept(stages[1].snapshot(), come)
        for stage in stages:
            waiting = {event.offset for event in stage.waiting()}
            held = places_of(stage).items()
            by_place = {event.offset for event, at in held if at & stage.waiting_places}
            assert waiting == by_place
        at = end
    assert NEVER_COMES not in stages[0].chains
    assert list(stages[0].chains) == [each for each in STREAMS if each in stages[0].chains]
    ends = [Outputs(), Outputs()]
    for outputs, stage in zip(ends, stages, strict=True):
        outputs.add(stage.on_end(now_ns))
    assert vars(ends[0]) == vars(ends[1])


def test_joined_streams_start_together() -> None:
    stage = STAGES["all"]()
    stage.begin(["d"])
    assert list(stage.chains) == ["a", "d"]
