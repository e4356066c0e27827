"""The laws of all operators (tests/laws), for joins: they hold events beyond letting them pass, so
the balance is another; the rest is the same."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.kit.runs import cut
from tests.laws import test_laws as laws
from tests.laws.cases import Case
from tests.seeds import seeds_of_today
from tests.topology.join.cases import JOINS
from topology.join.operator import QUERY
from topology.model.event import DATA
from topology.model.saved import SHAPES

SHARED = [
    laws.test_the_same_answer_however_the_input_is_cut,
    laws.test_looking_at_the_clock_changes_nothing,
    laws.test_before_the_deadline_nothing_happens,
    laws.test_a_restart_changes_nothing,
    laws.test_an_end_after_a_restart_is_that_of_an_unbroken_run,
    laws.test_all_changes_in_turn_make_the_snapshot,
    laws.test_bounds_hold_at_every_step,
    laws.test_time_does_not_go_back,
    laws.test_watermarks_keep_their_word,
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
def test_all_events_pass_and_what_is_held_is_let_go_once(case: Case) -> None:
    for seed in SEEDS:
        run = laws.Run(case, seed, cut)
        for _ in run.steps():
            assert [one.offset for one in run.released] == [one.offset for one in run.taken]
            let_go = [event.offset for event in run.freed]
            held = [one.offset for one in run.operator.iter_held()]
            assert all(one.held_by for one in run.operator.iter_held())
            holding = {one.offset for one in run.taken if one.held_by}
            assert holding == set(held)
            assert len(held) == len(holding)
            assert not holding & set(let_go)
        run.end()
        let_go = [event.offset for event in run.freed]
        assert not list(run.operator.iter_held())
        assert all(key.endswith((QUERY, SHAPES)) for key in run.operator.snapshot())
        assert all(one.held_by == 0 for one in run.released)
        assert max(Counter(let_go).values(), default=1) == 1
        assert let_go
        assert {one.offset for one in run.taken if one.kind == DATA} >= set(let_go)


@pytest.mark.in_turns(3)
@pytest.mark.slow
@every_case
def test_figures_are_kept_up_through_restarts(case: Case) -> None:
    """What is retained; the counts may begin anew.

    A restart may let go sooner of an event that a newer one has replaced as a partner (as of).
    """
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
