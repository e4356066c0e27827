"""One aggregate over some events: what it has seen, in small.

Every cell can be added to, merged with another of its kind, and asked for its value; each
of these gives the same whatever the order (reorder_drift_merge.md 6: a late event only
adds). Where it is not sure which events belong (`possibles`, one cell for each of them or
for each group that belongs or not as a whole), `bounds` are the smallest and the largest
value over all choices that leave some event (4.2); None where nothing can be said.

Where every choice has a weight, `weighted` is the value of the weighted sums. Where a kind's
`weighs` is false, its value uses reference times alone. A kind is `additive` if each event adds
its size to the value, whatever else is there: for those the choices can be narrowed by what is
known about clocks (`shifts`), and `within` makes bounds of the smallest and the largest sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from topology.model.operator import Plain

Bounds = tuple[Any, Any]


class Placed(Protocol):
    """When a value was, and whose: an event, or one of unsure time that is kept without payload."""

    ref_time_ns: int
    error_ns: int
    source: str
    epoch: int
    seq: int


class AggregateCell:
    """What all aggregates have in common. `event` gives the time and the source of a value."""

    __slots__ = ()

    weighs = False
    additive = False

    def add(self, value: Any, event: Placed) -> None:
        raise NotImplementedError

    def merge(self, other: Any) -> None:
        raise NotImplementedError

    def copy(self) -> AggregateCell:
        twin = type(self)()
        twin.merge(self)
        return twin

    def value(self) -> Any:
        raise NotImplementedError

    def weighted(self, possibles: Sequence[tuple[Any, int]]) -> Any:
        """`possibles`: cell and weight, in units of 1 / WHOLE_WEIGHT."""
        return self.value()

    def is_sure(self) -> bool:
        """Whether the value is that of every world, if it is sure what belongs."""
        return True

    def bounds(self, possibles: Sequence[Any]) -> Bounds:
        value = self.value()
        return (None, None) if possibles else (value, value)

    def sizes(self, possibles: Sequence[Any]) -> list[int]:
        """What each possible one adds, in the unit that `within` takes."""
        raise NotImplementedError

    def within(self, low: int, high: int) -> Bounds:
        raise NotImplementedError

    def dump(self) -> Plain:
        raise NotImplementedError

    def load(self, state: Plain) -> None:
        raise NotImplementedError
