"""Examples: which events are late at MERGE, and why. Times are in milliseconds."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.kit.chains import chained
from tests.kit.scenarios import Table, scenarios, table
from tests.topology.order.merge.test_operator import event, operator, play
from topology.base.event import DATA
from topology.config import ClockConfig, MergeConfig
from topology.order.clock.operator import Clock
from topology.order.merge.operator import Merge

# -- causes ----------------------------------------------------------------------------------------


IDLE = table("""
    0 b 0 0
    1 a 0 1 -> b0 at 0
    300 -> a0 at 51
    301 a 1 300
""")
SECOND = table("""
    303 b 2 241
    303 -> b2 at 303 (late merge_idle)
""")


@pytest.mark.parametrize(
    "woken",
    [
        table("302 b 1 240 -> a1 at 301\n302 -> b1 at 302 (late merge_idle)"),
        table("302 b 1 240 heartbeat -> a1 at 301") + SECOND,
        table("302 b 2 0 blocked -> a1 at 301") + SECOND,
    ],
)
def test_idle_source_returns_late(woken: Table) -> None:
    then = table("304 b 9 242\n304 -> b9 at 304 (late merge_behind)")
    play(operator(), [*IDLE, *woken, *then])


SCENARIOS = scenarios("""
A source that had said bye
    0 b 0 0
    1 b 1 1 bye -> b0 at 0
    3 a 0 3
    4 b 2 2 -> a0 at 3
    5 -> b2 at 4 (late merge_idle)
A source that was waited for too short
    0 b 0 0
    1 a 0 1 -> b0 at 0
    51 -> a0 at 51
    52 b 1 0
    53 b 2 0 -> b1 at 52 (late merge_wait)
    54 b 3 53 -> b2 at 53 (late merge_behind)
A source that was idle and came back in time is no excuse later
    0 b 0 0
    1 a 0 1 -> b0 at 0
    300 -> a0 at 51
    301 b 1 301
    301 -> b1 at 301
    310 a 1 310
    360 -> a1 at 360
    361 b 2 302
    361 -> b2 at 361 (late merge_wait)
""")


@pytest.mark.parametrize(("settings", "rows"), SCENARIOS.values(), ids=SCENARIOS)
def test_scenario_matches_table(settings: dict[str, Any], rows: Table) -> None:
    play(operator(**settings), rows)


def test_set_back_event_can_be_in_order() -> None:
    """A set-back event is in order until a later event has been emitted."""
    rows = table("""
        5 b 0 5
        10 a 0 10 -> b0 at 5
        11 a 1 8
        12 a 2 9
        13 a 3 12
        58 -> a1 at 58
        59 -> a2 at 59
        59 a 4 8
        60 a 5 10 -> a4 at 59 (late set_back)
        60 -> a0 at 60, a5 at 60
        62 -> a3 at 62
    """)
    play(operator(), rows)
    before, after = operator(), operator()
    play(before, rows[:4])
    after.restore(before.snapshot(), before.iter_held())
    play(after, rows[4:])


@pytest.mark.parametrize("seed", range(20))
def test_unmarked_events_are_ordered(seed: int) -> None:
    rng = Random(seed)
    chain = chained(
        ("clock", Clock(ClockConfig(unsynced="trust"))),
        ("merge", Merge("default", MergeConfig())),
    )
    at, seqs, unmarked, last = 1_000, Counter[str](), 0, (0, 0, "", 0)
    for _ in range(300):
        at += rng.choice((0, 1, 3))
        source = rng.choice("abc")
        one = event(at, source, seqs[source], at - rng.choice((0, 5, 40)))
        one.ts_ns = one.ref_time_ns
        seqs[source] += 1
        for left in chain.on_batch([one], one.arrival_ns).released:
            key = (left.ref_time_ns, left.at_ns, left.source, left.seq)
            if left.kind == DATA and not left.late:
                assert left.ref_time_ns == left.ts_ns
                assert key > last
                unmarked, last = unmarked + 1, key
    assert unmarked > 100
