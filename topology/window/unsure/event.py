"""An event of which it is not sure on which side of a window's edge it was.

It is kept, with its values but without its payload, as long as the window is: what bounds
need is when it was, by whose clock, and how sure that is.
"""

from __future__ import annotations

from typing import Final

from topology.model.event import Event
from topology.model.kept import INT, SCALAR, TEXT, list_of, record
from topology.query.numbers import WEIGHT_BITS, WHOLE_WEIGHT
from topology.window.reading import Values


class UnsureEvent:
    """The true time lies in [ref_time - error, ref_time + error]."""

    __slots__ = (
        "epoch",
        "error_ns",
        "ref_time_ns",
        "segment",
        "seq",
        "source",
        "ts_ns",
        "values",
    )

    def __init__(
        self,
        source: str,
        epoch: int,
        seq: int,
        segment: int,
        ts_ns: int,
        ref_time_ns: int,
        error_ns: int,
        values: Values,
    ) -> None:
        self.source = source
        self.epoch = epoch
        self.seq = seq
        self.segment = segment
        self.ts_ns = ts_ns
        self.ref_time_ns = ref_time_ns
        self.error_ns = error_ns
        self.values = values

    @property
    def number(self) -> tuple[str, int, int]:
        """No other event of the stream has it."""
        return self.source, self.epoch, self.seq

    @property
    def clock(self) -> tuple[str, int, int]:
        """Events with the same were stamped by one clock, and no jump lies between them."""
        return self.source, self.epoch, self.segment

    def is_inside(self, start_ns: int, end_ns: int) -> bool:
        """By reference time."""
        return start_ns <= self.ref_time_ns < end_ns

    def is_certain(self, start_ns: int, end_ns: int) -> bool:
        first_ns = self.ref_time_ns - self.error_ns
        return start_ns <= first_ns and self.ref_time_ns + self.error_ns < end_ns

    def is_possible(self, start_ns: int, end_ns: int) -> bool:
        first_ns = self.ref_time_ns - self.error_ns
        return start_ns <= self.ref_time_ns + self.error_ns and first_ns < end_ns

    def weight(self, start_ns: int, end_ns: int) -> int:
        """How probable it is that it was in [start, end), all of its interval alike, in units
        of 1 / WHOLE_WEIGHT; over windows side by side the weights sum up to the whole."""
        if self.error_ns == 0:
            return WHOLE_WEIGHT if self.is_inside(start_ns, end_ns) else 0
        return self._before(end_ns) - self._before(start_ns)

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
