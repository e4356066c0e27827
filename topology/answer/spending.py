"""SPENDING: what going back has cost lately, and how far ahead it may therefore read at most.

`budget` chooses a wait whose price fits in the mean. Late events come in heaps, though: when a
silent source delivers again, all that was read since may be read again at once. What may still be
spent is known at each instant, from the window of the last `WINDOW_NS`:

    left = min(granted, FULL - busy) * window - what was read again

`busy` is all else that the processor does, reading for the first time included: in the window or in
its last span, whichever is more, since what was saved before a load came is not there under it.

An event beyond W can force a second reading only of what was read beyond W. So no more is read
beyond W than what is left pays for, `HEAPS` times on end:

    reach = left / (HEAPS * what reading for the first time takes of the processor)

For the span that follows a silence, reading is taken to cost at least what it did before: in a
silence nothing is read, which does not say that what comes is cheap. A silence is a span in which
nothing was read, or one that lasted longer than it should; of several in a row each shows more that
it truly is cheap, and what it took before counts for half as much.

It falls to nothing amid a span where all is spent, and grows again as the window moves on. What has
been read stays read; what comes behind it is read in at once, and the next two seconds pay for
what it takes beyond. So they do for what comes behind W, as from a source that was silent for
longer than MERGE waits: that has read again what is read with any wait.

Cost: O(1) for an instant in which something was read again, O(spans) for a span. Memory: four
numbers for each span of the window, and four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from topology.model.kept import INT, Kept, Shape, list_of, record
from topology.model.operator import NEVER

WHOLE: Final = 1_000_000
"""Parts per million."""
WINDOW_NS: Final = 2_000_000_000
FULL_PPM: Final = 850_000
"""What a processor may be taken, for all that it does."""
HEAPS: Final = 2
"""So often in two seconds may all be read again that was read ahead."""


class LoadSpan(NamedTuple):
    """What it took: `first_ns` and `again_ns` of reading, `others_ns` of all else."""

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


class Spending(Kept):
    """`span_ns`: how long the open span takes, if nothing keeps it. `left_ns`: what may yet be
    spent; less than nothing where more was. `reach_ns`: so far beyond W may be read."""

    SHAPE = SPENDING

    def __init__(self, granted_ppm: int, span_ns: int) -> None:
        self._granted_ppm = granted_ppm
        self._first_ppm = WHOLE
        self._least_first_ppm = 0
        """Reading for the first time took so much before a silence that is just over."""
        self._span_ns = span_ns
        self._spans: list[LoadSpan] = []
        """Those that are over and in the window, oldest first."""
        self._open_ns = 0
        """Read again in the span that is open."""
        self.left_ns = 0
        self.reach_ns = 0

    def spend(self, again_ns: int) -> None:
        """So much was just read again."""
        self._open_ns += again_ns
        self.left_ns -= again_ns
        self._reach()

    def end(self, span_ns: int, first_ns: int, others_ppm: int) -> None:
        """A span is over."""
        spans = self._spans
        self._least_first_ppm = self._first_before(span_ns, first_ns)
        spans.append(LoadSpan(span_ns, first_ns, self._open_ns, others_ppm * span_ns // WHOLE))
        self._open_ns = 0
        kept_ns = self._span_ns + sum(span.span_ns for span in spans)
        while kept_ns - spans[0].span_ns >= WINDOW_NS:
            kept_ns -= spans.pop(0).span_ns
        self._reckon()

    def _first_before(self, span_ns: int, first_ns: int) -> int:
        """What it took before the silence that the span is, or was until its last instant."""
        if not self._spans:
            return 0
        if not first_ns:
            return max(self._first_ppm, self._least_first_ppm)
        if span_ns > self._span_ns:
            return max(self._first_ppm, self._least_first_ppm // 2)
        return 0

    def _reckon(self) -> None:
        """From the spans, and the open one; what is kept beyond the window is not there to be
        spent."""
        spans = self._spans
        self._first_ppm = _busiest([span.first_ns for span in spans], spans)
        busy_ppm = _busiest([span.first_ns + span.others_ns for span in spans], spans)
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

    def settled(self) -> None:
        self._reckon()


def _busiest(work_ns: Sequence[int], spans: Sequence[LoadSpan]) -> int:
    """What this took in the spans, or in the last, whichever is more; in ppm."""
    if not spans:
        return WHOLE
    mean_ppm = sum(work_ns) * WHOLE // sum(span.span_ns for span in spans)
    return max(mean_ppm, work_ns[-1] * WHOLE // spans[-1].span_ns)
