"""Laws: an aggregate is the same in any order of values, and its bounds hold for all choices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from math import fsum, isclose
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.runs import through_changelog
from tests.topology.queries.window.streams import event
from topology.answer.query.numbers import (
    WHOLE_WEIGHT,
    root_of_quotient,
    scalar_of,
    text_of,
    to_json_number,
)
from topology.queries.window.aggregates.built_in import BUILT_IN, RANKED, TIME_AVG
from topology.queries.window.aggregates.scalars import MAX_DISTINCT, Distinct
from topology.queries.window.aggregates.sketch import RELATIVE_ERROR, Quantile, bucket_of, value_in
from topology.queries.window.aggregates.tally import Squares, Tally
from topology.queries.window.cells import Makers, cell_in, row_kind
from topology.queries.window.settings import Aggregate

FUNCTIONS = sorted(BUILT_IN.keys() - {TIME_AVG})
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e307, max_value=1e307),
    st.integers(-(10**30), 10**30),
)


class One:
    """A row of one aggregate that is read and changed as a whole."""

    def __init__(self, function: str) -> None:
        self.makers = Makers([Aggregate(function, (), 700_000)], {})
        self.row = self.makers.row()
        self.function, self.place = self.makers.parts[0]

    @property
    def cell(self) -> Any:
        return cell_in(self.row, self.place)

    def value(self) -> Any:
        return self.makers.values(self.row)[0]

    def bounds(self, possibles: Sequence[One]) -> tuple[Any, Any]:
        before = repr(row_kind(self.makers).dump(self.row))
        found = self.function.bounds(self.cell, [each.cell for each in possibles])
        assert repr(row_kind(self.makers).dump(self.row)) == before
        return found

    def weighted(self, possibles: Sequence[tuple[One, int]]) -> Any:
        return self.function.weight(self.cell, [(each.cell, w) for each, w in possibles])


def cell_of(function: str, values: list[Any], order: list[int] | None = None) -> One:
    """Return a row with values at 0, 1, 2 … ms, added in the given order.

    Values with a rank are ranked by their remainder modulo 7, so that ranks tie.
    """
    one = One(function)
    if function in RANKED:
        values = [(value, value % 7) for value in values]
    for at in order if order is not None else range(len(values)):
        one.row.add((values[at],) * len(one.row.cells), event("s", at, at))
    return one


EXACT = ("avg", "min", "max", "quantile")
"""Aggregates whose bounds are reached by some choice of the uncertain events."""


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=40, deadline=None)
@given(values=st.lists(NUMBERS, max_size=12), seed=st.integers(0, 99))
def test_order_and_grouping_do_not_matter(function: str, values: list[Any], seed: int) -> None:
    rng = Random(seed)
    order = rng.sample(range(len(values)), len(values))
    one = cell_of(function, values)
    other = cell_of(function, values, order)
    parts = [cell_of(function, values, order[i::3]) for i in range(3)]
    together, again = One(function), One(function)
    together.row = parts[2].row.copy()
    together.row.merge(parts[0].row)
    together.row.merge(parts[1].row)
    kind = row_kind(again.makers)
    again.row = kind.load(through_changelog(kind.dump(one.row)), None, "")
    for cell in (other, together, again):
        assert repr(cell.value()) == repr(one.value())
        assert repr(cell.bounds(())) == repr(one.bounds(()))


@pytest.mark.parametrize("make", [Tally, Squares])
@given(values=st.lists(NUMBERS, min_size=1, max_size=6))
def test_values_at_once_match_one_by_one(make: type[Tally], values: list[Any]) -> None:
    at_once, one_by_one = make(), make()
    at_once.take(values)
    for value in values:
        one_by_one.add(value, None)
    assert repr(at_once.dump()) == repr(one_by_one.dump())


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_sums_are_exact_to_the_last_bit(values: list[float]) -> None:
    assert float(cell_of("sum", values).value()) == fsum(values)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_bounds_hold_for_every_choice(function: str) -> None:
    """For the aggregates in `EXACT`, some choice reaches each bound."""
    for seed in range(60):
        rng = Random(seed)
        values = [rng.choice((-3, -1, 0, 0.5, 2, 2, 7, 40)) for _ in range(rng.randint(1, 7))]
        certain = rng.randint(0, len(values))
        possibles = [cell_of(function, values, [at]) for at in range(certain, len(values))]
        low, high = cell_of(function, values, list(range(certain))).bounds(possibles)
        reached = []
        for n in range(len(possibles) + 1):
            if certain or n:
                reached += [
                    cell_of(function, values, [*range(certain), *extra]).value()
                    for extra in combinations(range(certain, len(values)), n)
                ]
        if low is None:
            assert function in ("first", "last", *RANKED)
            assert len(set(reached)) > 1 or possibles
            continue
        assert all(low <= value <= high for value in reached), (seed, low, high, reached)
        if function in EXACT:
            assert (min(reached), max(reached)) == (low, high), seed


@pytest.mark.parametrize("function", ["count", "sum", "avg", "stddev"])
def test_half_an_event_counts_half(function: str) -> None:
    """Two values of half weight count as one."""
    values = [3, 5, 8.5]
    halves = [(cell_of(function, values, [at]), WHOLE_WEIGHT // 2) for at in (1, 2)]
    found = cell_of(function, values, [0]).weighted(halves)
    weights = [1.0, 0.5, 0.5]
    total = sum(w * v for w, v in zip(weights, values, strict=True))
    mean = total / 2
    spread = sum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True)) / 2
    expected = {"count": 2, "sum": total, "avg": mean, "stddev": spread**0.5}
    assert isclose(found, expected[function])


@given(st.floats(-1e307, 1e307))
def test_bucket_stays_within_relative_error(value: float) -> None:
    middle = value_in(bucket_of(value))
    assert abs(middle - value) <= RELATIVE_ERROR * 1.000001 * abs(value) + 1e-300


@given(st.floats(-1e307, 1e307), st.floats(-1e307, 1e307))
def test_buckets_are_in_order_of_values(one: float, other: float) -> None:
    if one < other:
        assert bucket_of(one) <= bucket_of(other)


def test_quantile_of_known_values_is_close() -> None:
    cell = Quantile(990_000)
    for value in Random(1).sample(range(1, 10_001), 10_000):
        cell.add(value, None)
    assert isclose(cell.value(), 9_900, rel_tol=RELATIVE_ERROR)
    assert len(cell.buckets) < 500


SHARES = st.integers(0, 1_000_000)
ENDS = {0: min, 1_000_000: max}


def sketch_of(ppm: int, values: Sequence[Any]) -> Quantile:
    cell = Quantile(ppm)
    for value in values:
        cell.add(value, None)
    return cell


@given(st.lists(NUMBERS, min_size=1, max_size=12), SHARES)
def test_quantile_is_within_the_extremes(values: list[Any], ppm: int) -> None:
    values = [to_json_number(value) for value in values]
    low, high = min(values), max(values)
    found = sketch_of(ppm, values).value()
    exact = sorted(values)[(len(values) - 1) * ppm // 1_000_000]
    assert low <= found <= high
    assert abs(found - exact) <= RELATIVE_ERROR * 1.000001 * abs(exact) + 1e-300
    for end, of_all in ENDS.items():
        assert sketch_of(end, values).value() == of_all(values)
    assert sketch_of(ppm, values[:1]).value() == values[0]


@given(SHARES, st.integers(0, 999_999))
def test_quantile_of_few_is_exact(ppm: int, seed: int) -> None:
    """No bucket has more than two of the values."""
    values = [*range(1, 49), *range(1, 49)]
    Random(seed).shuffle(values)
    assert sketch_of(ppm, values).value() == sorted(values)[(len(values) - 1) * ppm // 1_000_000]


POOLS = [(10, 10.05, 10.1, 10.15, 10.19, 9.9), (100, 100.1, 100.4, 101, 99, -100), (2, 2, 7)]


@pytest.mark.parametrize("most", [1, 4])
def test_quantile_bounds_hold_in_a_bucket(most: int) -> None:
    """If each possible cell has one value, some choice reaches each bound."""
    for seed in range(150):
        rng = Random(seed)
        pool, ppm = rng.choice(POOLS), rng.choice((0, 100_000, 500_000, 900_000, 1_000_000))
        certain = rng.choices(pool, k=rng.randint(0, 5))
        groups = [rng.choices(pool, k=rng.randint(1, most)) for _ in range(rng.randint(1, 5))]
        cells = [sketch_of(ppm, group) for group in groups]
        low, high = sketch_of(ppm, certain).bounds(cells)
        reached = [
            sketch_of(ppm, [*certain, *chain(*extra)]).value()
            for n in range(0 if certain else 1, len(groups) + 1)
            for extra in combinations(groups, n)
        ]
        assert low <= min(reached) <= max(reached) <= high, seed
        if most == 1:
            assert (min(reached), max(reached)) == (low, high), seed


def test_distinct_count_becomes_lower_bound() -> None:
    one, other = Distinct(), Distinct()
    for value in range(MAX_DISTINCT):
        one.add(value, None)
        other.add(-value, None)
    assert one.bounds(()) == (MAX_DISTINCT, MAX_DISTINCT)
    one.merge(other)
    assert one.bounds(()) == (MAX_DISTINCT, None)
    assert one.seen is None


@given(st.one_of(st.text(), st.booleans(), st.integers(), st.floats(-1e300, 1e300)))
def test_scalar_survives_its_text(value: Any) -> None:
    again = scalar_of(text_of(value))
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        assert again == float(value)  # JSON carries it only as a double.
    else:
        assert again == value
    assert isinstance(again, bool) == isinstance(value, bool)


@given(st.integers(0, 10**40), st.integers(1, 10**20))
def test_roots_are_right_and_never_fall(total: int, divisor: int) -> None:
    found = root_of_quotient(total, divisor)
    assert found is not None
    assert isclose(found, (total / divisor) ** 0.5, rel_tol=1e-14)
    larger = root_of_quotient(total + 1, divisor)
    assert larger is not None
    assert larger >= found
