"""Examples: what is late at MERGE leaves when its instant is over, in order. Times are in ms."""

from __future__ import annotations

import pytest

from tests.laws.told import copies
from tests.topology.merge.against_oracle import MS
from tests.topology.merge.test_operator import event, operator, play, told
from topology.model.outcome import GAP

LATE_AT_71 = [
    ("c7", GAP),
    ("c8", GAP),
    ("b0", "merge_new"),
    ("d0", "merge_new"),
    ("b1", "merge_behind"),
]


@pytest.mark.parametrize("policy", ["pass", "side"])
@pytest.mark.parametrize("turn", range(3))
def test_what_is_late_in_one_instant_leaves_in_order_however_it_came(
    policy: str, turn: int
) -> None:
    """By time, source and number, ahead of what is in order; a restart amid it changes nothing."""
    coming = [
        event(71, "c", 8, 3, late=GAP),
        event(71, "d", 0, 5),
        event(71, "b", 0, 5),
        event(71, "b", 1, 6),
        event(71, "a", 2, 71),
        event(71, "c", 7, 3, late=GAP),
    ]
    coming = coming[turn:] + coming[:turn]  # b0 stays before b1
    merge, again = operator(late=policy), operator(late=policy)
    play(merge, [(10, "a", 0, 9, []), (70, "a", 1, 69, ["a0 at 10"])])
    assert told(merge.on_batch(coming[:3], 71 * MS)) == ["a1 at 70"]
    assert told(merge.on_batch(coming[3:], 71 * MS)) == []
    again.restore(merge.snapshot(), copies(merge.held()))
    for one in (merge, again):
        left = told(one.on_time(71 * MS))
        if policy == "pass":
            late = [f"{name} at 71 (late {cause})" for name, cause in LATE_AT_71]
            assert left == [*late, "a2 at 71"]
        else:
            assert left == ["a2 at 71", *(f"late {name}" for name, _ in LATE_AT_71)]
        assert one.figures()["queued"] == 0


def test_at_the_bound_late_ones_leave_amid_their_instant() -> None:
    merge = operator(max_queued=2)
    play(merge, [(10, "a", 0, 9, []), (70, "a", 1, 69, ["a0 at 10"])])
    late = [event(71, "b", seq, 5 - seq) for seq in range(4)]
    assert len(told(merge.on_batch(late, 71 * MS))) == 4  # with a1
    assert [each.seq for each in merge.held()] == [3]
    assert merge.figures()["overflows"] == 0
    assert len(told(merge.on_time(71 * MS))) == 1
