"""Finds the shortest wait of speculative detectors whose price fits the granted load.

Detectors read up to the newest event less a wait. An event that is `l` behind the newest one forces
a second reading of everything that was read of the last `l` of event time. So a wait of w has a
price, the load of second readings:

    price(w) = rate * step * share * (sum of max(0, l - w) over the late events of a span) / span

A span lasts `SPAN_NS`. `rate` is the number of items per second and `step` the cost of one item,
both measured. `share` is the measured part of these items that is really read again, because of
keys, convergence, and several late events at once. Only the latest event of an instant counts. So
the price of a wait is computed before the wait is tried. The shortest wait is chosen whose price is
at most

    min(granted, FULL - first - others)

`granted` is the share of a processor that the user grants, and `first` the load of first readings.
`others` is the load of other programs, as far as the driver reports it. In one span the wait may
fall to a half at most, but it may rise without limit. If the wait reaches back to W, detectors read
only up to W.

The price holds on average. `spending` also bounds the cost within every two seconds, by limiting
how far after W detectors read.

Counts of late events decay by 1/32 in each span. They are in the buckets of
`topology.state.histogram`, eight for each octave; waits have the same precision.

Cost: O(1) for an event, O(buckets^2) for a span. Memory: a few hundred numbers.
"""

from __future__ import annotations

from typing import Final

from topology.answer.spending import FULL_PPM, SPENDING, WHOLE, Spending
from topology.base.operator import NEVER
from topology.state.histogram import bucket_of, upper_edge_ns
from topology.state.saved import INT, Saved, Shape, list_of

SPAN_NS: Final = 100_000_000
FADES: Final = 32
UNIT: Final = 1 << 10
"""The amount by which one late event raises its count."""
BUCKETS: Final = 480
"""The number of buckets, eight for each octave of nanoseconds (`topology.state.histogram`)."""
SMALL_NS: Final = 1_000_000
"""A wait below twice this value may fall to any value at once, not only to a half."""


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


class Budget(Saved):
    """The wait whose price fits `granted_ppm` of a processor, chosen again after each span."""

    SHAPE = BUDGET

    def __init__(self, granted_ppm: int, span_ns: int = SPAN_NS) -> None:
        self.granted_ppm = granted_ppm
        self.first_ppm = 0
        self.others_ppm = 0
        self._late: list[int] = []
        self._spans = 0
        """The number of spans in the counts of late events, decayed like them; scaled by `UNIT`."""
        self._expected = 0
        self._came = 0
        self._wait_ns = -1
        self.spending = Spending(granted_ppm, span_ns)
        self.price_ppm = 0
        """The expected price of the current wait."""

    @property
    def room_ppm(self) -> int:
        """The load that second readings may cause."""
        return max(min(self.granted_ppm, FULL_PPM - self.first_ppm - self.others_ppm), 0)

    def wait_ns(self, ahead_ns: int) -> int:
        return max(self.chosen_wait_ns(ahead_ns), ahead_ns - self.spending.reach_ns)

    def chosen_wait_ns(self, ahead_ns: int) -> int:
        """Return the wait whose price fits on average."""
        return ahead_ns if self._wait_ns < 0 else min(self._wait_ns, ahead_ns)

    def note_late(self, late_ns: int) -> None:
        """Count the largest lateness among the events of an instant; it is ignored if it is 0."""
        if late_ns <= 0:
            return
        number = min(bucket_of(late_ns), BUCKETS - 1)
        self._late += [0] * (number + 1 - len(self._late))
        self._late[number] += UNIT

    def end_span(self, span_ns: int, first_ns: int, ahead_ns: int, items: int, again: int) -> None:
        """Record the costs of a span that has ended, and choose the wait for the next one.

        `items` were read for the first time, at a cost of `first_ns`, and `again` items a second
        time.
        """
        late = self._late
        self._spans += UNIT
        self.first_ppm = first_ns * WHOLE // span_ns
        self.spending.end(span_ns, first_ns, self.others_ppm)
        if items > 0:
            expected = self._estimate_rereads(self.chosen_wait_ns(ahead_ns), items, span_ns)
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
        """The share of the expected second readings that really took place, in ppm."""
        if self._expected <= 0 or self._came >= self._expected:
            return WHOLE
        return max(self._came * WHOLE // self._expected, 1_000)

    def _choose(self, ahead_ns: int, items: int, span_ns: int, step_ns: int) -> None:
        candidates = [0, *[upper_edge_ns(n) for n, count in enumerate(self._late) if count]]
        room_ppm = self.room_ppm
        best_ns, best_ppm = NEVER, 0
        for wait_ns in candidates:
            again = self._estimate_rereads(wait_ns, items, span_ns) * self.share_ppm // WHOLE
            price_ppm = -(-again * step_ns * WHOLE // (span_ns * UNIT))
            if price_ppm <= room_ppm:
                best_ns, best_ppm = wait_ns, price_ppm
                break
        before_ns = self.chosen_wait_ns(ahead_ns)
        self._wait_ns = best_ns if before_ns < 2 * SMALL_NS else max(best_ns, before_ns // 2)
        self.price_ppm = best_ppm

    def _estimate_rereads(self, wait_ns: int, items: int, span_ns: int) -> int:
        """Return `UNIT` times the items that a span reads again if late events arrive singly."""
        total_ns = 0
        for number, count in enumerate(self._late):
            if count:
                total_ns += count * max(upper_edge_ns(number) - wait_ns, 0)
        return UNIT * total_ns * items // (span_ns * max(self._spans, UNIT))
