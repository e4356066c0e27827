"""Examples: how MERGE handles a pause in the whole log. Times are in milliseconds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kit.scenarios import Table, scenarios, table
from tests.seeds import seeds_of_today
from tests.topology.order.merge.against_oracle import MS
from tests.topology.order.merge.test_operator import event, operator, play, rendered
from topology.base.event import Event, copy_event
from topology.order.merge.operator import Merge

BEFORE = table("""
    10 a 0 9
    11 b 0 10 -> a0 at 10
    61 -> b0 at 60
""")
PAUSED = BEFORE + table("3000 a 1 20")
"""No source sent from 11 to 3000, and the event of `a` is then 2980 old."""

SEEDS = seeds_of_today(20)


def merge(**settings: Any) -> Merge:
    return operator(**{"max_queued": 100, **settings})


AFTER_A_PAUSE = scenarios("""
A source is awaited for twice the pause
# 2989 long, so until 8978.
    8977
    8978 -> a1 at 8978
It is awaited no longer than outage wait {outage_wait: 500ms}
    3499
    3500 -> a1 at 3500
Without outage wait nobody is awaited {outage_wait: 0s}
    3000 -> a1 at 3000
Who does not come back is late as ever
    8978 -> a1 at 8978
    8979 b 1 12
    8979 -> b1 at 8979 (late merge_idle)
What left before makes the first ones late and its source is awaited on
    3001 b 1 9
    3500 -> b1 at 3001 (late set_back)
    3501 b 2 3500
    3502 a 2 3501 -> a1 at 3501
A heartbeat says that a source is back
    3100 b 1 3099 heartbeat
    3100 -> a1 at 3100
A source that says bye is awaited no more
    3100 b 1 15 bye
    3100 -> a1 at 3100
""")
WITHOUT = scenarios("""
A stream that had nothing to say waits for nobody
# What comes after the gap is new: nobody was cut off.
    10 a 0 9
    11 b 0 10 -> a0 at 10
    61 -> b0 at 60
    3000 a 1 2990
    3000 -> a1 at 3000
A pause shows though a hole is told first
    10 a 0 9
    11 b 0 10 -> a0 at 10
    61 -> b0 at 60
    3000 a 1 0 blocked
    3001 a 1 20
    3400
    3401 b 1 3400
    3401 -> a1 at 3401
Who was idle or gone before the pause is not awaited
    10 c 0 9
    300 a 0 299 -> c0 at 10
    301 a 1 300 -> a0 at 300
    301 -> a1 at 301
    4000 a 2 310
    4000 -> a2 at 4000
