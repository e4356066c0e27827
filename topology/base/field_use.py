"""Describes what a query left out of one field of its events, for logs, metrics and summaries.

A value is unusable if it is there, but of a kind that the aggregate cannot use, as when a number
becomes text. It is absent if it is missing or null, which is normal in a stream in which only some
events have the field. So the two are counted apart. A long run of absent values shows that a field
was renamed.
"""

from __future__ import annotations

from typing import NamedTuple


class Unusable(NamedTuple):
    """The values of one kind that could not be used: their number `n`, and the first as text."""

    kind: str
    n: int
    example: str


class FieldUse(NamedTuple):
    """The values of one field that the aggregates of a query left out.

    Attributes:
        query: The name of the query.
        aggregate: The name of the first aggregate that reads the field.
        field: The field as the topology file writes it.
        absent: The number of events in which the value was missing or null.
        absent_in_row: The number of these events since the last one with a value.
        unusable: The values that could not be used, by kind.
    """

    query: str
    aggregate: str
    field: str
    absent: int
    absent_in_row: int
    unusable: tuple[Unusable, ...]

    @property
    def unusable_count(self) -> int:
        return sum(each.n for each in self.unusable)


def join(one: FieldUse, other: FieldUse) -> FieldUse:
    """Return the sum of two uses of one field, with the examples of the first."""
    found = {each.kind: each for each in one.unusable}
    for each in other.unusable:
        first = found.get(each.kind, each._replace(n=0))
        found[each.kind] = first._replace(n=first.n + each.n)
    return one._replace(
        absent=one.absent + other.absent,
        absent_in_row=max(one.absent_in_row, other.absent_in_row),
        unusable=tuple(found.values()),
    )
