"""SPENDING: what going back has cost lately, and how far ahead it may therefore read at most.

`budget` chooses a wait whose price fits in the mean. Late events come in heaps, though: when a
silent source delivers again, all that was read since may be read again at once. What may still be
spent is known at each instant, from the window of the last `WINDOW_NS`:

    of a query       left = granted * window - what it read again
    of a processor   left = (FULL - busy) * window - what all its queries read again

`busy` is all else that it does, reading for the first time included: in the window or in its last
span, whichever is more, since what was saved before a load came is not there under it.

An event beyond W can force a second reading only of what was read beyond W. So the detector reads
no more beyond W than what is left pays for, `HEAPS` times on end:

    reach = left / (HEAPS * what reading for the first time takes of the processor)

For the span that follows a silence, reading is taken to cost at least what it did before: in a
silence nothing is read, which does not say that what comes is cheap. A silence is a span in which
nothing of the query's came, or one that lasted longer than it should; of several in a row each
shows more that it truly is cheap, and what it took before counts for half as much.

It falls to nothing amid a span where all is spent, and grows again as the window moves on. What has
been read stays read; what comes behind it is read in at once, and the next two seconds pay for
what it takes beyond. So they do for what comes behind W, as from a source that was silent for
longer than MERGE waits: that has read again what is read with any wait.

Cost: O(1) for an instant in which something was read again, O(spans of all queries) for a span.
Memory: four numbers for each span of the window, and two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from topology.model.operator import NEVER, Plain

WHOLE: Final = 1_000_000
"""Parts per million."""
WINDOW_NS: Final = 2_000_000_000
FULL_PPM: Final = 850_000
"""What a processor may be taken, for all that it does."""
HEAPS: Final = 2
"""So often in two seconds may all be read again that was read ahead."""


class Load(NamedTuple):
    """What a span of `span_ns` cost: `first_ns` for what was read for the first time (and all else
    that has to be done), `again_ns` for what was read again, and for keeping the way back."""

    first_ns: int
    again_ns: int
    span_ns: int

    @property
    def busy_ppm(self) -> int:
        """May exceed 10^6. It is not known of an empty span, and counts as all."""
        if self.span_ns <= 0:
            return WHOLE
        return (self.first_ns + self.again_ns) * WHOLE // self.span_ns


class LoadSpan(NamedTuple):
    """What it took: `first_ns` and `again_ns` of the query, `others_ns` of what belongs to none."""

    span_ns: int
    first_ns: int
    again_ns: int
    others_ns: int


class Spending:
    """What one query spends. `span_ns`: how long the open span takes, if nothing keeps it."""

    def __init__(self, granted_ppm: int, span_ns: int) -> None:
        self._granted_ppm = granted_ppm
        self._reach_ns = 0
        self._first_ppm = WHOLE
        self.least_first_ppm = 0
        """Reading for the first time took so much before a silence that is just over."""
        self.span_ns = span_ns
        self.spans: list[LoadSpan] = []
        """Those that are over and in the window, oldest first."""
        self.open_ns = 0
        """Read again in the span that is open."""
        self.processor = Processor([self])

    @property
    def reach_ns(self) -> int:
        """So far beyond W may be read."""
        return min(self._reach_ns, self.processor.reach_ns)

    @property
    def left_ns(self) -> int:
        """What it may yet spend; less than nothing where it has spent more."""
        return min(self._own_left_ns, self.processor.left_ns)

    @property
    def _own_left_ns(self) -> int:
        return self._granted_ppm * self.window_ns // WHOLE - self.again_ns

    @property
    def window_ns(self) -> int:
        """The spans in it, and the open one; what is kept beyond is not there to be spent."""
        return min(self.span_ns + sum(span.span_ns for span in self.spans), WINDOW_NS)

    @property
    def again_ns(self) -> int:
        """Read again in the window."""
        return self.open_ns + sum(span.again_ns for span in self.spans)

    def spend(self, again_ns: int) -> None:
        """So much was just read again."""
        if again_ns:
            self.open_ns += again_ns
            self._reckon()
            self.processor.spend(again_ns)

    def end(self, span_ns: int, first_ns: int, others_ppm: int) -> None:
        """A span is over; where queries share a processor, its own is when it is for all."""
        others_ns = others_ppm * span_ns // WHOLE
        self.least_first_ppm = self._first_before(span_ns, first_ns)
        self.spans.append(LoadSpan(span_ns, first_ns, self.open_ns, others_ns))
        self.open_ns = 0
        kept_ns = self.span_ns + sum(span.span_ns for span in self.spans)
        while kept_ns - self.spans[0].span_ns >= WINDOW_NS:
            kept_ns -= self.spans.pop(0).span_ns
        self._reckon()
        self.processor.span_ended(self)

    def _first_before(self, span_ns: int, first_ns: int) -> int:
        """What it took before the silence that the span is, or was until its last instant."""
        if not self.spans:
            return 0
        if not first_ns:
            return max(self._first_ppm, self.least_first_ppm)
        if span_ns > self.span_ns:
            return max(self._first_ppm, self.least_first_ppm // 2)
        return 0

    def _reckon(self) -> None:
        self._first_ppm = _busiest([[span.first_ns for span in self.spans]], self.spans)
        self._reach_ns = _reach(self._own_left_ns, max(self._first_ppm, self.least_first_ppm))

    def snapshot(self) -> Plain:
        return [self.open_ns, [list(span) for span in self.spans], self.least_first_ppm]

    def restore(self, plain: Plain) -> None:
        self.open_ns, spans, self.least_first_ppm = plain
        self.spans = [LoadSpan(*span) for span in spans]
        self._reckon()
        self.processor.span_ended(self)


class Processor:
    """What all queries that read ahead on it have left in common."""

    def __init__(self, queries: Sequence[Spending]) -> None:
        self._queries = queries
        self._first_ppm = 0
        self.left_ns = 0
        self.reach_ns = 0
        for each in queries:
            each.processor = self

    def spend(self, again_ns: int) -> None:
        """One of them just read so much again."""
        self.left_ns -= again_ns
        self.reach_ns = _reach(self.left_ns, self._first_ppm)

    def span_ended(self, query: Spending) -> None:
        """The spans of one are others now; where there are several, wait until all are known."""
        if len(self._queries) == 1:
            self.reckon()

    def reckon(self) -> None:
        """The spans of all are known."""
        longest = max(self._queries, key=_length)
        firsts = [[span.first_ns for span in each.spans] for each in self._queries]
        others = [[span.others_ns for span in longest.spans]]
        busy_ppm = _busiest(firsts + others, longest.spans)
        again_ns = sum(each.again_ns for each in self._queries)
        least_ppm = sum(each.least_first_ppm for each in self._queries)
        self._first_ppm = max(_busiest(firsts, longest.spans), least_ppm)
        self.left_ns = (FULL_PPM - busy_ppm) * longest.window_ns // WHOLE - again_ns
        self.reach_ns = _reach(self.left_ns, self._first_ppm)


def _length(query: Spending) -> int:
    return len(query.spans)


def _busiest(works: Sequence[Sequence[int]], spans: Sequence[LoadSpan]) -> int:
    """What these took together in the spans, or in the last, whichever is more; in ppm."""
    if not spans:
        return WHOLE
    mean_ppm = sum(map(sum, works)) * WHOLE // sum(span.span_ns for span in spans)
    last_ppm = sum(work[-1] for work in works if work) * WHOLE // spans[-1].span_ns
    return max(mean_ppm, last_ppm)


def _reach(left_ns: int, first_ppm: int) -> int:
    if left_ns <= 0:
        return 0
    return min(left_ns * WHOLE // (HEAPS * first_ppm), NEVER) if first_ppm > 0 else NEVER
