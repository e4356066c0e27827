"""Examples: what MERGE makes of a pause of the whole log. A time is a number of milliseconds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.merge.against_oracle import MS
from tests.topology.merge.test_operator import Table, event, operator, play, rendered
from topology.merge.operator import Merge
from topology.model.event import BLOCKED, BYE, HEARTBEAT, Event, twin

BEFORE: Table = [(10, "a", 0, 9, []), (11, "b", 0, 10, ["a0 at 10"]), (61, None, ["b0 at 60"])]
PAUSED: Table = [*BEFORE, (3_000, "a", 1, 20, [])]
"""Nobody was heard from 11 to 3000, and what a brings then has waited for 2980."""

SEEDS = seeds_of_today(20)


def merge(**settings: Any) -> Merge:
    return operator(**{"max_queued": 100, **settings})


def test_a_source_that_was_live_is_awaited_after_a_pause() -> None:
    operator_ = merge()
    play(operator_, [*PAUSED, (8_970, None, []), (8_971, "b", 1, 12, [])])
    play(
        operator_,
        [
            (8_972, "b", 2, 25, ["b1 at 8971"]),  # still old: a1 is the next, b may bring less
            (8_973, "b", 3, 8_972, ["a1 at 8972"]),
            (8_974, "a", 2, 8_973, []),
            (8_974, None, ["b2 at 8974", "b3 at 8974"]),
        ],
    )
    assert operator_.figures()["awaited_after_outage"] == 0


def test_it_is_awaited_for_twice_the_pause() -> None:
    """2989 long, so until 8978."""
    play(merge(), [*PAUSED, (8_977, None, []), (8_978, None, ["a1 at 8978"])])


def test_it_is_awaited_no_longer_than_outage_wait() -> None:
    play(merge(outage_wait="500ms"), [*PAUSED, (3_499, None, []), (3_500, None, ["a1 at 3500"])])


def test_without_outage_wait_nobody_is_awaited() -> None:
    play(merge(outage_wait="0s"), [*PAUSED, (3_000, None, ["a1 at 3000"])])


def test_who_does_not_come_back_is_late_as_ever() -> None:
    late = [(8_979, "b", 1, 12, []), (8_979, None, ["b1 at 8979 (late merge_idle)"])]
    play(merge(), [*PAUSED, (8_978, None, ["a1 at 8978"]), *late])


def test_what_left_before_makes_the_first_ones_late_and_its_source_is_awaited_on() -> None:
    play(
        merge(),
        [
            *PAUSED,
            (3_001, "b", 1, 9, []),
            (3_500, None, ["b1 at 3001 (late merge_pause)"]),
            (3_501, "b", 2, 3_500, []),
            (3_502, "a", 2, 3_501, ["a1 at 3501"]),
        ],
    )


def test_a_heartbeat_says_that_a_source_is_back() -> None:
    play(merge(), [*PAUSED, (3_100, "b", 1, 3_099, HEARTBEAT, []), (3_100, None, ["a1 at 3100"])])


def test_a_source_that_says_bye_is_awaited_no_more() -> None:
    play(merge(), [*PAUSED, (3_100, "b", 1, 15, BYE, []), (3_100, None, ["a1 at 3100"])])


def test_a_stream_that_had_nothing_to_say_waits_for_nobody() -> None:
    """What comes after the gap is new: nobody was cut off."""
    play(merge(), [*BEFORE, (3_000, "a", 1, 2_990, []), (3_000, None, ["a1 at 3000"])])


def test_a_pause_shows_though_a_hole_is_told_first() -> None:
    play(
        merge(),
        [
            *BEFORE,
            (3_000, "a", 1, 0, BLOCKED, []),
            (3_001, "a", 1, 20, []),
            (3_400, None, []),
            (3_401, "b", 1, 3_400, []),
            (3_401, None, ["a1 at 3401"]),
        ],
    )


def test_one_that_died_among_live_ones_is_idle() -> None:
    operator_ = merge()
    play(operator_, BEFORE)
    for n in range(1, 60):
        operator_.on_batch([event(61 + 50 * n, "a", n, 60 + 50 * n)], (61 + 50 * n) * MS)
    assert operator_.figures()["idle"] == 1
    step = operator_.on_batch([event(3_100, "b", 1, 20)], 3_101 * MS)
    assert rendered(step)[-1] == "b1 at 3100 (late merge_idle)"


def test_who_was_idle_or_gone_before_the_pause_is_not_awaited() -> None:
    play(
        merge(),
        [
            (10, "c", 0, 9, []),
            (300, "a", 0, 299, ["c0 at 10"]),
            (301, "a", 1, 300, ["a0 at 300"]),
            (301, None, ["a1 at 301"]),
            (4_000, "a", 2, 310, []),
            (4_000, None, ["a2 at 4000"]),
        ],
    )


def test_a_quiet_stream_finishes_in_a_pause() -> None:
    operator_ = merge(heartbeat=100, quiet_after="1s")
    operator_.on_batch([event(10, "a", 0, 9), event(11, "b", 0, 10)], 11 * MS)
    lines = rendered(operator_.on_time(5_000 * MS))
    assert lines[0] == "b0 at 60"
    assert lines[-1].startswith("W 4000 ")


def test_the_watermark_waits_for_those_awaited() -> None:
    operator_ = merge(heartbeat=100, quiet_after="30s")
    play(operator_, [*BEFORE[:2], (61, None, ["b0 at 60", "W 10 C 9 at 60"])])
    play(operator_, [(3_000, "a", 1, 20, ["W 10 C 9 at 100"])])
    operator_.on_time(8_900 * MS)
    assert operator_.figures()["watermark_ns"] == 10 * MS


def test_at_the_bound_the_waiting_ends() -> None:
    operator_ = merge(max_queued=3)
    play(operator_, PAUSED)
    step = operator_.on_batch([event(3_001 + n, "a", 2 + n, 21 + n) for n in range(3)], 3_004 * MS)
    assert rendered(step) == [f"a{n} at 3003" for n in range(1, 5)]
    assert operator_.figures()["overflows"] == 0


@pytest.mark.parametrize("at", range(3, 9))
def test_a_restart_in_between_changes_nothing(at: int) -> None:
    table: Table = [
        *PAUSED,
        (3_050, "a", 2, 30, []),
        (4_000, "b", 1, 15, []),
        (4_001, "b", 2, 40, ["b1 at 4000"]),
        (4_002, "b", 3, 4_001, ["a1 at 4001", "a2 at 4001"]),
        (4_003, "a", 3, 4_002, []),
        (4_003, None, ["b2 at 4003", "b3 at 4003"]),
    ]
    before, after = merge(), merge()
    play(before, table[:at])
    after.restore(before.snapshot(), before.held())
    play(after, table[at:])


def test_explain_names_who_is_awaited_and_until_when() -> None:
    operator_ = merge()
    play(operator_, PAUSED)
    operator_.on_time(3_000 * MS)
    (waited,) = operator_.explain()["waits_for"]
    assert (waited["source"], waited["after_pause"], waited["until"]) == ("b", True, 8_978 * MS)


@pytest.mark.parametrize("seed", SEEDS)
def test_restarts_anywhere_change_nothing(seed: int) -> None:
    """Gaps, what was kept through them and what was not; how a source is bounded is no state."""
    rng = Random(seed)
    events = with_gaps(rng)
    whole = merge(heartbeat=100)
    broken = merge(heartbeat=100)
    for each in events:
        wanted = rendered(whole.on_batch([twin(each)], each.at_ns))
        if rng.random() < 0.3:
            again = merge(heartbeat=100)
            again.restore(broken.snapshot(), broken.held())
            broken = again
        assert rendered(broken.on_batch([twin(each)], each.at_ns)) == wanted, each
    assert rendered(broken.on_end(events[-1].at_ns)) == rendered(whole.on_end(events[-1].at_ns))


@pytest.mark.parametrize("takes_plain", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_gaps_inside_a_batch_are_those_between_batches(seed: int, takes_plain: bool) -> None:
    """An event that leaves bears a later instant; the gap behind it is as long as before."""
    events = with_gaps(Random(seed))

    def emitted(size: int) -> list[str]:
        operator_, lines = merge(heartbeat=100, max_queued=1_000), list[str]()
        operator_.takes_plain = takes_plain
        for at in range(0, len(events), size):
            batch = [twin(each) for each in events[at : at + size]]
            lines += rendered(operator_.on_batch(batch, batch[-1].at_ns))
        return lines + rendered(operator_.on_end(events[-1].at_ns))

    assert emitted(len(events)) == emitted(1)
    assert emitted(7) == emitted(1)


def with_gaps(rng: Random) -> list[Event]:
    """Four sources; now and then nobody is heard for seconds, and some send what they kept."""
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
