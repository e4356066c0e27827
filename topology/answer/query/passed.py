"""Records how far a stream has passed, for queries that are added at a restart.

A query that is added has not seen the events before the restart. This record is an instant after
all that MERGE had emitted, so the query begins there, whatever has arrived since
(`topology.answer.query.beginning`). A query that reads accepted events begins after the events
that MERGE still held, too.

A state without a record gives no instant, and earlier events may have passed unrecorded. The record
then begins as a query would, with the first watermark.

Cost: O(1) per event, only in stages that can have queries with such a beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from topology.answer.query.beginning import BEGINNINGS, UNKNOWN, QueryBeginning, begin_midstream
from topology.base.event import DATA, WATERMARK, Event
from topology.base.native import mypyc_attr
from topology.base.operator import Plain
from topology.state.saved import INT, Shape
from topology.state.saved_operator import SavedOperator
from topology.state.tables import SavedState

PASSED: Final = "passed"
"""The name of the record among the parts of a chain, and the key of its row."""

SHAPE: Final = Shape(PASSED, 1, beginnings=BEGINNINGS, error_ns=INT)


@mypyc_attr(allow_interpreted_subclasses=True)
class Passed(SavedOperator):
    """The record of one stream in one input partition; it emits nothing.

    Attributes:
        error_ns: Largest time error that the last watermark, or an event after it, has shown.
    """

    def __init__(self, *, announced: bool) -> None:
        """Expect watermarks if `announced`."""
        self._instant = QueryBeginning(ordered=True, announced=announced)
        self.beginnings = [self._instant]
        self.error_ns = 0
        self._saved = SavedState(PASSED, SHAPE)

    def note(self, events: Sequence[Event]) -> None:
        """Record events and watermarks that MERGE has emitted."""
        instant = self._instant
        if instant.is_unknown:
            for event in events:
                instant.observe(event)
        since_ns, error_ns = instant.since_ns, self.error_ns
        for event in events:
            if event.kind == DATA:
                if event.ref_time_ns + event.error_ns >= since_ns:
                    since_ns = event.ref_time_ns + event.error_ns + 1
                if event.error_ns > error_ns:
                    error_ns = event.error_ns
            elif event.kind == WATERMARK:
                error_ns = event.error_all_ns
        instant.since_ns, self.error_ns = since_ns, error_ns

    def since_ns(self, held: Iterable[Event] = ()) -> int:
        """Return an instant after all recorded events and the `held` ones, or UNKNOWN."""
        since_ns = self._instant.since_ns
        if since_ns == UNKNOWN:
            return UNKNOWN
        ends = [each.ref_time_ns + each.error_ns + 1 for each in held if each.kind == DATA]
        return max([since_ns, *ends])

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        if not self._saved.is_in(state):
            begin_midstream(self.beginnings)
        yield from super().restoring(state, held)
