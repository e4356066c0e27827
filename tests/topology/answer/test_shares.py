"""Examples: several queries that read ahead take no more of a processor than there is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from tests.kit.events import copies
from tests.laws.cases_detector import PURE, Ahead
from tests.laws.streams_between import accepted
from topology.answer.budget import Budget, share
from topology.answer.spending import FULL_PPM
from topology.detector.config import DetectorConfig
from topology.detector.detector import behaviour_of
from topology.detector.operator import Detecting
from topology.detector.queries import DetectorQueries

GRANTED = 800_000


def _budget(first_ppm: int, wanted_ppm: int, granted_ppm: int = GRANTED) -> Budget:
    budget = Budget(granted_ppm)
    budget.first_ppm, budget.wanted_ppm = first_ppm, wanted_ppm
    return budget


def _shared(*budgets: Budget, others_ppm: int = 0) -> list[int]:
    share(budgets, others_ppm)
    return [each.allowed_ppm for each in budgets]


def test_who_asks_for_little_gets_it_and_the_others_share_the_rest() -> None:
    dear, cheap = _budget(100_000, 2_000_000), _budget(50_000, 10_000)
    allowed = _shared(dear, cheap)
    assert allowed[1] >= 10_000
    assert allowed[0] == FULL_PPM - 150_000 - 10_000
    both = _shared(_budget(0, 2_000_000), _budget(0, 2_000_000))
    assert both == [FULL_PPM // 2] * 2


def test_shares_are_as_they_are_granted() -> None:
    small, large = _budget(0, 900_000, 300_000), _budget(0, 900_000, 900_000)
    assert _shared(large, small) == [FULL_PPM * 3 // 4, FULL_PPM // 4]


def test_what_the_processor_does_besides_is_not_given_away() -> None:
    assert _shared(_budget(0, 900_000), others_ppm=650_000) == [200_000]
    assert _shared(_budget(100_000, 900_000), others_ppm=900_000) == [0]


def _run(count: int, step_ns: int) -> list[dict[str, Any]]:
    config = DetectorConfig(
        "q", "d", ("key",), GRANTED, answer="speculate", is_ahead=True, newcomers_ns=0
    )
    detecting = [
        Detecting("default", replace(config, query=f"q{n}"), behaviour_of(PURE))
        for n in range(count)
    ]
    queries = DetectorQueries(detecting, 2)
    ahead = Ahead(queries)
    queries.items_cost(step_ns)
    seen: list[dict[str, Any]] = []
    for seed in range(3):
        for event in copies(accepted(seed)):
            ahead.on_batch([event], event.at_ns)
            seen.append(
                {
                    "price": sum(each.load.budget.price_ppm for each in detecting),
                    "first": sum(each.load.budget.first_ppm for each in detecting),
                    "allowed": [each.load.budget.allowed_ppm for each in detecting],
                }
            )
        break
    return seen


def test_together_they_take_no_more_than_there_is() -> None:
    alone, many = _run(1, 1_000_000), _run(4, 1_000_000)
    assert max(each["price"] for each in alone) > 0
    assert any(min(each["allowed"]) < GRANTED for each in many), "there was something to share"
    for before, after in pairwise(many):
        if after["price"] != before["price"]:
            assert after["price"] <= max(FULL_PPM - before["first"], 0) + 4
