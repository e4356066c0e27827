"""Examples and a law: what is named often is in the table, which stays small."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from agents.watch.frequent import Frequent, Named

MOST = 20


@pytest.mark.parametrize("seed", range(5))
def test_what_makes_more_than_its_part_is_there_and_is_never_counted_too_high(seed: int) -> None:
    rng = Random(seed)
    table = Frequent(MOST)
    noted: Counter[str] = Counter()
    for _ in range(4_000):
        name = f"often-{rng.randrange(5)}" if rng.random() < 0.5 else f"s{rng.randrange(3_000)}"
        noted[name] += 1
        table.note(("stream", name), 3)
        assert len(table) <= MOST
    found = {name: named for (_, name), named in table}
    for name, times in noted.items():
        if times > 4_000 / MOST:
            assert name in found
    for name, named in found.items():
        assert 0 < named.weight <= named.times <= noted[name]
        assert named.amount == 3 * named.times


def test_while_there_is_room_all_is_exact() -> None:
    table = Frequent(2)
    for source, amount in (("a", 5), ("b", 1), ("a", 2)):
        table.note(("", source), amount)
    assert table.of(("", "a")) == Named(weight=2, times=2, amount=7)
    assert table.of(("", "c")) == Named()
    table.note(("", "c"))
    assert list(table.sources()) == [("", "a")], "each gave up one, b its last"