""")


SCENARIOS = WITHOUT | {
    title: (settings, [*PAUSED, *rows]) for title, (settings, rows) in AFTER_A_PAUSE.items()
}


@pytest.mark.parametrize(("settings", "rows"), SCENARIOS.values(), ids=SCENARIOS)
def test_scenario_matches_table(settings: dict[str, Any], rows: Table) -> None:
    play(merge(**settings), rows)


def test_pause_awaits_live_source() -> None:
    operator_ = merge()
    rows = table("""
        8970
        8971 b 1 12
        8972 b 2 25 -> b1 at 8971  # still old: a1 is the next, b may bring less
        8973 b 3 8972 -> a1 at 8972
        8974 a 2 8973
        8974 -> b2 at 8974, b3 at 8974
    """)
    play(operator_, [*PAUSED, *rows])
    assert operator_.figures()["awaited_after_outage"] == 0


def test_slow_source_shows_no_pause() -> None:
    operator_ = merge()
    for at in range(1_000, 8_000, 100):
        number = at // 100
        both = [event(at, "a", number, at - 900), event(at, "b", number, at - 10)]
        operator_.on_batch(both, at * MS)
    operator_.on_batch([event(10_800, "a", 80, 9_900)], 10_800 * MS)
    assert operator_.figures()["awaited_after_outage"] == 0
    operator_.on_batch([event(13_000, "a", 81, 10_500)], 13_000 * MS)
    assert operator_.figures()["awaited_after_outage"] == 1


def test_quiet_stream_advances_watermark() -> None:
    operator_ = merge(heartbeat=100, quiet_after="1s")
    operator_.on_batch([event(10, "a", 0, 9), event(11, "b", 0, 10)], 11 * MS)
    lines = rendered(operator_.on_time(5_000 * MS))
    assert lines[0] == "b0 at 60"
    assert lines[-1].startswith("W 4000 ")


def test_watermark_waits_after_pause() -> None:
    operator_ = merge(heartbeat=100, quiet_after="30s")
    play(operator_, [*BEFORE[:2], (61, None, ["b0 at 60", "W 10 C 9 at 60"])])
    play(operator_, [(3_000, "a", 1, 20, ["W 10 C 9 at 100"])])
    operator_.on_time(8_900 * MS)
    assert operator_.figures()["watermark_ns"] == 10 * MS


def test_full_queue_ends_waiting() -> None:
    operator_ = merge(max_queued=3)
    play(operator_, PAUSED)
    step = operator_.on_batch([event(3_001 + n, "a", 2 + n, 21 + n) for n in range(3)], 3_004 * MS)
    assert rendered(step) == [f"a{n} at 3003" for n in range(1, 5)]
    assert operator_.figures()["overflows"] == 0


def test_explain_shows_pause_wait() -> None:
    operator_ = merge()
    play(operator_, PAUSED)
    operator_.on_time(3_000 * MS)
    (waited,) = operator_.explain()["waits_for"]
    assert (waited["source"], waited["after_pause"], waited["until"]) == ("b", True, 8_978 * MS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_restarts_change_nothing(seed: int) -> None:
    """Sources store events during gaps in the stream. The state omits how a source is bounded."""
    rng = Random(seed)
    events = with_gaps(rng)
    whole = merge(heartbeat=100)
    broken = merge(heartbeat=100)
    for each in events:
        wanted = rendered(whole.on_batch([copy_event(each)], each.at_ns))
        if rng.random() < 0.3:
            again = merge(heartbeat=100)
            again.restore(broken.snapshot(), broken.iter_held())
            broken = again
        assert rendered(broken.on_batch([copy_event(each)], each.at_ns)) == wanted, each
    assert rendered(broken.on_end(events[-1].at_ns)) == rendered(whole.on_end(events[-1].at_ns))


@pytest.mark.slow
@pytest.mark.parametrize("takes_plain", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_cuts_change_nothing(seed: int, takes_plain: bool) -> None:
    """An emitted event gets a later instant, but the gap after it keeps its length."""
    events = with_gaps(Random(seed))

    def emitted(size: int) -> list[str]:
        operator_, lines = merge(heartbeat=100, max_queued=1_000), list[str]()
        operator_.takes_plain = takes_plain
        for at in range(0, len(events), size):
            batch = [copy_event(each) for each in events[at : at + size]]
            lines += rendered(operator_.on_batch(batch, batch[-1].at_ns))
        return lines + rendered(operator_.on_end(events[-1].at_ns))

    assert emitted(len(events)) == emitted(1)
    assert emitted(7) == emitted(1)


def with_gaps(rng: Random) -> list[Event]:
    """Return events of four sources; at times all are silent, and some send stored events."""
    at, seqs, newest = 10, dict.fromkeys("abcd", 0), dict.fromkeys("abcd", 0)
    events = []
    for _ in range(150):
        gap = rng.random() < 0.05
        at += rng.randrange(1_100, 6_000) if gap else rng.randrange(1, 80)
        source = rng.choice("abcd")
        delay = rng.choice((1, 1, 1, 5, 30, 60, 2_000))
        newest[source] = max(newest[source] + 1, at - delay)
        events.append(event(at, source, seqs[source], newest[source]))
        seqs[source] += 1
    return events
