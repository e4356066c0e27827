"""Laws and examples: what REORDER adds up about waits and holes is what a count gives."""

from __future__ import annotations

import pytest

from tests.laws.streams import raw
from tests.topology.reorder.against_oracle import MS
from tests.topology.reorder.test_operator import event, operator
from topology.model.event import BLOCKED, UNBLOCKED
from topology.model.late import GAP


@pytest.mark.parametrize("seed", range(20))
def test_waits_and_holes_are_added_up(seed: int) -> None:
    """What the figures say is what a count of all that left gives."""
    reorder = operator(rule="miss", start="auto")
    waited_ns = outlived = 0
    for one in raw(seed):
        for left in reorder.on_batch([one], one.at_ns).released:
            if left.kind not in (BLOCKED, UNBLOCKED):
                waited_ns += left.at_ns - left.arrival_ns
            outlived += left.late == GAP
    figures = reorder.figures()
    assert figures["waited_ns"] == waited_ns
    assert figures["filled_late"] >= outlived
    assert figures["target_ppm"] == 999_000


def test_a_number_that_comes_in_time_and_one_that_does_not() -> None:
    reorder = operator(rule="fixed")
    reorder.on_batch([event(0, 0), event(1, 2), event(3, 1)], 3 * MS)
    reorder.on_batch([event(10, 5), event(90, 4, 9), event(91, 3, 8)], 91 * MS)
    figures = reorder.figures()
    assert (figures["filled"], figures["filled_late"]) == (1, 2)
    assert figures["waited_ns"] == (2 + 50) * MS
    assert "target_ppm" not in figures
