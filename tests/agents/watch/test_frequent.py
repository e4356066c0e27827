"""Examples and laws: what weighs the most is in the table, which stays small, and what is told of
it may be off by no more than is said."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from agents.watch.frequent import Frequent, Weighed

MOST = 20
NOTES = 4_000


def noted(rng: Random) -> tuple[Frequent, Counter[str], Counter[str]]:
    """A full table, and what there was in all: amounts and times."""
    table = Frequent(MOST)
    amounts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    most = rng.choice((1, 30))
    for _ in range(NOTES):
        name = f"often-{rng.randrange(5)}" if rng.random() < 0.5 else f"s{rng.randrange(3_000)}"
        amount = rng.randint(1, most)
        amounts[name] += amount
        times[name] += 1
        table.note(("stream", name), amount)
        assert len(table._table) <= MOST
    return table, amounts, times


@pytest.mark.parametrize("seed", range(10))
def test_what_makes_more_than_its_part_is_always_there(seed: int) -> None:
    table, amounts, _ = noted(Random(seed))
    found = {name for _, name in table._table}
    above = {name for name, amount in amounts.items() if amount > amounts.total() / MOST}
    assert above
    assert above <= found


@pytest.mark.parametrize("seed", range(10))
def test_what_was_noted_lies_between_what_is_told_and_its_error(seed: int) -> None:
    table, amounts, times = noted(Random(seed))
    assert sum(named.count for named in table._table.values()) == amounts.total()
    for name in [*amounts, "never"]:
        named = table.of(("stream", name))
        assert named.amount <= amounts[name] <= named.count
        assert named.times <= times[name]
        assert named.error <= amounts.total() / MOST


@pytest.mark.parametrize("seed", range(3))
def test_one_ten_times_as_often_is_found_among_ten_thousand(seed: int) -> None:
    """With the least room that is certain to do, half as much again."""
    rng = Random(seed)
    names = [f"s{number}" for number in range(10_000) for _ in range(5)] + ["bad"] * 50
    rng.shuffle(names)
    table = Frequent(1_502)
    for name in names:
        table.note(("stream", name))
    assert table.worst(1)[0][1] == ("stream", "bad")


def test_while_there_is_room_all_is_exact_and_a_newcomer_takes_the_place_of_the_least() -> None:
    table = Frequent(2)
    for source, amount in (("a", 5), ("b", 1), ("a", 2)):
        table.note(("", source), amount)
    assert table.of(("", "a")) == Weighed(amount=7, times=2)
    assert table.of(("", "c")) == Weighed()
    assert table.note(("", "c")) == Weighed(amount=1, times=1, error=1)
    assert table.of(("", "b")) == Weighed(error=2), "may be as much as c's"
    assert table.worst(5) == [(7, ("", "a")), (1, ("", "c"))]
