"""Examples: the record of a stream, from which an added query learns which instants have passed."""

from __future__ import annotations

import pytest

from tests.kit.runs import through_changelog
from tests.topology.queries.window.streams import MS, START, event, watermark
from topology.answer.query.beginning import ALWAYS, UNKNOWN, QueryBeginning, begin_midstream
from topology.answer.query.passed import Passed
from topology.base.event import Event


def record(*, is_restored: bool = False) -> Passed:
    made = Passed(announced=True)
    if is_restored:
        made.restore({}, ())
    return made


def said(to_ms: float, error_all_ms: int) -> Event:
    made = watermark(to_ms, to_ms, to_ms)
    made.error_all_ns = error_all_ms * MS
    return made


def instant(passed: Passed) -> tuple[float, float]:
    """Return the latest possible time after START, and the error, in ms."""
    return (passed.since_ns() - 1 - START) / MS, passed.error_ns / MS


def test_latest_possible_time_counts() -> None:
    """Late events also count."""
    passed = record()
    passed.note([event("s", 1, 20, error_ms=15), event("t", 1, 30, late="gap", error_ms=1)])
    assert instant(passed) == (35, 15)


def test_watermark_sets_only_the_error() -> None:
    """A watermark has the error of later events, and sets no instant."""
    passed = record()
    passed.note([event("s", 1, 20, error_ms=15), said(40, 2), event("s", 2, 41, error_ms=3)])
    assert instant(passed) == (44, 3)


def test_events_buffered_in_merge_count() -> None:
    """Buffered events do not count for a record that was restored without a state."""
    passed = record()
    passed.note([event("s", 1, 20)])
    held = [event("s", 3, 50, error_ms=5), event("t", 1, 52), said(90, 0)]
    assert passed.since_ns(held) == START + 55 * MS + 1
    assert record(is_restored=True).since_ns(held) == UNKNOWN


@pytest.mark.parametrize("events", [(), (event("s", 1, 20), said(40, 2))])
def test_passed_instants_are_restored(events: tuple[Event, ...]) -> None:
    passed, again = record(), record()
    passed.note(events)
    again.restore(through_changelog(passed.snapshot()), ())
    assert again.snapshot() == passed.snapshot()
    assert again.since_ns() != UNKNOWN


def test_record_without_state_is_unknown() -> None:
    """Such a record begins at the first watermark, as does a query that reads it."""
    passed = record(is_restored=True)
    passed.note([event("s", 1, 30, error_ms=9)])
    again = record()
    again.restore(through_changelog(passed.snapshot()), ())
    for each in (passed, again):
        assert each.since_ns() == UNKNOWN
        each.note([said(40, 5)])
        assert instant(each) == (45, 5)
        each.note([event("s", 2, 60)])
        assert instant(each) == (60, 5)


def test_query_start_is_set_once() -> None:
    """The first known instant and the query's margin are its start. Later ones are ignored."""
    query = QueryBeginning(ordered=True, margin_ns=7)
    query.begin_if_unknown(50)
    assert query.since_ns == ALWAYS
    begin_midstream([query])
    query.begin_if_unknown(UNKNOWN)
    assert query.is_unknown
    query.begin_if_unknown(50)
    query.begin_if_unknown(90)
    assert (query.since_ns, query.is_unknown) == (57, False)


def test_query_sees_all_if_nothing_passed() -> None:
    query = QueryBeginning(ordered=True, margin_ns=7)
    begin_midstream([query])
    query.begin_if_unknown(record().since_ns())
    assert not query.is_midstream
