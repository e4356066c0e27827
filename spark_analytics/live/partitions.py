"""Partitions as micro-batches read them: up to when the log is known, and the number of each line.

The partitions are those of the input topics and of the clocks' topic. A batch takes a stretch of
each partition, of any length; the order of the log (that of `inorder dump`: by arrival, clocks
first, then by topic, partition and offset) does not depend on the batches. So a line is released
only when no line can come before it any more: when every partition has promised a later arrival.

* A partition promises the arrival of its last line, because its clock never goes back.
* A partition from which a batch took nothing was at its end when the batch was planned: any other
  gets a share of at least one offset. It promises the batch's time less the tick lag. The lag
  covers two differences: how far the broker's clock is behind Spark's, and how long before the
  batch's time Spark looked at the ends.
* A share that holds only marks of transactions has no lines (`HIDDEN`). The groups do not learn
  which partition it belongs to, so in such a batch partitions without lines promise no more than
  before. After `MOST_HIDDEN` such batches in a row, a partition without lines promises what it
  would have promised at the first of them; otherwise a partition whose transactions are all aborted
  would stop time for ever. Records that arrived earlier, and are read after that, are overtaken.

Lines beyond the least promise wait. A record that breaks a promise arrives before an instant up to
which the operators have run: it counts as arriving at that instant, and is *overtaken*.

The number of a line is its place in that order, from 1, as `inorder replay` counts the lines of a
dump. A group of streams does not see the lines of other groups. It receives only how many of them
arrived at which time (`Stretch.runs`), which is enough to count. All groups receive clock lines.

Cost: each line takes one bisection in each other partition; each partition takes a pair of integers
for each millisecond in which waiting lines arrived.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

BEFORE_EVERYTHING_NS: Final = -(1 << 62)
CLOCK: Final = 0
RAW: Final = 1


class PartitionName(NamedTuple):
    """Names sort as lines of one arrival do. `rank`: CLOCK or RAW."""

    rank: int
    topic: str
    partition: int


HIDDEN: Final = PartitionName(-1, "", -1)
"""An unknown partition, of which a task of a batch took offsets and saw no record."""

MOST_HIDDEN: Final = 8
"""So many batches in a row with such a share show that a partition without lines was at its end at
the first of them."""


class Stretch(NamedTuple):
    """What one batch, or one task of it, has read of a partition. `first`: the first offset;
    `lines`: the number of lines; `arrival_ns`: the arrival of the last line by the stretch's own
    clock; `runs`: pairs, flattened, of an arrival and the number of lines that have it; empty for
    the clocks' topic."""

    name: PartitionName
    first: int
    lines: int
    arrival_ns: int
    runs: Sequence[int]


class Waiting(NamedTuple):
    """A line that is not released yet; `place` is its number among the lines of its partition."""

    arrival_ns: int
    name: PartitionName
    place: int
    packed: tuple[Any, ...]


class Partition:
    """One partition. `received` and `released` count its lines; the lines between them wait.
    `arrivals` are the different arrivals of the waiting lines, `counts` how many lines wait up to
    each. `hidden`: the times of the last batches in a row that had a share of marks and no line of
    this partition. `promised_ns` is the last promise; a restored partition has promised nothing."""

    def __init__(
        self,
        clock_ns: int = BEFORE_EVERYTHING_NS,
        received: int = 0,
        runs: Sequence[int] = (),
        hidden: Sequence[int] = (),
    ) -> None:
        self.clock_ns = clock_ns
        self.received = received
        self.hidden = list(hidden)
        self.promised_ns = BEFORE_EVERYTHING_NS
        self.arrivals: list[int] = []
        self.counts: list[int] = []
        self._wait(runs)

    def _wait(self, runs: Sequence[int], begin_ns: int = BEFORE_EVERYTHING_NS) -> None:
        """Count the lines of these runs as waiting; none arrives before `begin_ns`."""
        for own_ns, lines in zip(runs[::2], runs[1::2], strict=True):
            arrival_ns = max(own_ns, begin_ns)
            if not self.arrivals or self.arrivals[-1] != arrival_ns:
                self.arrivals.append(arrival_ns)
                self.counts.append(self.waiting)
            self.counts[-1] += lines

    @property
    def waiting(self) -> int:
        return self.counts[-1] if self.counts else 0

    @property
    def released(self) -> int:
        return self.received - self.waiting

    def add(self, stretch: Stretch, begin_ns: int) -> None:
        self._wait(stretch.runs, begin_ns)
        self.received += stretch.lines
        self.clock_ns = max(stretch.arrival_ns, begin_ns)

    def before(self, arrival_ns: int) -> int:
        """How many lines have arrived before this time."""
        return self._up_to(bisect_left(self.arrivals, arrival_ns))

    def by(self, arrival_ns: int) -> int:
        """How many lines have arrived by this time, inclusive."""
        return self._up_to(bisect_right(self.arrivals, arrival_ns))

    def _up_to(self, at: int) -> int:
        return self.released + (self.counts[at - 1] if at else 0)

    def promise(self, quiet_ns: int, *, is_read: bool, hides: bool) -> None:
        """Set the promise after a batch. `is_read`: the batch brought lines of this partition;
        `hides`: it had a share of marks."""
        if hides and not is_read:
            self.hidden = [*self.hidden, quiet_ns][-MOST_HIDDEN:]
            is_over = len(self.hidden) == MOST_HIDDEN
            quiet_ns = self.hidden[0] if is_over else self.clock_ns
        else:
            self.hidden = []
        self.promised_ns = self.clock_ns if is_read else max(self.clock_ns, quiet_ns)

    def release(self, until_ns: int) -> None:
        """Stop counting lines that arrived before as waiting."""
        left = self.runs()[2 * bisect_left(self.arrivals, until_ns) :]
        self.arrivals, self.counts = [], []
        self._wait(left)

    def runs(self) -> list[int]:
        """The waiting lines, in the form of `Stretch.runs`."""
        found: list[int] = []
        before = 0
        for arrival_ns, count in zip(self.arrivals, self.counts, strict=True):
            found += (arrival_ns, count - before)
            before = count
        return found


