"""Examples: windows are compared with the truth, and the clock is found at which they close."""

from __future__ import annotations

from benchmarks.spark import WINDOW_NS, Closed, Record, clock_at, count_truth, table_of

MS = 1_000_000
RAW = [
    Record(0, 10 * MS, "a", 0, 0),
    Record(1, 11 * MS, "a", 1, 1),
    Record(2, 12 * MS, "a", 1, 1),  # a duplicate
    Record(4, 250 * MS, "a", 2, WINDOW_NS),
    Record(7, 260 * MS, "b", 0, 5),  # in the first window
]
FIRST_A, SECOND_A, FIRST_B = (0, "a"), (WINDOW_NS, "a"), (0, "b")


def test_truth_has_no_duplicates() -> None:
    known = count_truth(RAW, {})
    assert known.events == {FIRST_A: 2, SECOND_A: 1, FIRST_B: 1}
    assert known.records == {FIRST_A: 3, SECOND_A: 1, FIRST_B: 1}


def test_truth_corrects_wrong_clocks() -> None:
    known = count_truth(RAW, {"b": -WINDOW_NS})
    assert known.events == {FIRST_A: 2, SECOND_A: 1, (WINDOW_NS, "b"): 1}


def test_clock_is_that_of_record_before() -> None:
    assert [clock_at(RAW, end) // MS for end in (1, 3, 4, 5, 8, 100)] == [10, 12, 12, 250, 260, 260]


def test_errors_are_counted_by_kind() -> None:
    """A raw query counts the duplicate and misses b; the ordered one misses one event of a."""
    raw = Closed({FIRST_A: (3, 450 * MS), SECOND_A: (1, 900 * MS)}, 7)
    ours = Closed({FIRST_A: (1, 250 * MS), FIRST_B: (1, 250 * MS), SECOND_A: (1, 500 * MS)}, 9)
    table = table_of({"raw topic": raw, "ordered topic": ours}, count_truth(RAW, {}), "two")
    assert table.rows == [
        ("raw topic", "1", "20.00", "1", "2", "66.67", "375.0", "500.0", "7"),
        ("ordered topic", "1", "20.00", "0", "1", "33.33", "50.00", "100.0", "9"),
    ]
    assert table.title == "two: 3 windows of 200 ms, 5 records"
