"""Counts times in a histogram, and finds the wait that only a given share of them exceeds.

There are eight buckets per octave of nanoseconds, so the upper edge of a bucket is at most 1/8
above any value in the bucket. All arithmetic is in integers, so the same samples give the same edge
on every machine.

Cost: O(1) to add a sample. The edge moves with the samples, so reading it costs O(1) amortized.
Memory: one dict entry for each bucket in use, at most 480.

It is used for the times after which gaps were filled, and for the delays of events.
"""

from __future__ import annotations

from typing import Final

from topology.base.native import mypyc_attr
from topology.state.saved import INT, Saved, Shape, dict_of

PPM: Final = 1_000_000
HALVE_EVERY: Final = 4096
"""All counts are halved after this many trials, so that old samples lose weight."""
UNIT: Final = 1024
"""The amount that one sample or trial adds to a count.

With this amount, a single sample in the tail survives ten halvings. With 1, the first halving would
remove it, and waits would be too short.
"""


def bucket_of(value_ns: int) -> int:
    """Return the index of the bucket of a time. Negative times count as 0."""
    if value_ns < 8:
        return value_ns if value_ns > 0 else 0
    shift = value_ns.bit_length() - 4
    return 8 * shift + (value_ns >> shift)


def upper_edge_ns(bucket: int) -> int:
    """Return the largest time that falls into the bucket."""
    if bucket < 8:
        return bucket
    shift = (bucket >> 3) - 1
    return (((bucket & 7) + 9) << shift) - 1


HISTOGRAM: Final = Shape("histogram", 1, _trials=INT, since_halved=INT, _counts=dict_of(INT, INT))


@mypyc_attr(acyclic=True)
class Histogram(Saved):
    """A histogram of samples, with the number of trials and the edge of its tail.

    `edge_ns()` is the smallest upper edge w with (samples above w) / trials <= `miss_ppm` / 10^6. A
    trial without a sample, such as a gap that was never filled, makes the edge smaller.
    """

    SHAPE = HISTOGRAM
    __slots__ = (*HISTOGRAM.fields, "_above", "_edge_ns", "_index", "miss_ppm")

    def __init__(self, miss_ppm: int) -> None:
        self.miss_ppm = miss_ppm
        self._trials = 0
        self._counts: dict[int, int] = {}
        self._index = 0
        self._edge_ns = 0  # The upper edge of the bucket `_index`.
        self._above = 0
        self.since_halved = 0

    @property
    def trials(self) -> int:
        """The number of trials; older trials have less weight (`HALVE_EVERY`)."""
        return self._trials // UNIT

    def trial(self) -> None:
        self._trials += UNIT
        self.since_halved += 1
        if self.since_halved >= HALVE_EVERY:
            self._halve()

    def add_to_bucket(self, bucket: int) -> None:
        """Add a sample to the bucket of its value; its trial must have been counted before."""
        counts = self._counts
        counts[bucket] = counts.get(bucket, 0) + UNIT
        if bucket > self._index:
            self._above += UNIT

    def add(self, value_ns: int) -> None:
        """Count a trial and add its sample; one function, because it runs for every event."""
        if value_ns >= 8:
            shift = value_ns.bit_length() - 4
            bucket = 8 * shift + (value_ns >> shift)
        else:
            bucket = bucket_of(value_ns)
        counts = self._counts
        counts[bucket] = counts.get(bucket, 0) + UNIT
        if bucket > self._index:
            self._above += UNIT
        self._trials += UNIT
        self.since_halved += 1
        if self.since_halved >= HALVE_EVERY:
            self._halve()

    def add_all(self, values: list[int]) -> None:
        """Count a trial and add a sample for each of the values.

        Successive values are often in the same bucket, which is then looked up only once.
        """
        if len(values) == 1 or self.since_halved + len(values) >= HALVE_EVERY:
            for value_ns in values:
                self.add(value_ns)
            return
        self._trials += UNIT * len(values)
        self.since_halved += len(values)
        counts = self._counts
        # The last `alike` values are all in this bucket, whose range is `low_ns` to `high_ns` - 1.
        # A negative value is never in this range, so the -1 at the end adds the last run.
        low_ns = high_ns = bucket = alike = 0
        for value_ns in [*values, -1]:
            if low_ns <= value_ns < high_ns:
                alike += 1
                continue
            if alike:
                counts[bucket] = counts.get(bucket, 0) + UNIT * alike
                if bucket > self._index:
                    self._above += UNIT * alike
            # The bucket is `bucket_of(value_ns)`, and the range is up to its `upper_edge_ns`.
            shift = value_ns.bit_length() - 4 if value_ns >= 8 else 0
            top = value_ns >> shift if value_ns > 0 else 0
            bucket = 8 * shift + top
            low_ns = top << shift
            high_ns = low_ns + (1 << shift)
            alike = 1

    def edge_ns(self) -> int:
        allowed = self._trials * self.miss_ppm
        counts = self._counts
        index = self._index
        above = self._above
        if above * PPM <= allowed and (
            index == 0 or (above + counts.get(index, 0)) * PPM > allowed
        ):
            return self._edge_ns  # The edge has not moved.
        while above * PPM > allowed:
            index += 1
            above -= counts.get(index, 0)
        while index > 0:
            with_this = above + counts.get(index, 0)
            if with_this * PPM > allowed:
                break
            above = with_this
            index -= 1
        self._index = index
        self._above = above
        self._edge_ns = upper_edge_ns(index)
        return self._edge_ns

    def _halve(self) -> None:
        self.since_halved = 0
        self._trials //= 2
        self._counts = {b: n // 2 for b, n in self._counts.items() if n > 1}
        self._above = sum(n for b, n in self._counts.items() if b > self._index)

    def derive(self) -> None:
        counts = self._counts
        self._above = sum(counts.values()) - counts.get(0, 0)
