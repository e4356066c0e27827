"""Example: a run of minutes reports where they went, and a short run does not."""

from __future__ import annotations

import pytest

from tests.progress import NAMED_SLOWEST, where_it_went


def spent(test: str, duration_s: float) -> pytest.TestReport:
    return pytest.TestReport(
        f"tests/{test}", ("", 0, ""), {}, "passed", None, "call", (), duration_s
    )


def test_seconds_are_shown_by_room_and_test() -> None:
    reports = [spent("a/test_a.py::one", 20.0), spent("a/test_a.py::one", 10.0)]
    reports += [spent(f"b/c/test_c.py::{number}", 2.0) for number in range(14)]
    assert where_it_went(reports) == []
    whole, *slowest = where_it_went([*reports, spent("test_d.py::last", 3.0)])
    assert whole == "seconds of tests: 61 in all; a 30, b 28, test_d.py 3"
    assert slowest[:2] == ["  30.0 s tests/a/test_a.py::one", "   3.0 s tests/test_d.py::last"]
    assert len(slowest) == NAMED_SLOWEST
