"""Simulation of a broker outage: two partitions return at different times, producers buffer.

Each source sends at its own pace to one of two partitions, over a network that takes some
milliseconds. During the outage no event arrives. Each source keeps its events, and sends them in a
burst afterwards. Its partition gets a leader a while after the first one, and its own producer
retries at random within a second.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest

from tests.kit.places import give_back, places_of
from topology.base.event import DATA, Event
from topology.config import parse
from topology.stage.stage import Stage

MS = 1_000_000
BURST_MS = 0.2
"""Milliseconds between two events of a backlog."""


@dataclass(frozen=True)
class Outage:
    """An outage, in milliseconds.

    `apart`: the delay of the second partition's return; `dead`: a source that does not return, ""
    if all do.
    """

    begins: int = 10_000
    lasts: int = 8_000
    apart: int = 2_000
    until: int = 50_000
    dead: str = ""
    sources: int = 6
    period: int = 20


def log(outage: Outage, seed: int) -> list[Event]:
    rng = Random(seed)
    events: list[Event] = []
    for number in range(outage.sources):
        source = f"s{number}"
        lane = number % 2
        back = outage.begins + outage.lasts + lane * outage.apart + rng.uniform(0, 1_000)
        if number < 2:
            back = outage.begins + outage.lasts + lane * outage.apart  # the first source
        base = rng.uniform(1, 6)
        ts, arrived, seq = rng.uniform(0, outage.period), 0.0, 0
        while ts < outage.until:
            arrives = ts + base + rng.expovariate(1 / 2)
            if arrives >= outage.begins:
                if source == outage.dead:
                    break
                arrives = max(arrives, back)
            arrived = max(arrives, arrived + BURST_MS)
            made = Event("default", source, 0, seq, _ns(ts), _ns(arrived))
            made.lane = lane
            events.append(made)
            ts += rng.uniform(0.8, 1.2) * outage.period
            seq += 1
    events.sort(key=lambda event: (event.arrival_ns, event.source))
    for offset, event in enumerate(events):
        event.offset = offset
    return events


def _ns(ms: float) -> int:
    return round(ms * MS)


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
def test_outage_makes_few_late(apart: int) -> None:
    outage = Outage(apart=apart, until=35_000)
    released = run(outage, seed=apart)
    without = run(outage, seed=apart, merge="outage_wait: 0s")
    assert late(without).total() > len(without) // 10  # Otherwise the test would show nothing.
    assert late(released).total() <= 3
    unmarked = [event.ref_time_ns for event in released if not event.late]
    assert unmarked == sorted(unmarked)


def test_lost_source_delays_only_a_while() -> None:
    outage = Outage(apart=0, until=40_000, dead="s3")
    released = run(outage, seed=1)
    assert late(released).total() <= 3
    back_ns = (outage.begins + outage.lasts) * MS
    given_up_ns = back_ns + 2 * outage.lasts * MS + 100 * MS
    waits = [event.at_ns - event.arrival_ns for event in released if event.at_ns > given_up_ns]
    assert max(waits[10:]) < 500 * MS


def test_batches_do_not_change_output() -> None:
    outage = Outage(until=25_000, period=50)
    one, other = run(outage, 5, batch=1), run(outage, 5, batch=1_000)
    assert [(e.offset, e.at_ns, e.late) for e in one] == [
        (e.offset, e.at_ns, e.late) for e in other
    ]


def test_long_restart_makes_few_late() -> None:
    """A long restart does not look like a pause in the log.

    Events get their arrival times when they are appended, even while the worker is down.
    """
    events = log(Outage(begins=60_000, lasts=0, apart=0, until=60_000), seed=1)
    text = "streams: {default: {clock: {unsynced: trust}}}\nstages: [reorder+merge]"

    def stage() -> Stage:
        return Stage(parse(text), ["reorder", "merge"])

    before, after = stage(), stage()
    down = next(at for at, event in enumerate(events) if event.arrival_ns > 5_000 * MS)
    released = before.on_batch(events[:down], events[down - 1].arrival_ns).released
    give_back(after, before.snapshot(), places_of(before))
    released += after.on_batch(events[down:], events[-1].arrival_ns).released
    released += after.on_end(events[-1].arrival_ns).released
    assert len([event for event in released if event.kind == DATA]) == len(events)
    assert late(released).total() <= 3
