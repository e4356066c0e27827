"""Simulation of a broker outage: two partitions that come back apart, producers that buffer."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.outage import MS, Outage, log
from topology.config import parse
from topology.flow.stage import Stage
from topology.model.event import DATA, Event


def run(outage: Outage, seed: int, merge: str = "", batch: int = 100) -> list[Event]:
    text = f"streams: {{default: {{clock: {{unsynced: trust}}, merge: {{{merge}}}}}}}"
    stage = Stage(parse(f"{text}\nstages: [reorder+merge]"), ["reorder", "merge"])
    events = log(outage, seed)
    released: list[Event] = []
    for at in range(0, len(events), batch):
        part = events[at : at + batch]
        released += stage.on_batch(part, part[-1].arrival_ns).released
    released += stage.on_end(events[-1].arrival_ns).released
    assert len([e for e in released if e.kind == DATA]) == len(events)
    return [e for e in released if e.kind == DATA]


def late(released: list[Event]) -> Counter[str]:
    return Counter(event.late for event in released if event.late)


@pytest.mark.parametrize("apart", [0, 500, 2_000, 10_000])
def test_a_pause_of_the_log_makes_hardly_anybody_late(apart: int) -> None:
    outage = Outage(apart=apart, until=35_000)
    released = run(outage, seed=apart)
    without = run(outage, seed=apart, merge="outage_wait: 0s")
    assert late(without).total() > len(without) // 10  # else nothing is shown here
    assert late(released).total() <= 3
    unmarked = [event.ref_time_ns for event in released if not event.late]
    assert unmarked == sorted(unmarked)


def test_a_source_that_the_outage_killed_holds_the_others_for_a_while() -> None:
    outage = Outage(apart=0, until=40_000, dead="s3")
    released = run(outage, seed=1)
    assert late(released).total() <= 3
    back_ns = (outage.begins + outage.lasts) * MS
    given_up_ns = back_ns + 2 * outage.lasts * MS + 100 * MS
    waits = [event.at_ns - event.arrival_ns for event in released if event.at_ns > given_up_ns]
    assert max(waits[10:]) < 500 * MS


def test_how_it_is_cut_changes_nothing() -> None:
    outage = Outage(until=25_000, period=50)
    one, other = run(outage, 5, batch=1), run(outage, 5, batch=1_000)
    assert [(e.offset, e.at_ns, e.late) for e in one] == [
        (e.offset, e.at_ns, e.late) for e in other
    ]


def test_a_worker_that_was_down_longer_than_quiet_after_makes_nobody_late() -> None:
    """The log went on: what is read on coming back arrived when it was appended. So a restart is no
    pause, however long it took; only one of the log is."""
    events = log(Outage(begins=60_000, lasts=0, apart=0, until=60_000), seed=1)
    text = "streams: {default: {clock: {unsynced: trust}}}\nstages: [reorder+merge]"

    def stage() -> Stage:
        return Stage(parse(text), ["reorder", "merge"])

    before, after = stage(), stage()
    down = next(at for at, event in enumerate(events) if event.arrival_ns > 5_000 * MS)
    released = before.on_batch(events[:down], events[down - 1].arrival_ns).released
    held = [event for event in events[:down] if event.held_by]
    after.restore(before.snapshot(), held)
    released += after.on_batch(events[down:], events[-1].arrival_ns).released
    released += after.on_end(events[-1].arrival_ns).released
    assert len([event for event in released if event.kind == DATA]) == len(events)
    assert late(released).total() <= 3
