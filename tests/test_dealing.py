"""Examples: how tests are dealt out to workers; a test is a letter for its kind, and a module."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest

from tests.dealing import QUICK, SLOW, SPARK, dealt

KINDS = {"S": SPARK, "s": SLOW, "q": QUICK}


def hands(tests: Sequence[str], workers: int) -> list[list[str]]:
    """As `worksteal` cuts the list: even shares, from the begin."""
    left = dealt(tests, workers, kind=lambda test: KINDS[test[0]], module=lambda test: test[1])
    found = []
    for place in range(workers):
        share = len(left) // (workers - place)
        found.append(left[:share])
        left = left[share:]
    return found


def test_spark_is_the_first_ones_and_slow_modules_the_others() -> None:
    tests = ["qa", "sb", "sb", "sc", "qd", "Se", "Se", "qf", "qf"]
    assert hands(tests, 3) == [["Se", "Se", "qa"], ["sb", "sb", "qd"], ["sc", "qf", "qf"]]


def test_one_worker_has_the_slow_ones_first() -> None:
    assert hands(["qa", "sb", "Sc"], 1) == [["Sc", "sb", "qa"]]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("tests", [[], ["sa"] * 4, ["Sa"] * 4, ["qa"], ["Sa", "sb", "qc"] * 7])
def test_none_is_lost(tests: list[str], workers: int) -> None:
    assert sorted(chain(*hands(tests, workers))) == sorted(tests)
