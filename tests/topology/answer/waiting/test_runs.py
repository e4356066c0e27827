"""Oracle and examples: windows with an event count, and empty windows do not."""

from __future__ import annotations

from random import Random

from benchmarks.published.event_driven import EventDriven
from tests.topology.answer.waiting.strategies import MS
from topology.answer.waiting.budget import AccuracyBudget
from topology.answer.waiting.driver import Closing, WindowDriver
from topology.answer.waiting.risk import RiskSlack
from topology.answer.waiting.runs import Filled
from topology.base.event import Event


def test_filled_windows_match_a_set() -> None:
    for seed in range(200):
        rng = Random(seed)
        filled, numbers = Filled(), set[int]()
        through = waited_ns = windows = 0
        for now_ns in range(10, 60):
            if rng.random() < 0.7:
                first = through + 1 + rng.randrange(12)
                last = first + rng.randrange(4)
                filled.add(first, last)
                numbers.update(range(first, last + 1))
            else:
                through += rng.randrange(8)
                closing = {number for number in numbers if number <= through}
                assert filled.close(through, "why", now_ns, 5, 2) == len(closing)
                waited_ns += sum(now_ns - (5 * number - 2) for number in closing)
                windows += len(closing)
                numbers -= closing
            assert filled.first == min(numbers, default=None)
            again = Filled()
            again.load(filled.dump())
            filled = again
        assert (filled.waited_ns, sum(filled.closed.values())) == (waited_ns, windows)


def arrival(source: str, ts_ms: int, at_ms: int) -> Event:
    return Event("default", source, 0, ts_ms, ts_ms * MS, at_ms * MS)


def test_empty_windows_do_not_count() -> None:
    """Empty windows set no deadline either."""
    budget = AccuracyBudget(0.1)
    driver = WindowDriver(RiskSlack(budget), 10 * MS, closed="left", only_filled=True)
    emitted = driver.on_batch([arrival("a", 5, 6), arrival("a", 995, 996)], 997 * MS)
    assert emitted == [Closing(1, 99, 990 * MS - 1, 996 * MS, "confirmed")]
    assert budget.figures()["windows"] == 1
    driver = WindowDriver(RiskSlack(budget), 10 * MS, cap_ns=20 * MS, only_filled=True)
    driver.on_batch([arrival("a", 5, 6)], 7 * MS)
    assert [each.by for each in driver.on_time(500 * MS) if isinstance(each, Closing)] == ["cap"]
    assert driver.next_deadline_ns() is None


def test_empty_window_with_a_miss_counts() -> None:
    driver = WindowDriver(
        EventDriven(idle_ns=100 * MS), 10 * MS, cap_ns=20 * MS, only_filled=True, offset_ns=3 * MS
    )
    emitted = driver.on_batch([arrival("a", 5, 6), arrival("b", 44, 45)], 46 * MS)
    emitted += driver.on_time(70 * MS)
    assert [(each.number, each.through) for each in emitted if isinstance(each, Closing)] == [
        (1, 1),
        (2, 3),  # It closes when the next window with an event has ended, at 53 ms.
        (4, 4),
    ]
    driver.on_batch([arrival("a", 25, 71)], 72 * MS)
    assert driver.missed == 1
