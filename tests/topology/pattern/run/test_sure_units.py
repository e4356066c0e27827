"""Law: the units that an event may put in doubt are those that a look at each would find."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.topology.pattern.generate import entry
from topology.model.result import CONFIRMED, UNCERTAIN
from topology.pattern.match.match import Match
from topology.pattern.run.affect import SureUnits
from topology.pattern.run.unit import FoundMatch, MatchUnit

ERRORS = (0, 0, 2, 9, 300)


NOBODY: Any = None
"""No unit here is looked at again."""


def _members(rng: Random, seq: int) -> Match:
    first_ns = rng.randrange(1_000)
    times = [first_ns, first_ns + rng.choice((0, 1, 20, 400))]
    pair = [
        (entry("A", ns, seq, {}, source, error_ns=rng.choice(ERRORS)),)
        for ns, source in zip(times, "ab", strict=True)
    ]
    return Match(0, tuple(pair))


@pytest.mark.parametrize("seed", range(40))
def test_they_are_those_that_are_sure_and_near(seed: int) -> None:
    rng, sure, units = Random(seed), SureUnits(), dict[int, MatchUnit]()
    for seq in range(120):
        match = _members(rng, seq)
        unit = units[seq] = MatchUnit(match.first, NOBODY)
        unit.found["x"] = FoundMatch(match, 0, rng.choice((CONFIRMED, CONFIRMED, UNCERTAIN)))
        sure.note(unit)
        changed = units[rng.choice(list(units))]
        if rng.random() < 0.3:
            changed.found["x"] = FoundMatch(changed.found["x"].match, 0, UNCERTAIN)
            sure.note(changed)
        elif rng.random() < 0.2:
            units = {at: each for at, each in units.items() if each is not changed}
            sure.drop(changed.anchor.key)
        new_entry = entry("B", rng.randrange(1_400), seq, {}, "n", error_ns=rng.choice(ERRORS))
        within_ns = rng.choice((1, 30))
        found = {unit.anchor.key for unit in sure.around(new_entry, within_ns)}
        assert found == {
            unit.anchor.key
            for unit in units.values()
            if unit.found["x"].confidence == CONFIRMED
            and any(
                e.high_ns >= new_entry.low_ns - within_ns for (e,) in unit.found["x"].match.bound
            )
            and any(
                e.low_ns <= new_entry.high_ns + within_ns for (e,) in unit.found["x"].match.bound
            )
        }
    for unit in units.values():
        sure.drop(unit.anchor.key)
    assert not sure.around(entry("B", 700, -1, {}, "n"), 1 << 40)
