"""Examples: one source that is ahead of the clock or floods MERGE does not harm the others.

Times are in milliseconds; the last test runs the whole stage with trusted clocks, as a user would.
"""

from __future__ import annotations

from collections import Counter
from heapq import merge as in_turn
from typing import Any

import pytest

from tests.kit.scenarios import table
from tests.kit.topologies import in_code
from tests.topology.order.merge.test_operator import event, operator, play, rendered
from topology.base.event import BLOCKED, DATA, Event
from topology.base.late import MERGE_FULL
from topology.base.outcome import Late
from topology.order.reorder.settings import LatePolicy
from topology.stage.stage import Stage

MS = 1_000_000
MINUTE = 60_000
AHEAD = 59 * MINUTE


def test_watermark_respects_clock() -> None:
    merge = operator(heartbeat=10)
    step = merge.on_batch([event(1, "a", 0, 500), event(2, "b", 0, 500)], 40 * MS)
    assert rendered(step) == ["W 10 C 10 at 10", "W 30 C 30 at 30"]


def test_source_ahead_gives_up_its_newest() -> None:
    merge = operator(max_queued=3)
    rows = table("""
        10 b 0 9
        11 a 0 9000 -> b0 at 10
        12 a 1 9001
        13 c 0 12
        13 b 1 13 -> a1 at 13 (late merge_full)
        14 a 2 9002 -> c0 at 13
        14 a 3 9003 -> a3 at 14 (late merge_full)
        14 a 4 9004 -> a4 at 14 (late merge_full)
        9003 -> b1 at 63, a0 at 9000, a2 at 9002
    """)
    play(merge, rows)
    assert merge.figures()["overflows"] == 3
    assert merge.figures()["queued"] == 0


@pytest.mark.parametrize("policy", ["drop", "side"])
def test_overflow_uses_late_policy(policy: LatePolicy) -> None:
    merge = operator(late=policy, max_queued=1)
    merge.on_batch([event(1, "a", n, 9_000 + n) for n in range(2)], 1 * MS)
    step = merge.on_batch([event(2, "a", 2, 9_100)], 2 * MS)
    assert rendered(step) == ["late a2"]
    assert [(r.reason, r.by_ns) for r in step.reports if isinstance(r, Late)] == [(MERGE_FULL, 0)]


def test_source_above_half_gives_way() -> None:
    """Other sources wait for an event that REORDER buffers, which is not late when it arrives."""
    rows = table("""
        10 b 0 9
        11 b 1 0 blocked -> b0 at 10
        11 a 0 10
        12 a 1 11
        13 a 2 12 -> a2 at 13 (late merge_full)
        14 b 1 9 -> a1 at 14 (late merge_full)
        14 -> b1 at 14
        15 b 2 14
        15 -> a0 at 15
    """)
    play(operator(max_queued=2), rows)


def test_evenly_full_queue_emits_smallest() -> None:
    merge = operator(max_queued=2)
    rows = table("""
        10 b 0 9
        11 b 1 0 blocked -> b0 at 10
        11 a 0 10
        12 c 0 11
        13 d 0 12 -> a0 at 13
        14 b 1 9 -> b1 at 14 (late merge_full)
    """)
    play(merge, rows)
    assert merge.figures()["overflows"] == 1


def test_overflow_never_passes_clock() -> None:
    merge = operator(max_queued=2, max_wait="10s")
    step = merge.on_batch([event(1, s, 0, 9_000 + n) for n, s in enumerate("abc")], 2 * MS)
    assert rendered(step) == ["c0 at 1 (late merge_full)"]
    assert merge.figures().get("watermark_ns", 0) <= 2 * MS


def test_largest_payload_gives_way() -> None:
    merge = operator(max_held_bytes=1_000)
    events = [event(10, "b", 0, 9), event(11, "b", 1, 0, BLOCKED)]
    events += [event(12, "a", 0, 11)] + [event(13, "c", n, 12) for n in range(9)]
    for each in events:
        each.value = bytes(900 if each.source == "a" else 20)
    step = merge.on_batch(events, 14 * MS)
    assert [(e.source, e.late) for e in step.released if e.kind == DATA and e.late] == [
        ("a", MERGE_FULL)
    ]


# -- the whole stage -------------------------------------------------------------------------------

TOPOLOGY = """
streams:
  default:
    clock: {{unsynced: trust}}
    reorder: {{{reorder}}}
    merge: {{{merge}}}
stages: [reorder+merge]
"""


def sent(source: str, every: int, since: int, until: int, ahead: int = 0, size: int = 0) -> Any:
    for n, ts in enumerate(range(since, until, every)):
        made = Event("default", source, 0, n, (ts + ahead) * MS, (ts + 3) * MS)
        made.value = bytes(size)
        yield made


def arrival(event: Event) -> int:
    return event.arrival_ns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reorder", "merge", "size"),
    [
        ("rule: time", "max_queued: 5000", 0),
        ("max_held_bytes: 1MiB", "", 200),
        ("rule: time, max_held_bytes: 1MiB", "", 200),
        ("", "max_queued: 100000", 0),
    ],
)
def test_source_ahead_harms_only_itself(reorder: str, merge: str, size: int) -> None:
    """One source is 59 minutes ahead and sends an event every 3 ms for a minute.

    The others send half a minute longer, after a pause of all that is longer than `idle_after`.
    """
    stage = Stage(in_code(TOPOLOGY.format(reorder=reorder, merge=merge)), ["reorder", "merge"])
    begin = 100 * MINUTE
    gone = begin + MINUTE
    sources = [
        [*sent(f"s{n}", 10 + n, begin, gone), *sent(f"s{n}", 10, gone + 5_000, gone + 30_000)]
        for n in range(3)
    ]
    for source in sources:
        for number, each in enumerate(source):
            each.seq = number
    events = list(in_turn(*sources, sent("z", 1_000 // 283, begin, gone, AHEAD, size), key=arrival))
    for offset, each in enumerate(events):
        each.offset = offset
    ends = events[-1].arrival_ns
    late: Counter[str] = Counter()
    left: Counter[str] = Counter()
    last_ns = 0
    for at in range(0, len(events), 1_000):
        batch = events[at : at + 1_000]
        for each in stage.on_batch(batch, batch[-1].arrival_ns).released:
            if each.kind == DATA:
                left[each.source] += 1
                late[each.source] += each.late != ""
                assert each.late or each.ref_time_ns <= each.at_ns
                assert each.late or each.ref_time_ns >= last_ns
                last_ns = last_ns if each.late else each.ref_time_ns
    assert ends > last_ns
    assert [late[f"s{n}"] for n in range(3)] == [0, 0, 0]
    assert all(left[f"s{n}"] >= len(sources[n]) - 5 for n in range(3))
    assert (late["z"] > 10_000) == ("100000" not in merge)
