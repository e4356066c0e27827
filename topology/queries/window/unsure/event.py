"""Defines an event that may be on either side of a window's edge, because its time is uncertain.

Such an event is kept as long as the window, with its values and without its payload. Its time, its
clock and its time error are kept too, to compute bounds. Count windows keep all their events in
this form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from topology.answer.query.numbers import WEIGHT_BITS, WHOLE_WEIGHT
from topology.base.event import Event
from topology.base.operator import Plain
from topology.queries.window.cells import Values
from topology.state.saved import INT, SCALAR, TEXT, ValueKind, list_of, pack, record, unpack

Span = tuple[int, int]
"""A range of time, from the first instant up to the second, which is excluded."""


@dataclass(slots=True, eq=False)
class UnsureEvent:
    """An event of uncertain time: its event time is in [ref_time - error, ref_time + error]."""

    source: str
    epoch: int
    seq: int
    segment: int
    ts_ns: int
    ref_time_ns: int
    error_ns: int
    values: Values

    @property
    def number(self) -> tuple[str, int, int]:
        """The coordinates of the event, which are unique within the stream."""
        return self.source, self.epoch, self.seq

    @property
    def clock(self) -> tuple[str, int, int]:
        """A key that is equal for events that one clock stamped without a jump between them."""
        return self.source, self.epoch, self.segment

    def is_inside(self, span: Span) -> bool:
        """Return whether the corrected timestamp is in the span."""
        return span[0] <= self.ref_time_ns < span[1]

    def is_certain(self, span: Span) -> bool:
        first_ns = self.ref_time_ns - self.error_ns
        return span[0] <= first_ns and self.ref_time_ns + self.error_ns < span[1]

    def is_possible(self, span: Span) -> bool:
        first_ns = self.ref_time_ns - self.error_ns
        return span[0] <= self.ref_time_ns + self.error_ns and first_ns < span[1]

    def weight(self, span: Span) -> int:
        """Return the probability that the event was in the span, in units of 1 / WHOLE_WEIGHT.

        All times within its error are equally likely. Over adjacent windows that cover its possible
        times, the weights add up to WHOLE_WEIGHT.
        """
        if self.error_ns == 0:
            return WHOLE_WEIGHT if self.is_inside(span) else 0
        return self._before(span[1]) - self._before(span[0])

    def _before(self, time_ns: int) -> int:
        since_ns = time_ns - (self.ref_time_ns - self.error_ns)
        width_ns = 2 * self.error_ns
        return (min(max(since_ns, 0), width_ns) << WEIGHT_BITS) // width_ns


def make_unsure(event: Event, values: Values) -> UnsureEvent:
    return UnsureEvent(
        event.source,
        event.epoch,
        event.seq,
        event.segment,
        event.ts_ns,
        event.ref_time_ns,
        event.error_ns,
        values,
    )


class CellValue(ValueKind):
    """The kind of a value that is added to a cell: a scalar, or a pair of a scalar and its rank."""

    def __init__(self) -> None:
        super().__init__("scalar or pair", *SCALAR.types, is_plain=False)

    def dump(self, value: Any) -> Plain:
        return [pack(part) for part in value] if isinstance(value, tuple) else pack(value)

    def load(self, plain: Plain, owner: Any, field: str) -> Any:
        if isinstance(plain, list | tuple) and len(plain) == 2:
            return unpack(plain[0]), unpack(plain[1])
        return SCALAR.load(plain, owner, field)


UNSURE_EVENT: Final = record(
    UnsureEvent,
    source=TEXT,
    epoch=INT,
    seq=INT,
    segment=INT,
    ts_ns=INT,
    ref_time_ns=INT,
    error_ns=INT,
    values=list_of(CellValue(), tuple),
)
