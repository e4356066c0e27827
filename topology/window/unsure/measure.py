"""From cells and unsure events to values, and how far the truth may lie from them.

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
another. A result is sure if all its values are.

Proved by: tests/topology/window/test_worlds.py, tests/topology/window/test_oracle.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from topology.query.numbers import number, quotient
from topology.window.cells import Cells, Makers, add, copied
from topology.window.config import EXPECTED, IGNORE, THESIS3, WindowConfig
from topology.window.unsure.event import UnsureEvent
from topology.window.unsure.shifts import Play, spread

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
    """Asks the cells of windows. `cells` that come in are never changed."""

    def __init__(self, config: WindowConfig, makers: Makers) -> None:
        self._config = config
        self._makers = makers
        self._names = [output.name for output in config.outputs]
        self._play = Play(config.max_skew_ppm, config.jitter_ns)

    def plain(self, cells: Cells) -> Measured:
        """The measures of a window with nothing unsure."""
        values = {name: cell.value() for name, cell in zip(self._names, cells, strict=True)}
        if self._config.uncertainty == IGNORE or all(cell.is_sure() for cell in cells):
            return Measured(values, values, values, values, is_sure=True)
        return self._measured(values, dict(values), [cell.bounds(()) for cell in cells])

    def span(
        self, cells: Cells, unsure: Sequence[UnsureEvent], start_ns: int, end_ns: int
    ) -> Measured:
        """For [start, end): `cells` hold what is far from its edges, `unsure` what is near."""
        certain = copied(cells)
        possibles: list[UnsureEvent] = []
        for event in unsure:
            if event.is_certain(start_ns, end_ns):
                add(certain, event.values, event)
            elif event.is_possible(start_ns, end_ns):
                possibles.append(event)
        rows = [self._makers.of_one(event.values, event) for event in possibles]
        inside = self._inside(cells, unsure, start_ns, end_ns)
        expected = self._expected(inside, certain, possibles, rows, start_ns, end_ns)
        values = inside
        if self._config.uncertainty == EXPECTED:
            values = dict(expected)
        elif self._config.uncertainty == THESIS3:
            values = self._mean_of_three(cells, unsure, start_ns, end_ns)
        bounds = [
            self._bounds(certain[i].copy(), [row[i] for row in rows], possibles, start_ns, end_ns)
            for i in range(len(certain))
        ]
        return self._measured(values, expected, bounds)

    def blurred(self, cells: Cells, inside: Sequence[UnsureEvent]) -> Measured:
        """By reference time alone, where too much was unsure to be kept."""
        together = copied(cells)
        for event in inside:
            add(together, event.values, event)
        values = {name: cell.value() for name, cell in zip(self._names, together, strict=True)}
        nothing = dict.fromkeys(self._names)
        return Measured(values, nothing, dict(nothing), dict(values), is_sure=False)

    def groups(self, cells: Cells, certain: Cells, possibles: Sequence[Cells]) -> Measured:
        """Values of `cells`; bounds where `certain` belongs and each of `possibles` may."""
        values = {name: cell.value() for name, cell in zip(self._names, cells, strict=True)}
        bounds = [
            cell.copy().bounds([row[i] for row in possibles]) for i, cell in enumerate(certain)
        ]
        return self._measured(values, dict(values), bounds)

    def is_possible(self, unsure: Sequence[UnsureEvent], start_ns: int, end_ns: int) -> bool:
        """Whether any of them may belong to the window."""
        if self._config.uncertainty == IGNORE:
            return any(event.is_inside(start_ns, end_ns) for event in unsure)
        return any(event.is_possible(start_ns, end_ns) for event in unsure)

    # -- values ------------------------------------------------------------------------------------

    def _expected(
        self,
        inside: Named,
        certain: Cells,
        possibles: Sequence[UnsureEvent],
        rows: Sequence[Cells],
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

    def _inside(
        self, cells: Cells, unsure: Sequence[UnsureEvent], start_ns: int, end_ns: int
    ) -> Named:
        inside = copied(cells)
        for event in unsure:
            if event.is_inside(start_ns, end_ns):
                add(inside, event.values, event)
        return {name: cell.value() for name, cell in zip(self._names, inside, strict=True)}

    def _mean_of_three(
        self, cells: Cells, unsure: Sequence[UnsureEvent], start_ns: int, end_ns: int
    ) -> Named:
        shift_ns = min(self._config.max_error_ns, max((e.error_ns for e in unsure), default=0))
        low, middle, high = (
            self._inside(cells, unsure, start_ns + by_ns, end_ns + by_ns)
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

    def _measured(
        self, values: Named, expected: Named, bounds: Sequence[tuple[Any, Any]]
    ) -> Measured:
        low = {name: bound[0] for name, bound in zip(self._names, bounds, strict=True)}
        high = {name: bound[1] for name, bound in zip(self._names, bounds, strict=True)}
        is_sure = True
        for name in self._names:
            if low[name] is None or low[name] != high[name]:
                is_sure = is_sure and low[name] is high[name] is values[name]
                expected[name] = _within(expected[name], low[name], high[name])
                if self._config.uncertainty != THESIS3:
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
