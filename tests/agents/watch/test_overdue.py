"""Examples: an overdue event, the time at which it is overdue, and what it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from agents.watch import overdue
from agents.watch.overdue import Overdue, describe_wait, longest_wait_s
from tests.kit.clock import Clock
from topology.base.event import PROGRESS, Event
from topology.config import parse
from topology.stage.lanes import Lanes
from topology.stage.registry import ALIGN_PLACE
from topology.stage.stage import Stage

S = 1_000_000_000
TEXT = """\
streams:
  a: {input: a, clock: {unsynced: trust, max_ahead: 50s}}
  b: {input: b, reorder: {max_wait: 5s}, merge: {max_wait: 7s}}
"""
LANES = Lanes((("a", 0), ("b", 2)), frozenset({0, 1}))


class Time(Clock):
    now_ns = 500 * S
    """Time of the arrival clock."""


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(overdue, "time", found)
    return found


def of(operator: str) -> tuple[Stage, Overdue]:
    topology = parse(TEXT)
    stage = Stage(topology, [operator], LANES)
    return stage, Overdue(stage, topology)


def event(source: str = "s", ahead_s: int = 0, *, offset: int = 7) -> Event:
    return Event("a", source, 0, 0, (500 + ahead_s) * S, 500 * S, offset)


def pass_time(
    time: Time,
    watch: Overdue,
    oldest: Event | None,
    seconds: float,
    *,
    arrival: bool = True,
    has_backlog: bool = False,
) -> None:
    """Look once a second for `seconds`; with `arrival` the arrival clock advances too."""
    for _ in range(int(seconds)):
        time.sleep(1.0)
        time.now_ns += S if arrival else 0
        watch.update(oldest, time.now_ns, has_backlog=has_backlog)


def test_allowed_wait_sums_streams() -> None:
    topology = parse(TEXT)
    of_a = longest_wait_s(topology, [topology.streams["a"]])
    of_both = longest_wait_s(topology, topology.streams.values())
    assert of_both - of_a == pytest.approx(3 * (5 - 0.5) + (7 - 0.5))
    assert of_a > 60.0, "an outage, and a stream that is quiet"


def test_unchanged_event_is_overdue(time: Time) -> None:
    _, watch = of("reorder")
    held = event()
    pass_time(time, watch, held, watch.allowed_s)
    assert (watch.seconds, watch.fault()) == (0.0, None)
    pass_time(time, watch, held, 12)
    assert 10 < watch.seconds < 13
    fault = watch.fault()
    assert fault is not None
    assert f"has waited for {watch.waited_s:.0f} s" in fault
    pass_time(time, watch, event(offset=8), 1)
    assert (watch.seconds, watch.fault()) == (0.0, None)
    pass_time(time, watch, None, 1)
    assert watch.fault() is None


def test_backlog_is_not_overdue(time: Time) -> None:
    _, watch = of("reorder")
    for _ in range(3):
        pass_time(time, watch, event(), watch.allowed_s - 5)
        pass_time(time, watch, event(), 2, has_backlog=True)
    assert watch.fault() is None


def test_stopped_time_does_not_count(
    time: Time,
) -> None:
    _, watch = of("reorder")
    pass_time(time, watch, event(), 10 * watch.allowed_s, arrival=False)
    assert watch.fault() is None
    _, watch = of("reorder")
    pass_time(time, watch, event(), 2)
    time.sleep(10_000)
    pass_time(time, watch, event(), 2)
    assert watch.fault() is None


def test_event_ahead_waits_for_its_time(time: Time) -> None:
    _, watch = of("reorder")
    pass_time(time, watch, event(ahead_s=9_000), watch.allowed_s + 49)
    assert watch.fault() is None
    pass_time(time, watch, event(ahead_s=9_000), 3)
    assert watch.fault() is not None, "further ahead would have been dead"


def test_silent_upstream_is_named(time: Time) -> None:
    """A silent upstream partition is named only if time stands still.

    If time advances, the event waits for its own time.
    """
    stage, watch = of("merge")
    held = event()
    stage.on_batch([held], 500 * S)
    assert stage.ledger.places_of(held) == ALIGN_PLACE
    pass_time(time, watch, held, 10 * watch.allowed_s)
    assert watch.fault() is None
    pass_time(time, watch, held, watch.allowed_s + 3, arrival=False)
    assert (watch.fault() or "").endswith("it waits for progress of b/2")
    assert 0 < watch.seconds <= 3


def test_stopped_time_names_partitions(time: Time) -> None:
    stage, watch = of("merge")
    one, other = event("s"), event("r", -1, offset=8)
    progress = Event("", "", 0, 0, 0, 500 * S, kind=PROGRESS)
    progress.lane = 1
    stage.on_batch([other, one, progress], 500 * S)
    assert stage.ledger.places_of(one) > ALIGN_PLACE
    pass_time(time, watch, one, watch.allowed_s + 3, arrival=False)
    assert "progress of a/0, b/2" in (watch.fault() or "")


HELD: dict[str, Any] = {"where": "held", "reason": "gap", "missing": [3, 4]}
MANY = [{"source": f"s{number}"} for number in range(7)]


MERGE = {"where": "held", "waits_for": MANY}
PASSED = {"where": "passed"}


@pytest.mark.parametrize(
    ("aligned", "answers", "wanted"),
    [
        ({"waiting_for": ["b/0", "b/1"]}, {}, "progress of b/0, b/1"),
        (None, {"reorder": HELD}, "source s, after a gap at numbers 3 to 4"),
        (None, {"reorder": PASSED, "merge": MERGE}, "sources s0, s1, s2, s3, s4 and 2 more"),
        (None, {"merge": {"where": "held", "waits_for": []}}, "its timestamp to pass"),
    ],
)
def test_awaited_sources_are_named(aligned: Any, answers: Any, wanted: str) -> None:
    located = {"alignment": aligned, "streams": {"a": answers}}
    assert describe_wait(located, "s", ()) == wanted
