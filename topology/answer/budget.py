"""BUDGET: the shortest wait behind the newest event whose price is granted.

Reading early costs what is read again when a late event comes. An event that comes `l` behind the
newest forces a second reading of everything that was read of the last `l`. So with a wait of w

    price(w) = sum over the late events of a span:  rate * max(0, l - w) * step * share

`rate` is items a second and `step` what one costs, both measured. `share` is how much of this is
truly read again (keys, convergence, several late events at once); it is measured, too, under the
wait that was kept. So the price of each wait is known before it is tried, and so is how busy the
processor is without any of it. The shortest wait is taken that fits into

    min(granted, FULL - first - others)

where `granted` is the user's share, `first` what the rest of the work takes and `others` what else
the processor does, as far as the driver reports it. The wait falls to a half in a span at most, and
rises at once. Where even the whole wait costs too much, the wait is whole: nothing is read again.

The price holds in the mean. `spending` bounds how far beyond W is read, so that it also holds in
each two seconds.

What is known of late events fades by a thirty-second in a span. Lateness is counted in the buckets
of `topology.model.histogram`, which grow by an eighth each, so a wait is right to as much.

The published control adapts its wait by trial instead (Reliable Speculative Processing, 4.4).

Cost: O(1) for an event, O(buckets) for a span. Memory: some hundred numbers.
"""

from __future__ import annotations

from typing import Final

from topology.answer.spending import FULL_PPM, SPENDING, WHOLE, Spending
from topology.model.histogram import bucket_of, upper_edge_ns
from topology.model.kept import INT, Kept, Shape, list_of
from topology.model.operator import NEVER

SPAN_NS: Final = 100_000_000
FADES: Final = 32
UNIT: Final = 1 << 10
"""What one late event counts for."""
BUCKETS: Final = 480
"""The buckets of `topology.model.histogram`: eight for each octave of nanoseconds."""
SMALL_NS: Final = 1_000_000
"""Below twice that a wait is set as it is wanted, and not by halves."""


BUDGET: Final = Shape(
    "answer.budget",
    1,
    _spans=INT,
    _wait_ns=INT,
    _expected=INT,
    _came=INT,
    price_ppm=INT,
    first_ppm=INT,
    spending=SPENDING,
    _late=list_of(INT),
)


class Budget(Kept):
    """`granted_ppm`: of a processor."""

    SHAPE = BUDGET

    def __init__(self, granted_ppm: int, span_ns: int = SPAN_NS) -> None:
        self.granted_ppm = granted_ppm
        self.first_ppm = 0
        self.others_ppm = 0
        self._late: list[int] = []
        self._spans = 0
        """Over how many spans, faded as they are, the late ones came; in units, too."""
        self._expected = 0
        self._came = 0
        self._wait_ns = -1
        self.spending = Spending(granted_ppm, span_ns)
        self.price_ppm = 0
        """What is expected of the wait that is kept."""

    @property
    def room_ppm(self) -> int:
        """What reading again may take."""
        return max(min(self.granted_ppm, FULL_PPM - self.first_ppm - self.others_ppm), 0)

    def wait_ns(self, ahead_ns: int) -> int:
        return max(self.chosen_ns(ahead_ns), ahead_ns - self.spending.reach_ns)

    def chosen_ns(self, ahead_ns: int) -> int:
        """The wait whose price fits, were it the mean alone."""
        return ahead_ns if self._wait_ns < 0 else min(self._wait_ns, ahead_ns)

    def note_late(self, late_ns: int) -> None:
        """How far behind the newest event the latest one of an instant came."""
        if late_ns <= 0:
            return
        number = min(bucket_of(late_ns), BUCKETS - 1)
        self._late += [0] * (number + 1 - len(self._late))
        self._late[number] += UNIT

    def weigh(self, span_ns: int, first_ns: int, ahead_ns: int, items: int, again: int) -> None:
        """A span is over, in which so many items were read for the first time, and again.
        `first_ns`: what the first reading took."""
        late = self._late
        self._spans += UNIT
        self.first_ppm = first_ns * WHOLE // span_ns
        self.spending.end(span_ns, first_ns, self.others_ppm)
        if items > 0:
            expected = self._again(self.chosen_ns(ahead_ns), items, span_ns)
            self._expected += expected - self._expected // FADES
            self._came += UNIT * again - self._came // FADES
            self._choose(ahead_ns, items, span_ns, first_ns // items)
        for number, count in enumerate(late):
            late[number] = count - -(-count // FADES)
        self._spans -= -(-self._spans // FADES)
        while late and not late[-1]:
            late.pop()

    @property
    def share_ppm(self) -> int:
        """How much of what would be read again, were each late one alone, is."""
        if self._expected <= 0 or self._came >= self._expected:
            return WHOLE
        return max(self._came * WHOLE // self._expected, 1_000)

    def _choose(self, ahead_ns: int, items: int, span_ns: int, step_ns: int) -> None:
        candidates = [0, *[upper_edge_ns(n) for n, count in enumerate(self._late) if count]]
        room_ppm = self.room_ppm
        best_ns, best_ppm = NEVER, 0
        for wait_ns in candidates:
            again = self._again(wait_ns, items, span_ns) * self.share_ppm // WHOLE
            price_ppm = -(-again * step_ns * WHOLE // (span_ns * UNIT))
            if price_ppm <= room_ppm:
                best_ns, best_ppm = wait_ns, price_ppm
                break
        before_ns = self.chosen_ns(ahead_ns)
        self._wait_ns = best_ns if before_ns < 2 * SMALL_NS else max(best_ns, before_ns // 2)
        self.price_ppm = best_ppm

    def _again(self, wait_ns: int, items: int, span_ns: int) -> int:
        """Items that would be read again in a span, were each late one alone; in units."""
        total_ns = 0
        for number, count in enumerate(self._late):
            if count:
                total_ns += count * max(upper_edge_ns(number) - wait_ns, 0)
        return UNIT * total_ns * items // (span_ns * max(self._spans, UNIT))
