"""Computes the aggregates `first`, `last` and `distinct` of scalars.

* `first` and `last` order events by corrected timestamp, source, epoch and sequence number. The
  result is certain if its event certainly belongs to the window, and no event of another source may
  precede (follow) that event. To decide this, a cell keeps the outermost possible times of two
  different sources. Scalars need not be comparable, so an uncertain result has the bounds None.
* `distinct` keeps a set of at most `MAX_DISTINCT` distinguishable values. If there are more, its
  value is `MAX_DISTINCT`, which is a lower bound, and `high` is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from topology.answer.query.numbers import text_of, to_json_number
from topology.queries.window.aggregates.cell import AggregateCell, Bounds, Placed, merge_cells
from topology.state.saved import INT, SCALAR, TEXT, Shape, list_of, optional, tuple_of

MAX_DISTINCT: Final = 10_000
FIRST: Final = Shape(
    "window.first",
    1,
    best=optional(tuple_of(INT, TEXT, INT, INT)),
    found=SCALAR,
    far=INT,
    edges=list_of(tuple_of(INT, TEXT)),
)


class First(AggregateCell):
    """The first value of a field, and whether it is certain.

    For `last`, the times in `far` and `edges` are negated.

    Attributes:
        best: The sort key of the first event.
        found: The value of that event.
        far: The end of that event's interval of possible times.
        edges: The earliest starts of such intervals, for at most two sources.
    """

    SHAPE = FIRST
    __slots__ = FIRST.fields

    sign = 1

    def __init__(self) -> None:
        self.best: tuple[int, str, int, int] | None = None
        self.found: Any = None
        self.far = 0
        self.edges: list[tuple[int, str]] = []

    def add(self, value: Any, event: Placed) -> None:
        time_ns = self.sign * event.ref_time_ns
        place = (event.ref_time_ns, event.source, event.epoch, event.seq)
        # The ends of the interval are 1 ns beyond all possible times of the event.
        reach_ns = event.error_ns + 1 if event.error_ns else 0
        self._update_best(place, value, time_ns + reach_ns)
        self._add_edge(time_ns - reach_ns, event.source)

    def _update_best(self, place: tuple[int, str, int, int], value: Any, far: int) -> None:
        best = self.best
        if best is None or (place < best if self.sign > 0 else place > best):
            self.best, self.found, self.far = place, value, far

    def _add_edge(self, near: int, source: str) -> None:
        edges = self.edges
        if len(edges) == 2 and near >= edges[1][0]:
            return
        for at, (known, whose) in enumerate(edges):
            if whose == source:
                if near < known:
                    edges[at] = (near, source)
                break
        else:
            edges.append((near, source))
        edges.sort()
        del edges[2:]

    def merge(self, other: Any) -> None:
        if other.best is not None:
            self._update_best(other.best, other.found, other.far)
            for near, source in other.edges:
                self._add_edge(near, source)

    def value(self) -> Any:
        return to_json_number(self.found)

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        together = merge_cells(self, possibles)
        if together.best != self.best or not together.is_sure():
            return None, None
        return self.value(), self.value()

    def is_sure(self) -> bool:
        best = self.best
        return best is None or all(
            near >= self.far or source == best[1] for near, source in self.edges
        )


class Last(First):
    """The last value of a field: `First` with negated times."""

    __slots__ = ()

    sign = -1


class Distinct(AggregateCell):
    """The texts of the distinct values; `seen` is None after more than `MAX_DISTINCT` of them."""

    SHAPE = Shape("window.distinct", 1, seen=optional(list_of(TEXT, set)))
    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: set[str] | None = set()

    def add(self, value: Any, event: Placed | None) -> None:
        if self.seen is not None:
            self.seen.add(text_of(value))
            if len(self.seen) > MAX_DISTINCT:
                self.seen = None

    def merge(self, other: Any) -> None:
        if self.seen is None or other.seen is None:
            self.seen = None
            return
        self.seen |= other.seen
        if len(self.seen) > MAX_DISTINCT:
            self.seen = None

    def value(self) -> Any:
        return MAX_DISTINCT if self.seen is None else len(self.seen)

    def is_sure(self) -> bool:
        return self.seen is not None

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        together = merge_cells(self, possibles)
        return self.value(), None if together.seen is None else together.value()
