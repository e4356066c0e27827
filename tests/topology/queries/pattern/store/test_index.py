"""Law: an index returns the same cut as a search of all entries; and an example of its cost."""

from __future__ import annotations

from random import Random

import pytest

from tests.topology.queries.pattern.generate import entry
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import EntryIndex

ERRORS = (0, 0, 0, 1, 3, 8, 70, 1_000)


@pytest.mark.parametrize("seed", range(40))
def test_cut_matches_search(seed: int) -> None:
    rng, index, held = Random(seed), EntryIndex(), list[Entry]()
    for seq in range(rng.randint(1, 150)):
        error_ns = rng.choice(ERRORS)
        one = entry("A", rng.randrange(500), seq, {}, "s", error_ns=error_ns)
        index.add(one)
        if error_ns:
            index.note_error(one)
        held.append(one)
        if rng.random() < 0.1:
            gone = index.purge(rng.randrange(100))
            held = [each for each in held if each not in gone]
        low_ns = rng.randrange(-50, 550)
        high_ns = low_ns + rng.choice((0, 10, 200))
        inside = [each for each in held if each.low_ns <= high_ns and each.high_ns >= low_ns]
        assert index.find_overlapping(low_ns, high_ns) == sorted(inside, key=lambda each: each.key)


def test_one_error_widens_no_other_cut() -> None:
    """A cut looks at the entries in it, and at those with a similar error."""
    index = EntryIndex()
    for at in range(1_000):
        index.add(entry("A", 10 * at, at, {}, "s"))
    far_off = entry("A", 5_000, 1_000, {}, "off", error_ns=4_000)
    index.add(far_off)
    index.note_error(far_off)
    assert index.find_overlapping(2_000, 2_010) == [*index.entries[200:202], far_off]
    assert [len(alike) for alike in index.unsure.values()] == [1]
    index.purge(8_000)
    assert not index.unsure
