"""Example: no test is lost when tests are dealt out to workers. A test here has only a kind and a
module.
"""

from __future__ import annotations

import pytest

from tests.dealing import QUICK, SLOW, SPARK, dealt

KINDS = {"S": SPARK, "s": SLOW, "q": QUICK}


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("tests", [[], ["sa"] * 4, ["Sa"] * 4, ["qa"], ["Sa", "sb", "qc"] * 7])
def test_no_test_is_lost(tests: list[str], workers: int) -> None:
    hands = dealt(tests, workers, lambda test: KINDS[test[0]], lambda test: test[1])
    assert sorted(hands) == sorted(tests)
