"""Laws: the fast path for plain events matches the general path, and is used.

With `takes_plain` off, each event takes the general path, which is the definition. Results,
figures, deadlines, buffered events, changes and snapshots are the same after each batch, byte for
byte. The streams alternate between plain and other events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby, pairwise
from random import Random
from typing import Any

import msgspec
import pytest

from tests.kit.chains import chained
from tests.kit.events import copies, made_once
from tests.kit.outputs import Outputs
from tests.kit.places import places_of
from tests.laws.all_cases import ALL
from tests.laws.cases import Case, measured_clock
from tests.laws.streams import MS, in_log_order, numbered
from tests.laws.streams_between import clock_of, merge_of, reorder_of, with_falls
from tests.seeds import seeds_of_today
from topology.base.event import BYE, DATA, DEAD, HEARTBEAT, Event
from topology.base.operator import Operator
from topology.config import Topology, parse
from topology.order.merge.queues import Queues
from topology.order.merge.stretch import Stretches
from topology.stage.chain import Chain
from topology.stage.stage import Stage

SEEDS = seeds_of_today(1)
BATCHES = (1, 7, 100, 1000)


@made_once
def calm(seed: int) -> list[Event]:
    """Return a stream whose sources are in order for long, so that they are well known, with faults
    in between.

    The faults are reordering and losses in bursts, duplicates, control events, silences, restarts,
    clock errors, and payloads. Several events from a source arrive at one instant.
    """
    rng, n, sources = Random(seed), 400, 3
    numbers = [rng.choice((0, 0, 5))] * sources
    epochs = [0] * sources
    ts = 1_000_000
    events: list[Event] = []
    trouble = 0.0
    for _ in range(n):
        ts += rng.choice((0, 1, 1, 2))
        if rng.random() < 0.01:
            trouble = rng.choice((0.0, 0.0, 0.1, 0.5))
        if trouble and rng.random() < 0.01:
            ts += rng.choice((30, 200, 3_000))
        at = rng.randrange(sources)
        if trouble and rng.random() < 0.005:
            epochs[at], numbers[at] = epochs[at] + 1, 0
        for _ in range(rng.choice((1, 1, 3, 8))):
            ts += rng.choice((0, 1, 1, 1))  # Several events from a source can have the same time.
            delay = rng.randint(0, 60) if rng.random() < trouble else rng.choice((0, 0, 1))
            arrival = (ts + 8 + delay) * MS
            name, number = f"s{at}", numbers[at]
            numbers[at] += 1
            if rng.random() < trouble / 10:
                continue
            event = Event("default", name, epochs[at], number, ts * MS, arrival)
            event.value = rng.choice((None, b"", b"12345"))
            if rng.random() < trouble / 10:
                event.kind = rng.choice((HEARTBEAT, BYE, DEAD))
            events.append(event)
            if rng.random() < trouble / 10:
                copy = Event("default", name, epochs[at], number, ts * MS, arrival + 9 * MS)
                events.append(copy)
    return in_log_order(events)


@made_once
def sequenced(seed: int) -> list[Event]:
    """Return the calm stream after REORDER and CLOCK, with time errors and upstream partitions."""
    rng = Random(seed)
    chain = chained(("reorder", reorder_of()), ("clock", clock_of()))
    events = calm(seed)
    released = numbered(chain.on_batch(events, events[-1].at_ns).released)
    for event in released:
        if event.kind == DATA:
            event.error_ns = rng.choice((0, MS, 3 * MS))
        event.lane = int(rng.random() < 0.002)
    return released


@made_once
def set_back(seed: int) -> list[Event]:
    chain = chained(("reorder", reorder_of()), ("clock", clock_of()))
    events = with_falls(calm(seed), Random(seed))
    return numbered(chain.on_batch(events, events[-1].at_ns).released)


@made_once
def crowded(seed: int) -> list[Event]:
    """Return so many sources that the rate cannot serve them within a wait: only the clock limits
    the output.

    Some are overdue, some are idle, some become idle and return, some end.
    """
    rng, sources = Random(seed), 30
    names = [*range(sources)]
    numbers = [0] * sources
    order: list[int] = []
    ts = 1_000_000
    events: list[Event] = []
    for _ in range(900):
        if not order:
            order = names[: rng.choice((6, 15, sources))]
            if rng.random() < 0.5:
                rng.shuffle(order)
        at = order.pop()
        ts += rng.choice((0, 1, 2, 5, 9))
        delay = rng.randint(0, 40) if rng.random() < 0.12 else rng.choice((0, 0, 1))
        event = Event("default", f"s{at}", 0, numbers[at], ts * MS, (ts + 1 + delay) * MS)
        event.value = rng.choice((None, b"12345"))
        event.error_ns = rng.choice((0, MS, 3 * MS))
        if rng.random() < 0.01:
            event.kind = rng.choice((HEARTBEAT, BYE, DEAD))
        numbers[at] += 1 + (rng.random() < 0.002)
        events.append(event)
    chain = chained(("reorder", reorder_of()), ("clock", clock_of()))
    events = in_log_order(events)
    return numbered(chain.on_batch(events, events[-1].at_ns).released)


@cache
def _topology(merge: str) -> Topology:
    return parse(f"streams: {{default: {{merge: {{{merge}}}}}}}\nstages: [reorder+merge]\n")


def _stage(merge: str = "") -> Stage:
    return Stage(_topology(merge), ("reorder", "merge"))


CALM = [
    Case("merge, known sources", merge_of, sequenced),
    Case("merge, many sources", merge_of, crowded),
    Case("merge, many sources, short", lambda: merge_of(max_wait="20ms"), crowded),
    Case("merge, many sources, long", lambda: merge_of(idle_after="1s"), crowded),
    Case("merge, many sources, declared", lambda: merge_of(max_set_back_ns=9 * MS), crowded),
    Case("merge, few queued", lambda: merge_of(max_queued=9), sequenced),
    Case("merge, little queued", lambda: merge_of(max_held_bytes=40), sequenced),
    Case("merge, short pauses", lambda: merge_of(outage_wait="2s", max_wait="9ms"), sequenced),
    Case("merge, set back", merge_of, set_back),
    Case("merge, set back, declared", lambda: merge_of(max_set_back_ns=40 * MS), set_back),
    Case("reorder, known sources", lambda: reorder_of(max_held=40, max_held_total=60), calm),
    Case("clock, rounds of sync", lambda: measured_clock("estimate"), calm),
    Case("clock, rounds of sync, trust", lambda: measured_clock("trust"), calm),
    Case("clock, estimate, set back", lambda: measured_clock("estimate"), set_back),
    Case("stage, known sources", _stage, calm, several_operators=True),
    Case("stage, few queued", lambda: _stage("max_queued: 20"), calm, several_operators=True),
]
CASES = [case for case in ALL if not case.name.startswith("window")] + CALM


def without_plain(operator: Operator) -> Operator:
    operator.takes_plain = False
    if isinstance(operator, Chain):
        for node in operator.nodes:
            without_plain(node.operator)
    if isinstance(operator, Stage):
        operator.begin(operator.streams)
        for chain in operator.chains.values():
            without_plain(chain)
    return operator


def course(
    case: Case, seed: int, size: int, make: Callable[[], Operator]
) -> Iterator[tuple[Any, ...]]:
    """Yield everything that can be observed of the operator after each batch."""
    operator, rng = make(), Random(seed)
    events = copies(case.stream(seed))
    now_ns = 0
    for number, at in enumerate(range(0, len(events), size)):
        batch = events[at : at + size]
        now_ns = max([now_ns, *(event.at_ns for event in batch)])
        emitted = Outputs()
        emitted.add(operator.on_batch(batch, now_ns))
        if rng.random() < 0.1:
            emitted.add(operator.on_time(now_ns))
        figures = operator.figures()
        if isinstance(operator, Stage):
            figures = {
                name + figure: value
                for name in operator.streams
                for figure, value in operator.figures_of(name).items()
            }
        looks = not number % 8
        yield (
            emitted.released,
            emitted.reports,
            emitted.results,
            figures,
            operator.next_deadline_ns(),
            operator.explain() if looks else None,
            [(event.offset, at, event.at_ns) for event, at in places_of(operator).items()]
            if looks
            else None,
            msgspec.msgpack.encode(operator.changes()),
            msgspec.msgpack.encode(operator.snapshot()) if looks else None,
        )
    emitted = Outputs()
    emitted.add(operator.on_end(now_ns))
    yield (
        emitted.released,
        emitted.reports,
        emitted.results,
        msgspec.msgpack.encode(operator.snapshot()),
    )


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_fast_path_matches_general_path(case: Case) -> None:
    for seed in SEEDS:
        for size in BATCHES:
            plain = course(case, seed, size, case.make)
            general = course(case, seed, size, lambda: without_plain(case.make()))
            for number, (one, other) in enumerate(zip(plain, general, strict=True)):
                assert one == other, (seed, size, number)


def test_streams_mix_plain_and_other_events() -> None:
    """Without such streams the law would show little. Many events follow the last of their source,
    many do not, and several arrive at one instant.
    """
    for seed in (0, 2, 4):
        newest: dict[str, int] = {}
        plain: list[bool] = []
        events = sequenced(seed)
        for event in events:
            follows = newest.get(event.source) == event.seq - 1
            plain.append(follows and event.kind == DATA and not event.late)
            newest[event.source] = event.seq
        assert 0.3 * len(events) < sum(plain) < 0.98 * len(events)
        assert sum(one != other for one, other in pairwise(plain)) > 30
        runs = groupby(events, key=lambda event: (event.source, event.at_ns))
        assert max(len(list(run)) for _, run in runs) >= 6


MERGES = [case for case in CALM if case.name.startswith("merge")]


@pytest.mark.parametrize("case", MERGES, ids=repr)
def test_skipped_opening_has_no_effect(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event for which `Stretches.opens` is false changes no output."""
    if not hasattr(Stretches.opens, "__code__"):
        pytest.skip("methods of the compiled core cannot be replaced")
    for seed in (*SEEDS, 1, 2, 3):
        said = [[*each[:3]] for each in course(case, seed, 7, case.make)]
        with monkeypatch.context() as patch:
            patch.setattr(Stretches, "opens", lambda *_: True)
            assert said == [[*each[:3]] for each in course(case, seed, 7, case.make)], seed


def test_clock_emits_many_crowded_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without such a stream the law would show little about events that only the clock delays."""
    if not hasattr(Queues.take_first, "__code__"):
        pytest.skip("methods of the compiled core cannot be replaced")
    taken, take_first = 0, Queues.take_first

    def count(queues: Queues, now_ns: int, released: list[Event]) -> None:
        nonlocal taken
        taken += 1
        take_first(queues, now_ns, released)

    monkeypatch.setattr(Queues, "take_first", count)
    case = Case("merge", lambda: merge_of(idle_after="1s"), crowded)
    for _ in course(case, 0, 100, case.make):
        pass
    assert taken > 0.4 * len(crowded(0))
