"""Bounds how far after W detectors read, by the recent cost of rollbacks.

`budget` chooses a wait whose price fits on average. But late events come in bursts: when a silent
source delivers again, everything that was read during its silence may be read again at once. At
each instant, the window of the last `WINDOW_NS` determines how much is left to spend:

    left = min(granted, FULL - busy) * window - the cost of second readings

`busy` is the load of everything else, first readings included. It is the mean load of the window,
or the load of its last span if that is larger. A burst may use the savings of the window.

An event after W can force a second reading only of events read after W. So detectors read only
events after W that the amount left pays for `HEAPS` times:

    reach = left / (HEAPS * the load of first readings)

A silence is a span without a reading, or one that lasted too long. A silence does not show that the
next readings are cheap. So in the span after it, the load of first readings is taken to be at least
the load before it. Each span that lasted too long halves this assumed load.

The reach falls to zero within a span if everything is spent, and grows again as the window
advances. Detectors do not undo what they have read. A late event among the events they have read is
processed at once, and the following two seconds pay the excess. The same holds for an event before
W, from a source that was silent for longer than MERGE waits. Such an event causes a rollback
whatever the wait is.

Cost: O(1) for an instant with second readings, O(spans) for a span. Memory: four numbers for each
span of the window, and four more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from topology.base.operator import NEVER
from topology.state.saved import INT, Saved, Shape, list_of, record

WHOLE: Final = 1_000_000
"""Parts per million."""
WINDOW_NS: Final = 2_000_000_000
FULL_PPM: Final = 850_000
"""The total load of a processor that may be used."""
HEAPS: Final = 2
"""How many times within two seconds all speculative work may be repeated."""


class LoadSpan(NamedTuple):
    """The load of a span: first and second readings, and everything else."""

    span_ns: int
    first_ns: int
    again_ns: int
    others_ns: int


SPENDING: Final = Shape(
    "answer.spending",
    1,
    _open_ns=INT,
    _spans=list_of(record(LoadSpan, span_ns=INT, first_ns=INT, again_ns=INT, others_ns=INT)),
    _least_first_ppm=INT,
)


class Spending(Saved):
    """The account of second readings within the last two seconds.

    `span_ns` is the usual length of a span. `left_ns` may still be spent; it is negative after an
    excess. Detectors may read up to `reach_ns` after W.
    """

    SHAPE = SPENDING

    def __init__(self, granted_ppm: int, span_ns: int) -> None:
        self._granted_ppm = granted_ppm
        self._first_ppm = WHOLE
        self._least_first_ppm = 0
        """The least load of first readings to assume, from before a silence; 0 if there was none.
        """
        self._span_ns = span_ns
        self._spans: list[LoadSpan] = []
        """The finished spans of the window, oldest first."""
        self._open_ns = 0
        """The cost of second readings in the open span."""
        self.left_ns = 0
        self.reach_ns = 0

    def spend(self, again_ns: int) -> None:
        """Charge the cost of second readings."""
        self._open_ns += again_ns
        self.left_ns -= again_ns
        self._reach()

    def end(self, span_ns: int, first_ns: int, others_ppm: int) -> None:
        """End a span of `span_ns`, in which first readings cost `first_ns`."""
        spans = self._spans
        self._least_first_ppm = self._first_before_silence_ppm(span_ns, first_ns)
        spans.append(LoadSpan(span_ns, first_ns, self._open_ns, others_ppm * span_ns // WHOLE))
        self._open_ns = 0
        kept_ns = self._span_ns + sum(span.span_ns for span in spans)
        while kept_ns - spans[0].span_ns >= WINDOW_NS:
            kept_ns -= spans.pop(0).span_ns
        self._update_loads()

    def _first_before_silence_ppm(self, span_ns: int, first_ns: int) -> int:
        """Return the load of first readings before the silence in the span, or 0 without one."""
        if not self._spans:
            return 0
        if not first_ns:
            return max(self._first_ppm, self._least_first_ppm)
        if span_ns > self._span_ns:
            return max(self._first_ppm, self._least_first_ppm // 2)
        return 0

    def _update_loads(self) -> None:
        """Compute the loads and the amount left; savings from before the window are lost."""
        spans = self._spans
        self._first_ppm = _highest_load_ppm([span.first_ns for span in spans], spans)
        busy_ppm = _highest_load_ppm([span.first_ns + span.others_ns for span in spans], spans)
        window_ns = min(self._span_ns + sum(span.span_ns for span in spans), WINDOW_NS)
        again_ns = self._open_ns + sum(span.again_ns for span in spans)
        self.left_ns = min(self._granted_ppm, FULL_PPM - busy_ppm) * window_ns // WHOLE - again_ns
        self._reach()

    def _reach(self) -> None:
        first_ppm = max(self._first_ppm, self._least_first_ppm)
        if self.left_ns <= 0:
            self.reach_ns = 0
        elif first_ppm > 0:
            self.reach_ns = min(self.left_ns * WHOLE // (HEAPS * first_ppm), NEVER)
        else:
            self.reach_ns = NEVER

    def derive(self) -> None:
        self._update_loads()


def _highest_load_ppm(work_ns: Sequence[int], spans: Sequence[LoadSpan]) -> int:
    """Return the mean load of the spans, or that of the last if it is larger, in ppm."""
    if not spans:
        return WHOLE
    mean_ppm = sum(work_ns) * WHOLE // sum(span.span_ns for span in spans)
    return max(mean_ppm, work_ns[-1] * WHOLE // spans[-1].span_ns)
