"""From rows and unsure events to values, and how far the truth may lie from them.

`values` by the query's `uncertainty`:

* `plain` (default), `ignore`, `bounds`: those inside by reference time. So counts, and sums of
  whole numbers, are whole.
* `expected`: what is expected, see below.
* `thesis3`: the mean over three windows, shifted by -T, 0 and T, where T is the largest clock
  error near the window, at most `max_error`; `first`, `last` and
  what is no number by reference time.

`expected` beside them, under all but `ignore`: count, sum, avg and stddev of weighted sums, each
unsure event with the probability that it was inside; the others, and what nothing is known of, as
in `values`.

`low` and `high` under all but `ignore`: the extremes over all worlds that leave the window an
event (4.2; None: not known). Reference times and weights look at each event alone, bounds at what
its clock can do to all of its events: so `values` (not those of `thesis3`) and `expected` are taken
into the bounds where they lie outside. Where these are one number, all are that: no world has
another. Where an aggregate has no value, as no event of it is inside, and some world agrees, the
worlds that have one say nothing of it: no value, no bounds, nothing expected, and not sure. (Under
`expected` avg and stddev have a value there.) A result is sure if all its values are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from topology.answer.settings import EXPECTED, IGNORE, THESIS3
from topology.query.numbers import number, quotient
from topology.window.aggregates.sums import free_spread
from topology.window.cells import AggregateRow, Makers, cell_in
from topology.window.settings import WindowSettings
from topology.window.unsure.event import Span, UnsureEvent
from topology.window.unsure.shifts import Spread, spread

Named = dict[str, Any]


class Measured(NamedTuple):
    """By the names of the query's aggregates. Nobody changes these: where nothing is unsure they
    are one and the same."""

    values: Named
    low: Named
    high: Named
    expected: Named
    is_sure: bool


class Measure:
    """Asks the rows of windows, which it never changes."""

    def __init__(self, query: WindowSettings, makers: Makers) -> None:
        self._uncertainty = query.uncertainty
        self._max_error_ns = query.clock.max_error_ns
        self._makers = makers
        self._names = [*query.outputs]
        self._play = query.clock.play

    def plain(self, row: AggregateRow) -> Measured:
        """Return the measures of a window with nothing unsure."""
        values = self._named(row)
        if self._uncertainty == IGNORE or self._makers.is_sure(row):
            return Measured(values, values, values, values, is_sure=True)
        return self._measured(values, dict(values), row, (), free_spread)

    def span(self, row: AggregateRow, unsure: Sequence[UnsureEvent], span: Span) -> Measured:
        """Return those of a span: `row` holds what is far from its edges, `unsure` what is near."""
        certain = row.copy()
        possibles: list[UnsureEvent] = []
        for event in unsure:
            if event.is_certain(span):
                certain.add(event.values, event)
            elif event.is_possible(span):
                possibles.append(event)
        rows = [self._makers.row_of_one(event.values, event) for event in possibles]
        values = self._inside(row, unsure, span)
        expected = dict(values)
        weights = [event.weight(span) for event in possibles]
        for name, (function, at) in zip(self._names, self._makers.parts, strict=True):
            if function.weighs:
                weighted = [(cell_in(one, at), w) for one, w in zip(rows, weights, strict=True)]
                expected[name] = function.weighted(cell_in(certain, at), weighted)
        if self._uncertainty == EXPECTED:
            values = dict(expected)
        elif self._uncertainty == THESIS3:
            values = self._mean_of_three(row, unsure, span)

        def spread_of(sizes: Sequence[int]) -> Spread:
            return spread([*zip(possibles, sizes, strict=True)], span, self._play)

        return self._measured(values, expected, certain, rows, spread_of)

    def blurred(self, row: AggregateRow, inside: Iterable[UnsureEvent]) -> Measured:
        """Return those by reference time alone, where too much was unsure to be kept."""
        values = self._with(row, inside)
        nothing = dict.fromkeys(self._names)
        return Measured(values, nothing, nothing, values, is_sure=False)

    def groups(
        self, row: AggregateRow, certain: AggregateRow, possibles: Sequence[AggregateRow]
    ) -> Measured:
        """Return the values of `row`; bounds where `certain` belongs and each of `possibles`
        may."""
        values = self._named(row)
        return self._measured(values, dict(values), certain, possibles, free_spread)

    def is_possible(self, unsure: Iterable[UnsureEvent], span: Span) -> bool:
        """Return whether any of them may belong to the window."""
        if self._uncertainty == IGNORE:
            return any(event.is_inside(span) for event in unsure)
        return any(event.is_possible(span) for event in unsure)

    # -- values ------------------------------------------------------------------------------------

    def _named(self, row: AggregateRow) -> Named:
        return dict(zip(self._names, self._makers.values(row), strict=True))

    def _with(self, row: AggregateRow, more: Iterable[UnsureEvent]) -> Named:
        together = row.copy()
        for event in more:
            together.add(event.values, event)
        return self._named(together)

    def _inside(self, row: AggregateRow, unsure: Iterable[UnsureEvent], span: Span) -> Named:
        return self._with(row, [each for each in unsure if each.is_inside(span)])

    def _mean_of_three(self, row: AggregateRow, unsure: Sequence[UnsureEvent], span: Span) -> Named:
        shift_ns = min(self._max_error_ns, max((e.error_ns for e in unsure), default=0))
        low, middle, high = (
            self._inside(row, unsure, (span[0] + by_ns, span[1] + by_ns))
            for by_ns in (-shift_ns, 0, shift_ns)
        )
        return {name: mean((low[name], middle[name], high[name])) for name in self._names}

    def _measured(
        self,
        values: Named,
        expected: Named,
        certain: AggregateRow,
        possibles: Sequence[AggregateRow],
        spread_of: Callable[[Sequence[int]], Spread],
    ) -> Measured:
        """Return the values, drawn into their bounds: `certain` belongs, and each of `possibles`
        may. `spread_of`: the smallest and the largest sum of such sizes over all worlds."""
        low: Named = {}
        high: Named = {}
        is_sure = True
        for name, (function, at) in zip(self._names, self._makers.parts, strict=True):
            cell, cells = cell_in(certain, at), [cell_in(one, at) for one in possibles]
            fewest = -1  # how many values each world has at least, where this one has none
            if function.additive:
                least, most = spread_of(function.sizes(cell, cells))
                low[name], high[name] = function.within(cell, cells, least, most)
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
                expected[name] = _within(expected[name], low[name], high[name])
                if self._uncertainty != THESIS3:
                    values[name] = _within(values[name], low[name], high[name])
            else:
                values[name] = expected[name] = low[name]
        return Measured(values, low, high, expected, is_sure)


def _within(value: Any, low: Any, high: Any) -> Any:
    """The nearest that the bounds allow, where they are known."""
    if value is None or number(value) is None:
        return value
    if low is not None and value < low:
        return low
    return high if high is not None and value > high else value


def mean(three: tuple[Any, Any, Any]) -> Any:
    """Return the mean of those that are numbers; the middle one where it is something else."""
    middle = three[1]
    known = [value for value in three if number(value) is not None]
    if not known or (middle is not None and number(middle) is None):
        return middle
    if all(type(value) is int for value in known):
        whole, rest = divmod(sum(known), len(known))
        return quotient(sum(known), len(known)) if rest else whole
    return sum(value / len(known) for value in sorted(known))
