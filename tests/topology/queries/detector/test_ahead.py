"""Law: speculative detectors give the same results after a restart, even while their MERGE buffers
a late duplicate beside the event itself. The law also holds if the events before it get other
offsets, as when a worker starts after a history.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.kit.events import copies
from tests.kit.outputs import Outputs
from tests.kit.places import give_back, twins
from tests.kit.runs import held_after_restart, through_changelog
from tests.laws.cases_detector import operator_of
from tests.seeds import seeds_of_today
from tests.topology.order.merge.test_one_instant import with_copies
from topology.base.event import Event


def said(events: list[Event], *, restarts: bool, moved: int = 0) -> Outputs:
    operator = operator_of("final", is_speculative=True)
    told = Outputs()
    for event in copies(events):
        told.add(operator.on_batch([event], event.at_ns))
        if restarts:
            held = held_after_restart(operator, events, 1)
            for each in (*operator.iter_held(), *held):
                each.offset -= moved
            state = through_changelog(operator.snapshot())
            operator = operator_of("final", is_speculative=True)
            give_back(operator, state, twins(held))
            assert through_changelog(operator.snapshot()) == state
            for each in operator.iter_held():
                each.offset += moved
    told.add(operator.on_end(events[-1].at_ns))
    return told


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds_of_today(8))
def test_late_duplicate_is_not_the_event(seed: int) -> None:
    events = with_copies(Random(seed))
    for event in events:
        event.value = {"key": "ab"[event.seq % 2], "v": event.seq}
    steady = said(events, restarts=False)
    assert steady.results
    for moved in (0, 1_000_000):
        hurt = said(events, restarts=True, moved=moved)
        assert hurt.released == steady.released
        assert [repr(each) for each in hurt.results] == [repr(each) for each in steady.results]
