"""From rows and unsure events to values, and how far the truth may lie from them.

`values` by the query's `uncertainty`:

* `plain` (default), `ignore`, `bounds`: those inside by reference time. So counts, and sums of
  whole numbers, are whole.
* `expected`: what is expected, see below.
* `thesis3`: the mean over three windows, shifted by -T, 0 and T, where T is the largest clock
  error near the window, at most `max_error` (reorder_drift_merge.md 4.1); `first`, `last` and
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

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from topology.answer.settings import EXPECTED, IGNORE, THESIS3
from topology.query.numbers import number, quotient
from topology.window.cells import Makers
from topology.window.row import AggregateRow
from topology.window.settings import WindowSettings
from topology.window.unsure.event import UnsureEvent
from topology.window.unsure.shifts import spread

Named = dict[str, Any]
NO_DOUBT: Final[Mapping[str, int]] = {}


class Measured(NamedTuple):
    """By the names of the query's aggregates. Nobody changes these: where nothing is unsure they
    are one and the same."""

    values: Named
    low: Named
    high: Named
    expected: Named
    is_sure: bool


class Measure:
    """Asks the rows of windows, which it never changes; for bounds, the cells of them."""

    def __init__(self, query: WindowSettings, makers: Makers) -> None:
        self._uncertainty = query.uncertainty
        self._max_error_ns = query.clock.max_error_ns
        self._makers = makers
        self._names = [*query.outputs]
        self._play = query.clock.play

    def plain(self, row: AggregateRow) -> Measured:
        """The measures of a window with nothing unsure."""
        values = self._named(row)
        if self._uncertainty == IGNORE or row.is_sure():
            return Measured(values, values, values, values, is_sure=True)
        return self._measured(values, dict(values), [cell.bounds(()) for cell in row.cells()])

    def span(
        self, row: AggregateRow, unsure: Sequence[UnsureEvent], start_ns: int, end_ns: int
    ) -> Measured:
        """For [start, end): `row` holds what is far from its edges, `unsure` what is near."""
        sure = row.copy()
        possibles: list[UnsureEvent] = []
        for event in unsure:
            if event.is_certain(start_ns, end_ns):
                sure.add(event.values, event)
            elif event.is_possible(start_ns, end_ns):
                possibles.append(event)
        certain = sure.cells()
        rows = [self._makers.cells_of_one(event.values, event) for event in possibles]
        inside = self._inside(row, unsure, start_ns, end_ns)
        expected = self._expected(inside, certain, possibles, rows, start_ns, end_ns)
        values = inside
        if self._uncertainty == EXPECTED:
            values = dict(expected)
        elif self._uncertainty == THESIS3:
            values = self._mean_of_three(row, unsure, start_ns, end_ns)
        bounds = [
            self._bounds(certain[i].copy(), [row[i] for row in rows], possibles, start_ns, end_ns)
            for i in range(len(certain))
        ]
        fewest: dict[str, int] = {}
        for i in self._without(values, certain):
            sized = [
                (each, int(_has_value(own[i]))) for each, own in zip(possibles, rows, strict=True)
            ]
            if any(size for _, size in sized):
                fewest[self._names[i]] = spread(sized, start_ns, end_ns, self._play)[0]
        return self._measured(values, expected, bounds, fewest)

    def blurred(self, row: AggregateRow, inside: Sequence[UnsureEvent]) -> Measured:
        """By reference time alone, where too much was unsure to be kept."""
        values = self._with(row, inside)
        nothing = dict.fromkeys(self._names)
        return Measured(values, nothing, dict(nothing), dict(values), is_sure=False)

    def groups(
        self, row: AggregateRow, certain: AggregateRow, possibles: Sequence[AggregateRow]
    ) -> Measured:
        """Values of `row`; bounds where `certain` belongs and each of `possibles` may."""
        values = self._named(row)
        rows = [possible.cells() for possible in possibles]
        cells = certain.cells()
        bounds = [cell.bounds([each[i] for each in rows]) for i, cell in enumerate(cells)]
        without = [
            i for i in self._without(values, cells) if any(_has_value(own[i]) for own in rows)
        ]
        fewest = {self._names[i]: 0 for i in without}
        return self._measured(values, dict(values), bounds, fewest)

    def is_possible(self, unsure: Sequence[UnsureEvent], start_ns: int, end_ns: int) -> bool:
        """Whether any of them may belong to the window."""
        if self._uncertainty == IGNORE:
            return any(event.is_inside(start_ns, end_ns) for event in unsure)
        return any(event.is_possible(start_ns, end_ns) for event in unsure)

    # -- values ------------------------------------------------------------------------------------

    def _expected(
        self,
        inside: Named,
        certain: Sequence[Any],
        possibles: Sequence[UnsureEvent],
        rows: Sequence[Sequence[Any]],
        start_ns: int,
        end_ns: int,
    ) -> Named:
        expected = dict(inside)
        weights = [event.weight(start_ns, end_ns) for event in possibles]
        for i, cell in enumerate(certain):
            if cell.weighs:
                weighted = [(row[i], w) for row, w in zip(rows, weights, strict=True)]
                expected[self._names[i]] = cell.copy().weighted(weighted)
        return expected

    def _named(self, row: AggregateRow) -> Named:
        return dict(zip(self._names, row.values(), strict=True))

    def _with(self, row: AggregateRow, more: Iterable[UnsureEvent]) -> Named:
        together = row.copy()
        for event in more:
            together.add(event.values, event)
        return self._named(together)

    def _inside(
        self, row: AggregateRow, unsure: Sequence[UnsureEvent], start_ns: int, end_ns: int
    ) -> Named:
        return self._with(row, [each for each in unsure if each.is_inside(start_ns, end_ns)])

    def _mean_of_three(
        self, row: AggregateRow, unsure: Sequence[UnsureEvent], start_ns: int, end_ns: int
    ) -> Named:
        shift_ns = min(self._max_error_ns, max((e.error_ns for e in unsure), default=0))
        low, middle, high = (
            self._inside(row, unsure, start_ns + by_ns, end_ns + by_ns)
            for by_ns in (-shift_ns, 0, shift_ns)
        )
        return {name: mean((low[name], middle[name], high[name])) for name in self._names}

    # -- bounds ------------------------------------------------------------------------------------

    def _bounds(
        self,
        cell: Any,
        own: Sequence[Any],
        possibles: Sequence[UnsureEvent],
        start_ns: int,
        end_ns: int,
    ) -> tuple[Any, Any]:
        if not own or not cell.additive:
            return cell.bounds(own)  # type: ignore[no-any-return]
        sized = list(zip(possibles, cell.sizes(own), strict=True))
        return cell.within(*spread(sized, start_ns, end_ns, self._play))  # type: ignore[no-any-return]

    def _without(self, values: Named, certain: Sequence[Any]) -> list[int]:
        """Return the places of the aggregates without a value; those of sums always have one."""
        return [
            i
            for i, cell in enumerate(certain)
            if values[self._names[i]] is None and not cell.additive
        ]

    def _measured(
        self,
        values: Named,
        expected: Named,
        bounds: Sequence[tuple[Any, Any]],
        fewest: Mapping[str, int] = NO_DOUBT,
    ) -> Measured:
        """`fewest`: of aggregates without a value, where some world has one: how many each world
        has of it at least."""
        low = {name: bound[0] for name, bound in zip(self._names, bounds, strict=True)}
        high = {name: bound[1] for name, bound in zip(self._names, bounds, strict=True)}
        is_sure = True
        for name in self._names:
            if name in fewest and not fewest[name]:
                low[name] = high[name] = expected[name] = None
                is_sure = False
            elif low[name] is None or low[name] != high[name]:
                is_sure = is_sure and low[name] is high[name] is values[name]
                is_sure = is_sure and name not in fewest
                expected[name] = _within(expected[name], low[name], high[name])
                if self._uncertainty != THESIS3:
                    values[name] = _within(values[name], low[name], high[name])
            else:
                values[name] = expected[name] = low[name]
        return Measured(values, low, high, expected, is_sure)


def _has_value(cell: Any) -> bool:
    """Whether anything was added to a cell that is no sum."""
    return cell.value() is not None


def _within(value: Any, low: Any, high: Any) -> Any:
    """The nearest that the bounds allow, where they are known."""
    if value is None or number(value) is None:
        return value
    if low is not None and value < low:
        return low
    return high if high is not None and value > high else value


def mean(three: tuple[Any, Any, Any]) -> Any:
    """The mean of those that are numbers; the middle one where it is something else."""
    if three[1] is not None and number(three[1]) is None:
        return three[1]
    known = [value for value in three if number(value) is not None]
    if not known:
        return three[1]
    if all(type(value) is int for value in known):
        whole, rest = divmod(sum(known), len(known))
        return quotient(sum(known), len(known)) if rest else whole
    return sum(value / len(known) for value in sorted(known))
