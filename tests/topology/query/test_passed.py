"""What the record of a stream says to queries that are added (examples)."""

from __future__ import annotations

import pytest

from tests.kit.runs import through_changelog
from tests.topology.window.streams import MS, START, event, watermark
from topology.model.event import Event
from topology.query.beginning import ALWAYS, UNKNOWN, QueryBeginning, begin_midstream
from topology.query.passed import Passed


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
    """The latest possible time after START, and the error, in ms."""
    return (passed.since_ns() - 1 - START) / MS, passed.error_ns / MS


def test_the_latest_possible_time_counts_whatever_is_late() -> None:
    passed = record()
    passed.note([event("s", 1, 20, error_ms=15), event("t", 1, 30, late="gap", error_ms=1)])
    assert instant(passed) == (35, 15)


def test_a_watermark_says_the_error_of_what_follows_and_no_instant() -> None:
    passed = record()
    passed.note([event("s", 1, 20, error_ms=15), said(40, 2), event("s", 2, 41, error_ms=3)])
    assert instant(passed) == (44, 3)


def test_what_merge_still_holds_counts_for_those_who_have_read_it() -> None:
    passed = record()
    passed.note([event("s", 1, 20)])
    held = [event("s", 3, 50, error_ms=5), event("t", 1, 52), said(90, 0)]
    assert passed.since_ns(held) == START + 55 * MS + 1
    assert record(is_restored=True).since_ns(held) == UNKNOWN


@pytest.mark.parametrize("events", [(), (event("s", 1, 20), said(40, 2))])
def test_it_is_restored_as_it_was(events: tuple[Event, ...]) -> None:
    passed, again = record(), record()
    passed.note(events)
    again.restore(through_changelog(passed.snapshot()), ())
    assert again.snapshot() == passed.snapshot()
    assert again.since_ns() != UNKNOWN


def test_a_state_without_it_says_no_more_than_before() -> None:
    """A query then begins as it did, at the first watermark. So does the record."""
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


def test_a_query_takes_it_once_and_adds_its_own_margin() -> None:
    query = QueryBeginning(ordered=True, margin_ns=7)
    query.begin_at(50)
    assert query.since_ns == ALWAYS
    begin_midstream([query])
    query.begin_at(UNKNOWN)
    assert query.is_unknown
    query.begin_at(50)
    query.begin_at(90)
    assert (query.since_ns, query.is_unknown) == (57, False)


def test_where_nothing_has_passed_a_query_has_seen_everything() -> None:
    query = QueryBeginning(ordered=True, margin_ns=7)
    begin_midstream([query])
    query.begin_at(record().since_ns())
    assert not query.is_midstream
