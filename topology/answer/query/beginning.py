"""Finds the instant from which a query that is added to a running application counts events.

The query has not seen the earlier events, so its first windows and matches would be partial. A
query that was changed, or removed and added again, begins like a new one. It emits nothing until
the instant is known. The instant is part of its state.

The instant is after every event that the query has not seen. The state of the stream records it
(`topology.answer.query.passed`). Without a record, it is found after the restart:

* After MERGE, the first watermark determines the instant. The events emitted before the watermark
  are not after it by more than the largest time error of the sources. An event would give an
  instant sooner, but does not show which events are missing. So a result could be confirmed
  although an event is lost. If no watermarks are announced, the first event in order is used.
* Before MERGE, events are out of order. The instant is `max_ahead` after the first arrival. CLOCK
  accepts no event further ahead of its arrival.

With a recorded instant, results are not confirmed before the first watermark either
(`topology.answer.frontier`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from topology.base.event import DATA, WATERMARK, Event
from topology.base.operator import Plain
from topology.state.saved import BIG, ValueKind, row_of

ALWAYS: Final = -(1 << 66)
UNKNOWN: Final = 1 << 66

HOUR_NS: Final = 3_600 * 10**9


class QueryBeginning:
    """The instant from which a query has seen all events of one stream.

    Attributes:
        since_ns: An instant after all events that the query has not seen. ALWAYS if it has seen all
            events, UNKNOWN while the instant is being found.
        is_unknown: Whether the instant is still being found.
    """

    __slots__ = ("_announced", "_margin_ns", "_max_ahead_ns", "_ordered", "is_unknown", "since_ns")

    def __init__(
        self,
        *,
        ordered: bool,
        announced: bool = True,
        max_ahead_ns: int = HOUR_NS,
        margin_ns: int = 0,
    ) -> None:
        """Expect watermarks if `announced`, and time errors of at least `margin_ns`."""
        self._ordered = ordered
        self._announced = announced
        self._max_ahead_ns = max_ahead_ns
        self._margin_ns = margin_ns
        self.since_ns = ALWAYS
        self.is_unknown = False

    @property
    def is_midstream(self) -> bool:
        """Whether the stream had events before the query."""
        return self.since_ns != ALWAYS

    @property
    def awaits_watermarks(self) -> bool:
        """Whether the query needs a watermark to know which events are missing."""
        return self._announced and self.is_midstream

    def observe(self, event: Event) -> None:
        """Derive the instant from an event, if it is still unknown."""
        if event.kind == WATERMARK and self._ordered:
            self.begin_after(event.ref_time_ns + max(event.error_all_ns, self._margin_ns))
        elif event.kind == DATA and not self._ordered:
            self.begin_after(
                event.at_ns + self._max_ahead_ns + max(event.error_ns, self._margin_ns)
            )
        elif event.kind == DATA and not event.late and not self._announced:
            self.begin_after(event.ref_time_ns + max(event.error_ns, self._margin_ns))

    def begin_after(self, newest_ns: int) -> None:
        """Begin after `newest_ns`, the latest possible time of an event that was not seen."""
        if self.is_unknown:
            self.begin(newest_ns + 1)

    def begin_if_unknown(self, since_ns: int) -> None:
        """Begin at an instant after all earlier events, if the query's own one is unknown.

        ALWAYS means that there are none, and UNKNOWN changes nothing.
        """
        if self.is_unknown and since_ns != UNKNOWN:
            self.begin(since_ns if since_ns == ALWAYS else since_ns + self._margin_ns)

    def is_before(self, event: Event) -> bool:
        """Return whether the event is certainly before the instant."""
        return event.ref_time_ns + event.error_ns < self.since_ns

    def begin(self, since_ns: int) -> None:
        """Begin at this instant."""
        self.since_ns = since_ns
        self.is_unknown = since_ns == UNKNOWN


class Beginnings(ValueKind):
    """The stored form of a list of `QueryBeginning`; empty if every query has seen all events."""

    def dump(self, value: Sequence[QueryBeginning]) -> Plain:
        is_midstream = any(beginning.is_midstream for beginning in value)
        return [BIG.dump(beginning.since_ns) for beginning in value] if is_midstream else []

    def read_into(self, one: Any, name: str, plain: Plain) -> None:
        beginnings = getattr(one, name)
        row = row_of(plain or [ALWAYS] * len(beginnings), self, len(beginnings))
        for beginning, since in zip(beginnings, row, strict=True):
            beginning.begin(BIG.load(since, one, name))


BEGINNINGS: Final = Beginnings("beginnings", is_plain=False)


def begin_midstream(beginnings: Iterable[QueryBeginning]) -> None:
    """Let queries without a state begin now, in the middle of their streams."""
    for beginning in beginnings:
        beginning.begin(UNKNOWN)
