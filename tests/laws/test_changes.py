"""Law: changes applied to the last snapshot give the next snapshot, after each single event.

If an operator forgets to mark a change, state is lost after a restart without a warning. In a
larger batch another mark often hides that. So each event here is a batch and a checkpoint. The
streams are those of all laws, and streams with long stretches in order.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.runs import through_changelog
from tests.laws.all_cases import ALL
from tests.laws.cases import Case
from tests.laws.test_laws import Run, one_by_one
from tests.laws.test_plain import CALM
from tests.seeds import seeds_of_today
from topology.base.operator import Operator

SEEDS = seeds_of_today(1)


class Log:
    """A changelog of one operator."""

    def __init__(self) -> None:
        self._table: dict[str, Any] = {}

    def checkpoint(self, operator: Operator) -> None:
        for key, value in operator.changes().items():
            if value is None:
                self._table.pop(key, None)
            else:
                self._table[key] = value
        assert through_changelog(self._table) == through_changelog(operator.snapshot())


@pytest.mark.parametrize("case", [*ALL, *CALM], ids=repr)
def test_changes_give_the_snapshot(case: Case) -> None:
    for seed in SEEDS:
        run, log = Run(case, seed, one_by_one), Log()
        for _ in run.steps():
            log.checkpoint(run.operator)
        run.end()
        log.checkpoint(run.operator)