class Partitions:
    """All partitions of a group. `advanced_ns`: the operators have run up to this time, and lines
    that arrived before are released."""

    def __init__(
        self,
        partitions: dict[PartitionName, Partition],
        clocks_released: int = 0,
        advanced_ns: int = BEFORE_EVERYTHING_NS,
    ) -> None:
        self.partitions = partitions
        self.clocks_released = clocks_released
        self.advanced_ns = advanced_ns
        self._read: set[PartitionName] = set()
        self._hides = False

    def begin_of(self, name: PartitionName) -> int:
        """The time before which no further line of the partition arrives."""
        return max(self._partition(name).clock_ns, self.advanced_ns)

    def received(self, name: PartitionName) -> int:
        """How many lines of the partition were read."""
        return self._partition(name).received

    def _partition(self, name: PartitionName) -> Partition:
        return self.partitions.setdefault(name, Partition())

    def add(self, stretch: Stretch) -> None:
        """Take the next stretch of its partition."""
        self._partition(stretch.name).add(stretch, self.begin_of(stretch.name))
        self._read.add(stretch.name)

    def hide(self) -> None:
        """Note that the batch had a share without lines, of an unknown partition."""
        self._hides = True

    def time_ns(self, quiet_ns: int) -> int:
        """The time up to which the log is known after this batch. Partitions from which the batch
        took nothing were at their ends at `quiet_ns`. Called once for each batch."""
        for name, partition in self.partitions.items():
            partition.promise(quiet_ns, is_read=name in self._read, hides=self._hides)
        self._read, self._hides = set(), False
        promised = (partition.promised_ns for partition in self.partitions.values())
        return max(self.advanced_ns, min(promised, default=self.advanced_ns))

    def numbered(self, lines: Sequence[Waiting]) -> Iterable[tuple[Waiting, int]]:
        """Pairs of a line and its number. `lines` are all waiting lines of the group up to a time,
        in order, so they include every waiting clock line up to that time."""
        clocks = self.clocks_released
        others: list[tuple[PartitionName, Partition]] = [
            (name, partition) for name, partition in self.partitions.items() if name.rank == RAW
        ]
        last: tuple[int, PartitionName] | None = None
        before = 0
        for line in lines:
            arrival_ns, name = line.arrival_ns, line.name
            if (arrival_ns, name) != last:
                last = arrival_ns, name
                before = 1 + sum(
                    partition.by(arrival_ns) if other < name else partition.before(arrival_ns)
                    for other, partition in others
                    if other != name
                )
            if name.rank == CLOCK:
                yield line, before + clocks
                clocks += 1
            else:
                yield line, before + clocks + line.place

    def release(self, until_ns: int, clocks: int) -> None:
        """Release lines up to a time to which the operators have run; `clocks` of them were clock
        lines."""
        for partition in self.partitions.values():
            partition.release(until_ns)
        self.clocks_released += clocks
        self.advanced_ns = until_ns

    def saved(self) -> tuple[Any, ...]:
        """The state as plain values."""
        partitions = [
            (*name, partition.clock_ns, partition.received, partition.runs(), partition.hidden)
            for name, partition in self.partitions.items()
        ]
        return partitions, self.clocks_released, self.advanced_ns


def restored(saved: tuple[Any, ...]) -> Partitions:
    partitions, clocks_released, advanced_ns = saved
    found = {PartitionName(*each[:3]): Partition(*each[3:]) for each in partitions}
    return Partitions(found, clocks_released, advanced_ns)
