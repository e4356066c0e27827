"""A histogram of times and the wait that only a wanted share exceeds.

Eight buckets per octave of nanoseconds, so an edge is at most 1/8 above the value
it represents, with integer arithmetic only: the same samples give the same edge on
every machine. Adding is O(1); the edge is kept as a pointer that moves with the
samples, so asking for it costs O(1) amortised. Memory: one dict entry per bucket
in use, at most 480.

Used for the fill times of holes and for the delays of events.
"""

from __future__ import annotations

from typing import Final

from topology.model.kept import INT, Kept, Shape, dict_of

PPM: Final = 1_000_000
HALVE_EVERY: Final = 4096
"""All counts are halved after so many trials, so that old samples fade."""
UNIT: Final = 1024
"""What one sample or trial counts, so that a tail of single samples survives being
halved ten times over; rounded down at once, it would be forgotten and waits too short."""


def bucket_of(value_ns: int) -> int:
    """Index of the bucket of a time; negative times count as 0."""
    if value_ns < 8:
        return value_ns if value_ns > 0 else 0
    shift = value_ns.bit_length() - 4
    return 8 * shift + (value_ns >> shift)


def upper_edge_ns(bucket: int) -> int:
    """The largest time that falls into the bucket."""
    if bucket < 8:
        return bucket
    shift = (bucket >> 3) - 1
    return (((bucket & 7) + 9) << shift) - 1


HISTOGRAM: Final = Shape("histogram", 1, _trials=INT, since_halved=INT, _counts=dict_of(INT, INT))


class Histogram(Kept):
    """Samples, the number of trials they come from, and the edge of their tail.

    `edge_ns()` is the smallest upper edge w with
    (samples above w) / trials <= `miss_ppm` / 10^6. Trials that gave no sample
    (holes that never filled) make the edge smaller.
    """

    SHAPE = HISTOGRAM
    __slots__ = (*HISTOGRAM.fields, "_above", "_edge_ns", "_index", "miss_ppm")

    def __init__(self, miss_ppm: int) -> None:
        self.miss_ppm = miss_ppm
        self._trials = 0
        self._counts: dict[int, int] = {}
        self._index = 0
        self._edge_ns = 0  # the upper edge of that bucket
        self._above = 0
        self.since_halved = 0

    @property
    def trials(self) -> int:
        """Trials that still count."""
        return self._trials // UNIT

    def trial(self) -> None:
        self._trials += UNIT
        self.since_halved += 1
        if self.since_halved >= HALVE_EVERY:
            self._halve()

    def sample_in(self, bucket: int) -> None:
        """`sample`, for one who knows the bucket of the value."""
        counts = self._counts
        counts[bucket] = counts.get(bucket, 0) + UNIT
        if bucket > self._index:
            self._above += UNIT

    def add(self, value_ns: int) -> None:
        """A trial that gave a sample: both in one, for it is done per event."""
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
        """`add` for each in turn. Times that follow one another are often of one bucket, which is
        then found, and counted in, once."""
        if len(values) == 1 or self.since_halved + len(values) >= HALVE_EVERY:
            for value_ns in values:
                self.add(value_ns)
            return
        self._trials += UNIT * len(values)
        self.since_halved += len(values)
        counts = self._counts
        low_ns = high_ns = bucket = alike = 0  # so many lie in the bucket from low to below high
        for value_ns in values:
            if low_ns <= value_ns < high_ns:
                alike += 1
                continue
            if alike:
                counts[bucket] = counts.get(bucket, 0) + UNIT * alike
                if bucket > self._index:
                    self._above += UNIT * alike
            bucket = bucket_of(value_ns)
            high_ns = upper_edge_ns(bucket) + 1
            low_ns = high_ns - (1 << max(0, (bucket >> 3) - 1))
            alike = 1
        if alike:
            counts[bucket] = counts.get(bucket, 0) + UNIT * alike
            if bucket > self._index:
                self._above += UNIT * alike

    def edge_ns(self) -> int:
        allowed = self._trials * self.miss_ppm
        counts = self._counts
        index = self._index
        above = self._above
        if above * PPM <= allowed and (
            index == 0 or (above + counts.get(index, 0)) * PPM > allowed
        ):
            return self._edge_ns  # where it was
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

    def settled(self) -> None:
        counts = self._counts
        self._above = sum(counts.values()) - counts.get(0, 0)
