"""Oracle: runs of places match a dict with an entry for each input."""

from __future__ import annotations

from random import Random

from tests.seeds import seeds_of_today
from topology.records.places import RUNS_UNUSED, Place, Places


def test_law_runs_match_their_places() -> None:
    for seed in seeds_of_today(20):
        rng = Random(seed)
        places, plain, number = Places(), dict[int, Place](), 1
        for _ in range(60):
            count, partition = rng.choice((0, 1, 1, 5, 40)), rng.choice((0, 1, "x"))
            offset = rng.randrange(500)
            places.add(number, count, partition, offset)
            plain |= {number + at: (partition, offset + at) for at in range(count)}
            number += count
            if rng.random() < 0.3:
                share = rng.choice((0.0, 0.1, 0.9, 1.0))
                held = [each for each in range(number + 2) if rng.random() < share]
                rng.shuffle(held)
                places.keep(held + held[:3])
                plain = {at: place for at, place in plain.items() if at in set(held)}
            if rng.random() < 0.2:
                places = Places(places.as_mapping())
            assert places.as_mapping() == plain
            for wanted in (0, 1, "x", "y"):
                offsets = [at for where, at in plain.values() if where == wanted]
                assert places.least(wanted) == min(offsets, default=None)


def test_backlog_is_kept_in_few_runs() -> None:
    places = Places()
    for first in range(1, 10_001, 100):
        places.add(first, 100, 0, first)
    places.keep(range(50, 10_000))
    assert len(places) == 100
    assert not places.is_full
    for first in range(10_001, 10_001 + 100 + RUNS_UNUSED):
        places.add(first, 1, 0, first)
    assert places.is_full
