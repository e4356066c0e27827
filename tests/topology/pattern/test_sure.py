"""Law: how sure a match is stops at the first doubt; held against asking all there is to ask."""

from __future__ import annotations

import dataclasses

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import fed
from tests.topology.pattern.generate import dice, random_query, random_stream, shuffled
from tests.topology.pattern.unparse import unparse
from topology.pattern.compile.grading import YES
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.evaluation import Place
from topology.pattern.match.match import Match
from topology.pattern.match.uncertain import grade
from topology.pattern.match.uncertain.case import Case
from topology.pattern.match.uncertain.grade import Grading, is_sure, valid
from topology.pattern.tree.syntax import Uncertain

SEEDS = seeds_of_today(240)
PARTS = 4
WAYS: tuple[Uncertain, ...] = ("nominal", "nominal", "possible")


class Holding(Grading):
    """A grading that asks both ways."""

    def __init__(self, grading: Grading, about: str) -> None:
        super().__init__(grading.layouts)
        self._about = about
        self.told = [0, 0]

    def confidence(self, place: Place, match: Match) -> str:
        case = Case(self.layouts[match.alternative], place, match.bound)
        sure = is_sure(case)
        assert sure == (valid(case, is_nominal=True) == YES), (self._about, match)
        self.told[sure] += 1
        return super().confidence(place, match)


@pytest.mark.skipif(not str(grade.__file__).endswith(".py"), reason="compiled: none other fits in")
@pytest.mark.parametrize("part", range(PARTS))
def test_the_first_doubt_is_enough(part: int) -> None:
    told = [0, 0]
    for seed, rng in dice(SEEDS[part::PARTS]):
        asked = random_query(rng, open_ended=rng.random() < 0.2)
        uncertain = rng.choice(WAYS)
        query = Compiled(dataclasses.replace(asked, uncertain=uncertain))
        assert query.grading is not None
        holding = Holding(query.grading, f"seed {seed}\n{unparse(asked)}")
        query.grading = holding
        stream = random_stream(rng, largest=9, errors=rng.choice(((0, 0, 1), (1, 3))), unit_ns=2)
        fed([query], shuffled(rng, stream, 0.3, 0.0))
        told = [one + other for one, other in zip(told, holding.told, strict=True)]
    assert min(told) > 0
