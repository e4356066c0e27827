"""The row of a query of sums and extremes, in small: the plain form of its cells.

A query that asks for nothing but `count`, `sum`, `avg`, `min` and `max` has rows that hold, for
each field it reads, how many values there were, their exact sum, the least and the largest. What
these say, and their state, is what the cells of `aggregates` would say and dump, to the bit;
where times are not sure and bounds are asked for, a tally makes those cells.

Values come in many at a time. A float is a whole number of units of 2^-shift as soon as the shift
has seen one as fine: then taking it in is a multiplication and an addition, without a fraction.

Memory: one object of 100 bytes for a query that reads one field, and its numbers. Cost: 0.1 us a
value.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any, Final

from topology.model.kept import packed, unpacked
from topology.model.operator import Plain
from topology.query.numbers import json_number, quotient
from topology.window.aggregates.built_in import BUILT_IN
from topology.window.aggregates.cell import Placed
from topology.window.reading import Values
from topology.window.row import AggregateRow
from topology.window.settings import Aggregate

COUNT: Final = "count"
SUM: Final = "sum"
AVERAGE: Final = "avg"
LEAST: Final = "min"
LARGEST: Final = "max"
TALLIED: Final = frozenset({COUNT, SUM, AVERAGE, LEAST, LARGEST})

SCALES: Final = [2.0**shift for shift in range(1_024)]
"""All that are doubles."""


def is_tallied(outputs: Sequence[Aggregate]) -> bool:
    """Whether a tally can answer all of it."""
    return all(output.function in TALLIED for output in outputs)


class TallyPlan:
    """What the rows of a query hold. `reads`: each aggregate's function, and the place of its field
    among those that are read; `firsts`: for each field an aggregate that reads it."""

    def __init__(self, outputs: Sequence[Aggregate]) -> None:
        paths = list(dict.fromkeys(each.path for each in outputs if each.function != COUNT))
        self.reads = [
            (each.function, 0 if each.function == COUNT else paths.index(each.path))
            for each in outputs
        ]
        read = [each.path if each.function != COUNT else None for each in outputs]
        self.firsts = [read.index(path) for path in paths]

    def row(self) -> AggregateRow:
        return Tally(self) if len(self.firsts) < 2 else Tallies(self)

    def cells(self, states: Sequence[Plain]) -> list[Any]:
        cells = [BUILT_IN[function].make() for function, _ in self.reads]
        for cell, state in zip(cells, states, strict=True):
            cell.load(state)
        return cells


class Tally(AggregateRow):
    """For a query that reads one field at most: `events`, and `n` values of it, their `total` in
    units of 2^-`shift`, which is no finer than the finest of them. `least` and `largest` are None
    where there are none; of an integer and a float that are equal, the integer."""

    __slots__ = ("_plan", "events", "largest", "least", "n", "shift", "total")

    def __init__(self, plan: TallyPlan) -> None:
        self._plan = plan
        self.events = 0
        self.n = 0
        self.total = 0
        self.shift = 0
        self.least: Any = None
        self.largest: Any = None

    def take(self, events: int, columns: list[list[Any]]) -> None:
        self.events += events
        if columns and columns[0]:
            self.take_values(columns[0])

    def add(self, values: Values, event: Placed) -> None:
        self.take(1, columns_of(self._plan, values))

    def take_values(self, values: list[Any]) -> None:
        """Numbers, at least one."""
        total, shift = self.total, self.shift
        scale = scale_of(shift)
        wholes = 0
        for value in values:
            if not isinstance(value, float):
                total += value << shift
                wholes += 1
                continue
            units = value * scale
            if units % 1.0 == 0.0:
                total += int(units)
                continue
            numerator, denominator = value.as_integer_ratio()
            own = denominator.bit_length() - 1
            if own > shift:
                total <<= own - shift
                shift = own
                scale = scale_of(shift)
            total += numerator << (shift - own)
        self.n += len(values)
        self.total, self.shift = total, shift
        if 0 < wholes < len(values):
            values = sorted(values, key=is_float)  # of equals the first is found: the integer
        self.lower(min(values) if len(values) > 1 else values[0])
        self.raise_to(max(values) if len(values) > 1 else values[0])

    def lower(self, value: Any) -> None:
        """The least of some more values."""
        least = self.least
        if least is None or value < least or (value == least and type(value) is int):
            self.least = value

    def raise_to(self, value: Any) -> None:
        """The largest of some more values."""
        largest = self.largest
        if largest is None or value > largest or (value == largest and type(value) is int):
            self.largest = value

    def merge(self, other: AggregateRow) -> None:
        assert isinstance(other, Tally)
        if other.shift > self.shift:
            self.total <<= other.shift - self.shift
            self.shift = other.shift
        self.events += other.events
        self.n += other.n
        self.total += other.total << (self.shift - other.shift)
        if other.least is not None:
            self.lower(other.least)
        if other.largest is not None:
            self.raise_to(other.largest)

    def copy(self) -> Tally:
        twin = Tally(self._plan)
        twin.merge(self)
        return twin

    def values(self) -> list[Any]:
        return [self.value(function) for function, _ in self._plan.reads]

    def is_sure(self) -> bool:
        return True

    def cells(self) -> list[Any]:
        return self._plan.cells(self.dump())

    def dump(self) -> list[Plain]:
        return [self.state(function) for function, _ in self._plan.reads]

    def load(self, states: Sequence[Plain]) -> None:
        for (function, _), state in zip(self._plan.reads, states, strict=True):
            self.load_state(function, state)

    # -- one aggregate, as `aggregates` has it -----------------------------------------------------

    def value(self, function: str) -> Any:
        if function == COUNT:
            return self.events
        if function == SUM:
            return quotient(self.total, 1 << self.shift) if self.shift else json_number(self.total)
        if function == AVERAGE:
            return quotient(self.total, self.n << self.shift) if self.n else None
        value = self.least if function == LEAST else self.largest
        return json_number(value) if type(value) is int else value

    def state(self, function: str) -> Plain:
        if function == COUNT:
            return self.events
        if function in (SUM, AVERAGE):
            return [self.n, packed(self.total), self.shift]
        return packed(self.least if function == LEAST else self.largest)

    def load_state(self, function: str, state: Plain) -> None:
        if function == COUNT:
            self.events = state
        elif function in (SUM, AVERAGE):
            self.n, total, self.shift = state
            self.total = unpacked(total)
        elif function == LEAST:
            self.least = unpacked(state)
        else:
            self.largest = unpacked(state)


class Tallies(AggregateRow):
    """For a query that reads several fields: a tally of each."""

    __slots__ = ("_plan", "_tallies")

    def __init__(self, plan: TallyPlan) -> None:
        self._plan = plan
        self._tallies = [Tally(plan) for _ in plan.firsts]

    def take(self, events: int, columns: list[list[Any]]) -> None:
        for tally, values in zip(self._tallies, columns, strict=True):
            tally.take(events, [values])

    def add(self, values: Values, event: Placed) -> None:
        self.take(1, columns_of(self._plan, values))

    def merge(self, other: AggregateRow) -> None:
        assert isinstance(other, Tallies)
        for tally, another in zip(self._tallies, other._tallies, strict=True):
            tally.merge(another)

    def copy(self) -> AggregateRow:
        twin = Tallies(self._plan)
        twin.merge(self)
        return twin

    def values(self) -> list[Any]:
        return [self._tallies[place].value(function) for function, place in self._plan.reads]

    def is_sure(self) -> bool:
        return True

    def cells(self) -> list[Any]:
        return self._plan.cells(self.dump())

    def dump(self) -> list[Plain]:
        return [self._tallies[place].state(function) for function, place in self._plan.reads]

    def load(self, states: Sequence[Plain]) -> None:
        for (function, place), state in zip(self._plan.reads, states, strict=True):
            self._tallies[place].load_state(function, state)
            if function == COUNT:
                for tally in self._tallies:
                    tally.events = state


def columns_of(plan: TallyPlan, values: Values) -> list[list[Any]]:
    """One event, as `reading.Columns` has them."""
    return [[values[first]] if values[first] is not None else [] for first in plan.firsts]


def scale_of(shift: int) -> float:
    """2^shift; beyond what doubles hold, a number by which nothing becomes whole."""
    return SCALES[shift] if shift < len(SCALES) else nan


def is_float(value: Any) -> bool:
    return isinstance(value, float)
