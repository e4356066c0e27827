"""Example: a row of the pattern benchmark is measured in a process of its own."""

from __future__ import annotations

import pytest

from benchmarks.patterns import in_a_process


@pytest.mark.slow
def test_a_row_is_measured_alone() -> None:
    row = in_a_process(text="abc", any_=False, within=10, limit=100, disordered=False)
    assert row["current"] == 2_929
