"""Defines the buffer of one source in REORDER, for order by number and for order by time.

It also finds the source that must make room when all buffers together are full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from topology.base.event import Event
from topology.base.lazy_heap import LazyHeap
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER
from topology.base.outcome import Step
from topology.order.reorder.settings import ReorderConfig
from topology.state.sources import KnownSource


class Totals:
    """The counts of all sources of an operator together.

    Attributes:
        held: The number of buffered events.
        held_bytes: The payload bytes of these events.
        overflows: The number of gaps, starts or events given up because a bound was exceeded.
        waited_ns: The total time for which the emitted events had been buffered.
        filled: The number of missing events that arrived in time.
        outlived: The number of missing events that arrived after their gap was declared.
        kept: The events buffered since the last step, for `Step.kept`.
        freed: The events that left the buffers since the last step, for `Step.freed`.
    """

    __slots__ = (
        *("filled", "freed", "held", "held_bytes", "kept", "outlived", "overflows", "waited_ns"),
    )

    def __init__(self) -> None:
        self.held = 0
        self.held_bytes = 0
        self.overflows = 0
        self.waited_ns = 0
        self.filled = 0
        self.outlived = 0
        self.kept: list[Event] = []
        self.freed: list[Event] = []


@mypyc_attr(acyclic=True)
class SourceBuffer(KnownSource):
    """The buffer of one source, with `held` events and `held_bytes` of payload.

    `blocked` is True while MERGE knows that events are buffered here. `armed_ns` and `is_open`
    belong to the operator (`topology.order.reorder.shell`).
    """

    __slots__ = ("armed_ns", "blocked", "held", "held_bytes", "is_open")

    def __init__(self, source: str) -> None:
        super().__init__(source, 0)
        self.blocked = False
        self.held = 0
        self.held_bytes = 0
        self.armed_ns = NEVER
        self.is_open = False

    def busy(self) -> bool:
        """Return whether events are buffered, in which case the source must not be forgotten."""
        return self.held > 0

    def deadline_ns(self) -> int:
        """Return the next instant at which this buffer has something to do, or NEVER."""
        raise NotImplementedError

    def fire(self, now_ns: int, step: Step) -> None:
        """Process what is due at or before `now_ns`."""
        raise NotImplementedError

    def end(self, now_ns: int, step: Step) -> None:
        """Emit all buffered events in order, because the input has ended."""
        raise NotImplementedError

    def waiting(self) -> Iterable[Event]:
        raise NotImplementedError

    def buffer_again(self, held: list[Event]) -> None:
        """Buffer the restored events `held` again, in log order, after the state has been read."""
        raise NotImplementedError

    def forget(self) -> None:
        """Remove the state of the source that is kept outside this buffer."""

    def explain(self) -> dict[str, Any]:
        """Return why the source's events are buffered, since when and until when, for display."""
        raise NotImplementedError


name_of: Final = attrgetter("source")
Buffer = TypeVar("Buffer", bound=SourceBuffer)


class Fullest(LazyHeap, Generic[Buffer]):
    """A search for the fullest source, which makes room when all sources buffer too much.

    There are two bounds, on events and on their payload. The fill of a source is measured by the
    bound that is exceeded. If two sources are equally full, the first by name makes room.

    The heap has entries only near the bounds. Then an entry is added whenever a source has grown.
    Cost: O(log sources) for each source that makes room.

    `table` contains the operator's sources, and `totals` their counts.
    """

    __slots__ = ("_by_bytes", "_table", "_totals", "max_bytes", "max_held")

    def __init__(self, table: Mapping[str, Buffer], totals: Totals, config: ReorderConfig) -> None:
        super().__init__()
        self._table = table
        self._totals = totals
        self.max_held = config.max_held_total
        self.max_bytes = config.max_held_bytes
        self._by_bytes = False

    def find_key(self, name: str) -> int | None:
        buffer = self._table.get(name)
        return None if buffer is None else -self._fill_of(buffer)

    def note(self, grown: Buffer) -> None:
        if self.entries:
            self.push(-self._fill_of(grown), grown.source)

    def over(self) -> Buffer | None:
        """Return the source that must make room, or None if no bound is exceeded."""
        totals = self._totals
        is_over = totals.held > self.max_held or (
            totals.held_bytes > self.max_bytes and totals.held > 0
        )
        if not is_over:
            if self.entries and self._is_well_below():
                self.rebuild(())
            return None
        by_bytes = totals.held <= self.max_held
        if by_bytes != self._by_bytes or not self.entries:
            self._by_bytes = by_bytes
            self.rebuild(self._table)
        first = self.first()
        return None if first is None else self._table[first[1]]

    def _is_well_below(self) -> bool:
        totals = self._totals
        return totals.held * 10 < self.max_held * 9 and totals.held_bytes * 10 < self.max_bytes * 9

    def _fill_of(self, buffer: Buffer) -> int:
        return buffer.held_bytes if self._by_bytes else buffer.held
