"""An event of which it is not sure on which side of a window's edge it was.

It is kept, with its values but without its payload, as long as the window is: what bounds
need is when it was, by whose clock, and how sure that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from topology.model.event import Event
from topology.model.kept import INT, SCALAR, TEXT, list_of, record
from topology.query.numbers import WEIGHT_BITS, WHOLE_WEIGHT
from topology.window.cells import Values

Span = tuple[int, int]
"""From the first instant up to the last, which is not part of it."""


@dataclass(slots=True, eq=False)
class UnsureEvent:
    """The true time lies in [ref_time - error, ref_time + error]."""

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
        """No other event of the stream has it."""
        return self.source, self.epoch, self.seq

    @property
    def clock(self) -> tuple[str, int, int]:
        """Events with the same were stamped by one clock, and no jump lies between them."""
        return self.source, self.epoch, self.segment

    def is_inside(self, span: Span) -> bool:
        """Return whether it is in the span by reference time."""
        return span[0] <= self.ref_time_ns < span[1]

    def is_certain(self, span: Span) -> bool:
        first_ns = self.ref_time_ns - self.error_ns
        return span[0] <= first_ns and self.ref_time_ns + self.error_ns < span[1]

    def is_possible(self, span: Span) -> bool:
        first_ns = self.ref_time_ns - self.error_ns
        return span[0] <= self.ref_time_ns + self.error_ns and first_ns < span[1]

    def weight(self, span: Span) -> int:
        """Return how probable it is that it was in the span, all of its interval alike, in units
        of 1 / WHOLE_WEIGHT; over windows side by side the weights sum up to the whole."""
        if self.error_ns == 0:
            return WHOLE_WEIGHT if self.is_inside(span) else 0
        return self._before(span[1]) - self._before(span[0])

    def _before(self, time_ns: int) -> int:
        since_ns = time_ns - (self.ref_time_ns - self.error_ns)
        width_ns = 2 * self.error_ns
        return (min(max(since_ns, 0), width_ns) << WEIGHT_BITS) // width_ns


def unsure_of(event: Event, values: Values) -> UnsureEvent:
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


UNSURE_EVENT: Final = record(
    UnsureEvent,
    source=TEXT,
    epoch=INT,
    seq=INT,
    segment=INT,
    ts_ns=INT,
    ref_time_ns=INT,
    error_ns=INT,
    values=list_of(SCALAR, tuple),
)
