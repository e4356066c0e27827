"""From when on a query counts that began amid its stream.

A query that is added to a running application has not seen what came before it, so of what began
before then it would emit a part for the whole. A query that was changed, or removed and put back,
begins like one that is new.

Its results count from an instant on that no event before it can lie at or after:

* Behind MERGE the first watermark says so: what left in order lies at or before W, by true time no
  further beyond than the largest error of the sources. The first event in order would say so too,
  but not how large those errors are, nor what is missing (C): a result that was emitted before the
  first watermark might be called confirmed though a number is lost. It costs one `heartbeat`. Where
  no watermarks are announced the first event in order has to do.
* Events that MERGE accepts come in no order. There the operator of all queries of one place
  remembers the newest time that it passed (`topology.query.queries`). Where there was no such
  operator, no event that came before the first one lies more than `max_ahead` after it, for CLOCK
  lets none pass.

Until that instant is known nothing is emitted. It is part of the state of the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from topology.model.event import DATA, WATERMARK, Event
from topology.model.kept import BIG, ValueKind, Written, row_of
from topology.model.operator import Plain

ALWAYS: Final = -(1 << 66)
UNKNOWN: Final = 1 << 66

HOUR_NS: Final = 3_600 * 10**9


class QueryBeginning:
    """The instant from which on a query has seen all of one stream.

    Attributes:
        since_ns: No event that came before the query lies there or later. ALWAYS where the query
            was there from the first event on, UNKNOWN as long as that is not known.
        is_unknown: Whether it is still to be found out.
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
        """Watermarks come if `announced`. An error is taken to be `margin_ns` at least."""
        self._ordered = ordered
        self._announced = announced
        self._max_ahead_ns = max_ahead_ns
        self._margin_ns = margin_ns
        self.since_ns = ALWAYS
        self.is_unknown = False

    @property
    def is_amid(self) -> bool:
        """Whether events came before the query."""
        return self.since_ns != ALWAYS

    @property
    def awaits_watermarks(self) -> bool:
        """Whether only a watermark tells the query what is missing."""
        return self._announced and self.is_amid

    def hear(self, event: Event) -> None:
        """Learn the instant from an event that comes while it is not known."""
        if event.kind == WATERMARK and self._ordered:
            self.follow(event.ref_time_ns + max(event.error_all_ns, self._margin_ns))
        elif event.kind == DATA and not self._ordered:
            self.follow(event.at_ns + self._max_ahead_ns + max(event.error_ns, self._margin_ns))
        elif event.kind == DATA and not event.late and not self._announced:
            self.follow(event.ref_time_ns + max(event.error_ns, self._margin_ns))

    def follow(self, newest_ns: int) -> None:
        """Begin after the newest instant at which an event that was not seen may lie."""
        if self.is_unknown:
            self.begin(newest_ns + 1)

    def begin(self, since_ns: int) -> None:
        """Begin at that instant."""
        self.since_ns = since_ns
        self.is_unknown = since_ns == UNKNOWN


class Beginnings(ValueKind):
    """The kind of a list of beginnings. Nothing is written of a query that was there from the first
    event on."""

    def dump(self, value: Sequence[QueryBeginning]) -> Plain:
        is_amid = any(beginning.is_amid for beginning in value)
        return [BIG.dump(beginning.since_ns) for beginning in value] if is_amid else []

    def read_into(self, one: Any, name: str, plain: Plain, written: Written | None) -> None:
        beginnings = getattr(one, name)
        row = row_of(plain or [ALWAYS] * len(beginnings), self, len(beginnings))
        for beginning, since in zip(beginnings, row, strict=True):
            beginning.begin(BIG.load(since, written, one, name))


BEGINNINGS: Final = Beginnings("beginnings", is_plain=False)


def begin_amid(beginnings: Iterable[QueryBeginning]) -> None:
    """Let a query that has no state begin now."""
    for beginning in beginnings:
        beginning.begin(UNKNOWN)
