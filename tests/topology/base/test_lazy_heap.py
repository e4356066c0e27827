"""Law: a lazy heap finds the smallest key of a sorted list, and does not grow by stale entries."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest

from tests.seeds import seeds_of_today
from topology.base.idle import LongestIdle
from topology.base.lazy_heap import SPARE
from topology.base.operator import NEVER


class Keys:
    """A lazy heap of names beside a dict of their keys; times of last input are the keys."""

    def __init__(self) -> None:
        self.table: dict[str, SimpleNamespace] = {}
        self.heap = LongestIdle(self.table)

    def change(self, name: str, key: int) -> None:
        """Change the key of a name; the heap learns it only if the key is new or falls."""
        known = self.table.setdefault(name, SimpleNamespace(last_arrival_ns=NEVER))
        if key < known.last_arrival_ns:
            self.heap.push(key, name)
        known.last_arrival_ns = key

    def sort(self) -> list[tuple[int, str]]:
        return sorted((each.last_arrival_ns, name) for name, each in self.table.items())


@pytest.mark.parametrize("seed", seeds_of_today(10))
def test_lazy_heap_matches_sorted_list(seed: int) -> None:
    rng = Random(seed)
    keys = Keys()
    for _ in range(2_000):
        what, name = rng.random(), str(rng.randrange(20))
        if what < 0.6:
            keys.change(name, rng.randrange(50))
        elif what < 0.7:
            keys.table.pop(name, None)
        elif what < 0.75:
            keys.heap.rebuild(keys.table)
        else:
            expected = keys.sort()[:1]
            before = rng.choice((NEVER, rng.randrange(50)))
            first = keys.heap.first(before)
            assert first == next((each for each in expected if each[0] < before), None)
            if first is not None and what < 0.9:
                del keys.table[first[1]]
                keys.heap.pop()
    taken = []
    expected = keys.sort()
    while (first := keys.heap.first()) is not None:
        taken.append(first)
        del keys.table[first[1]]
    assert taken == expected
    assert not keys.heap.entries


def test_pushed_again_leaves_few_entries() -> None:
    keys = Keys()
    for at in range(10 * SPARE):
        keys.change(str(at % 7), -at)
        assert len(keys.heap.entries) <= 2 * 7 + SPARE
    assert keys.heap.first() == keys.sort()[0]


def test_equal_entries_are_corrected_once() -> None:
    """Entries of one name that are equal become one when the key rises."""
    keys = Keys()
    for _ in range(5):
        keys.heap.push(1, "a")
    keys.change("a", 2)
    keys.heap.entries = keys.heap.entries[:5]
    assert keys.heap.first() == (2, "a")
    assert keys.heap.entries == [(2, "a")]
