"""Laws of all operators (tests/laws), for joins. A join holds events after it has passed them on,
so their balance differs; the rest is the same.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.kit.runs import cut
from tests.laws import test_laws as laws
from tests.laws.cases import Case
from tests.seeds import seeds_of_today
from tests.topology.queries.join.cases import JOINS
from topology.base.event import DATA
from topology.queries.join.operator import QUERY
from topology.state.saved import SHAPES

SHARED = [
    laws.test_batches_do_not_change_output,
    laws.test_ticks_do_not_change_output,
    laws.test_deadline_is_not_too_late,
    laws.test_restart_changes_nothing,
    laws.test_restart_just_before_end,
    laws.test_changes_give_the_snapshot,
    laws.test_bounds_hold_at_each_step,
    laws.test_time_does_not_go_back,
    laws.test_watermarks_are_never_broken,
]

SEEDS = seeds_of_today(2)

every_case = pytest.mark.parametrize("case", JOINS, ids=repr)


@pytest.mark.in_turns(3)
@pytest.mark.slow
@every_case
@pytest.mark.parametrize("law", SHARED, ids=lambda law: law.__name__)
def test_law(law: laws.Law, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "SEEDS", SEEDS)
    law(case)  # type: ignore[call-arg]


@every_case
def test_held_events_are_freed_once(case: Case) -> None:
    for seed in SEEDS:
        run = laws.Run(case, seed, cut)
        for _ in run.steps():
            assert [one.offset for one in run.released] == [one.offset for one in run.taken]
            let_go = [event.offset for event in run.freed]
            held = [one.offset for one in run.operator.iter_held()]
            holding = {one.offset for one in run.keeping.events}
            assert holding == set(held)
            assert len(held) == len(holding)
            assert not holding & set(let_go)
        run.end()
        let_go = [event.offset for event in run.freed]
        assert not list(run.operator.iter_held())
        assert all(key.endswith((QUERY, SHAPES)) for key in run.operator.snapshot())
        assert not run.keeping.events
        assert max(Counter(let_go).values(), default=1) == 1
        assert let_go
        assert {one.offset for one in run.taken if one.kind == DATA} >= set(let_go)


@pytest.mark.in_turns(3)
@pytest.mark.slow
@every_case
def test_restarts_keep_retained_events(case: Case) -> None:
    """In an as-of join, a restart can free events sooner that a newer partner has replaced."""
    for seed in SEEDS:
        steady, shaken = (laws.Run(case, seed, laws.one_by_one) for _ in range(2))
        rng = Random(seed)
        for _ in zip(steady.steps(), shaken.steps(), strict=True):
            if rng.random() < 0.3:
                shaken.restart()
            fewer = _retained(steady) - _retained(shaken)
            assert fewer >= 0 if "as of" in case.name else fewer == 0


def _retained(run: laws.Run) -> int:
    return run.operator.figures()["retained"]
