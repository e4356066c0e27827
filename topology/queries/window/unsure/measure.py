"""Computes the values of windows from rows and uncertain events, and bounds of the true values.

`values` depend on the query's `uncertainty`:

* `plain` (default), `ignore`, `bounds`: an event belongs to the windows that contain its corrected
  timestamp. So counts, and sums of integers, are integers.
* `expected`: expected values, see below.
* `thesis3`: the mean over three windows, shifted by -T, 0 and T. T is the largest time error near
  the window, at most `max_error`. `first`, `last` and values that are not numbers are taken by
  corrected timestamp. A window without a value adds 0 to the mean of sums, and is left out of the
  others.

`expected` is computed under all but `ignore`. For count, sum, avg and stddev it uses weighted sums.
The weight of an uncertain event is the probability that it was in the window. For other aggregates,
and for blurred windows, it equals `values`.

`low` and `high` are computed under all but `ignore`. They are the extremes over all possible worlds
in which the window has an event, or None if the extremes are unknown. A possible world is one
choice of event times within their errors, with one error per clock.

Corrected timestamps and weights treat each event alone. Bounds consider the effect of a clock on
all of its events. So `values` (except of `thesis3`) and `expected` are moved into the bounds if
they are outside. If both bounds are equal, `values` and `expected` equal them too, because every
world has this value.

An aggregate has no value if it can use no event in the window. If this is so by corrected
timestamps and in some possible world, then the value, its bounds and the expected value are None.
The result is then uncertain. (Under `expected`, sum, avg and stddev have a value in this case.) A
result is certain if all its values are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from topology.answer.query.numbers import divide, number
from topology.answer.settings import EXPECTED, IGNORE, THESIS3
from topology.queries.window.aggregates.sums import find_free_spread
from topology.queries.window.cells import AggregateRow, Makers, cell_in
from topology.queries.window.settings import WindowQuery
from topology.queries.window.unsure.event import Span, UnsureEvent
from topology.queries.window.unsure.shifts import Spread, spread

Named = dict[str, Any]


class Measured(NamedTuple):
    """The values of a window and their bounds, by the names of the query's aggregates.

    The dictionaries must not be changed, because all four are one object if all values are certain.
    """

    values: Named
    low: Named
    high: Named
    expected: Named
    is_sure: bool


class Measure:
    """A calculator of a query's values, bounds and expected values; it never changes a row."""

    def __init__(self, query: WindowQuery, makers: Makers) -> None:
        self._uncertainty = query.uncertainty
        self._max_error_ns = query.clock.max_error_ns
        self._makers = makers
        self._names = query.of_cells
        self._play = query.clock.play

    def plain(self, row: AggregateRow) -> Measured:
        """Return the values of a window without uncertain events."""
        values = self._name(row)
        if self._uncertainty == IGNORE or self._makers.is_sure(row):
            return Measured(values, values, values, values, is_sure=True)
        return self._measure(values, dict(values), row, (), find_free_spread)

    def span(self, row: AggregateRow, unsure: Sequence[UnsureEvent], span: Span) -> Measured:
        """Return the values of a span and their bounds.

        `row` has the events far from the edges of the span, and `unsure` those near them.
        """
        certain = row.copy()
        possibles: list[UnsureEvent] = []
        for event in unsure:
            if event.is_certain(span):
                certain.add(event.values, event)
            elif event.is_possible(span):
                possibles.append(event)
        rows = [self._makers.make_row_of_one(event.values, event) for event in possibles]
        values = self._name(self._add_inside(row, unsure, span))
        expected = dict(values)
        weights = [event.weight(span) for event in possibles]
        for name, (function, at) in zip(self._names, self._makers.parts, strict=True):
            if function.weighs:
                weighted = [(cell_in(one, at), w) for one, w in zip(rows, weights, strict=True)]
                expected[name] = function.weight(cell_in(certain, at), weighted)
        if self._uncertainty == EXPECTED:
            values = dict(expected)
        elif self._uncertainty == THESIS3:
            values = self._mean_of_three(row, unsure, span)

        def spread_of(sizes: Sequence[int]) -> Spread:
            return spread([*zip(possibles, sizes, strict=True)], span, self._play)

        return self._measure(values, expected, certain, rows, spread_of)

    def measure_blurred(self, row: AggregateRow, inside: Iterable[UnsureEvent]) -> Measured:
        """Return the values by corrected timestamp, for a window with too many uncertain events."""
        values = self._name(self._add_events(row, inside))
        nothing = dict.fromkeys(self._names)
        return Measured(values, nothing, nothing, values, is_sure=False)

    def groups(
        self, row: AggregateRow, certain: AggregateRow, possibles: Sequence[AggregateRow]
    ) -> Measured:
        """Return the values of `row`, and bounds over the groups that may belong.

        The events of `certain` belong to the window in any case, and each group of `possibles` may.
        """
        values = self._name(row)
        return self._measure(values, dict(values), certain, possibles, find_free_spread)

    def is_possible(self, unsure: Iterable[UnsureEvent], span: Span) -> bool:
        """Return whether any of the `unsure` events may belong to the span."""
        if self._uncertainty == IGNORE:
            return any(event.is_inside(span) for event in unsure)
        return any(event.is_possible(span) for event in unsure)

    # -- Values ------------------------------------------------------------------------------------

    def _name(self, row: AggregateRow) -> Named:
        return dict(zip(self._names, self._makers.values(row), strict=True))

    def _add_events(self, row: AggregateRow, more: Iterable[UnsureEvent]) -> AggregateRow:
        together = row.copy()
        for event in more:
            together.add(event.values, event)
        return together

    def _add_inside(
        self, row: AggregateRow, unsure: Iterable[UnsureEvent], span: Span
    ) -> AggregateRow:
        return self._add_events(row, [each for each in unsure if each.is_inside(span)])

    def _mean_of_three(self, row: AggregateRow, unsure: Sequence[UnsureEvent], span: Span) -> Named:
        shift_ns = min(self._max_error_ns, max((e.error_ns for e in unsure), default=0))
        rows = [
            self._add_inside(row, unsure, (span[0] + by_ns, span[1] + by_ns))
            for by_ns in (-shift_ns, 0, shift_ns)
        ]
        found: Named = {}
        for name, (function, at) in zip(self._names, self._makers.parts, strict=True):
            cells = [cell_in(each, at) for each in rows]
            three = [function.value(cell) for cell in cells]
            if function.additive and any(value is not None for value in three):
                three = [
                    0 if value is None and not cell.n else value
                    for value, cell in zip(three, cells, strict=True)
                ]
            found[name] = mean(three)
        return found

    def _measure(
        self,
        values: Named,
        expected: Named,
        certain: AggregateRow,
        possibles: Sequence[AggregateRow],
        spread_of: Callable[[Sequence[int]], Spread],
    ) -> Measured:
        """Return the values, moved into their bounds, and the bounds.

        The events of `certain` belong to the window, and each group of `possibles` may. `spread_of`
        takes the sizes that the groups add. It returns the smallest and the largest sum over all
        possible worlds.
        """
        low: Named = {}
        high: Named = {}
        is_sure = True
        for name, (function, at) in zip(self._names, self._makers.parts, strict=True):
            cell, cells = cell_in(certain, at), [cell_in(one, at) for one in possibles]
            # The least number of values in any world, if `values` has none; otherwise -1.
            fewest = -1
            if function.additive:
                least, most = spread_of(function.amounts_of(cell, cells))
                low[name], high[name] = function.bounds_from_amounts(cell, cells, least, most)
            else:
                low[name], high[name] = function.bounds(cell, cells)
            if values[name] is None:
                has_value = [function.value(one) is not None for one in cells]
                fewest = spread_of(has_value)[0] if any(has_value) else -1
            if fewest == 0:
                low[name] = high[name] = expected[name] = None
                is_sure = False
            elif low[name] is None or low[name] != high[name]:
                is_sure = is_sure and low[name] is high[name] is values[name] and fewest < 0
                expected[name] = _clamp(expected[name], low[name], high[name])
                if self._uncertainty != THESIS3:
                    values[name] = _clamp(values[name], low[name], high[name])
            else:
                values[name] = expected[name] = low[name]
        return Measured(values, low, high, expected, is_sure)


def _clamp(value: Any, low: Any, high: Any) -> Any:
    """Return the value, or the bound that it violates; a bound of None is ignored."""
    if value is None or number(value) is None:
        return value
    if low is not None and value < low:
        return low
    return high if high is not None and value > high else value


def mean(three: Sequence[Any]) -> Any:
    """Return the mean of those of the three values that are numbers.

    If none is a number, or if the second is a value that is not a number, return the second.
    """
    middle = three[1]
    known = [value for value in three if number(value) is not None]
    if not known or (middle is not None and number(middle) is None):
        return middle
    if all(type(value) is int for value in known):
        whole, rest = divmod(sum(known), len(known))
        return divide(sum(known), len(known)) if rest else whole
    return sum(value / len(known) for value in sorted(known))
