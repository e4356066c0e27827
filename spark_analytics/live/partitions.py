"""Track partitions over micro-batches: the time up to which the log is complete, and line numbers.

The lines of all input and clock partitions form one log in the order of `inorder dump`: by
arrival, clocks first, then by topic, partition, offset. A line is released to the operators only
when no future line can precede it. So batches do not affect the order.

After a batch, each partition *promises* a time before which none of its future lines arrives. Lines
before the smallest promise are released, and the others wait.

* A partition with lines in the batch promises the arrival of its last line, because its arrival
  clock never goes back.
* Spark takes at least one offset of every partition that has unread ones. A partition without
  offsets in the batch therefore promises the batch's time minus the tick lag. The lag covers two
  differences: how far the broker's clock is behind Spark's, and how long before the batch's time
  Spark looked at the ends.
* A task that saw only transaction markers does not know its partition (`HIDDEN`). In such a batch,
  partitions without lines promise only the arrival of their last line. After `MOST_HIDDEN` such
  batches in a row, they promise the time of the first of these. Otherwise a partition with only
  aborted transactions would stop time forever.

A record that breaks a promise arrives before the time up to which the operators have run. It counts
as arriving at that time, and is in the table `overtaken`.

The number of a line is its position in that log, from 1, as `inorder replay` counts the lines of a
dump. A group of streams does not see the lines of other groups, except clock lines. It counts them
by the number of lines per arrival time (`Stretch.runs`). Each line costs one bisection in each
other partition. Each partition keeps a pair of integers for each millisecond in which waiting lines
arrived.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

BEFORE_EVERYTHING_NS: Final = -(1 << 62)
CLOCK: Final = 0
RAW: Final = 1


class PartitionName(NamedTuple):
    """The name of a partition; names sort like lines with the same arrival.

    `rank` is CLOCK or RAW.
    """

    rank: int
    topic: str
    partition: int


HIDDEN: Final = PartitionName(-1, "", -1)
"""The name for the unknown partition of a task that saw no record, only transaction markers."""

MOST_HIDDEN: Final = 8
"""The number of consecutive batches with HIDDEN after which partitions without lines promise.

A partition without lines in all of them was at its end when the first of them was planned.
"""


class PartitionLines(NamedTuple):
    """The lines of one partition that a batch, or one task of a batch, has read.

    Attributes:
        name: The partition.
        first: The first offset.
        lines: The number of lines.
        arrival_ns: The arrival of the last line, by an arrival clock that starts with the stretch.
        runs: Flattened pairs of an arrival and its number of lines; empty for the clock topic.
    """

    name: PartitionName
    first: int
    lines: int
    arrival_ns: int
    runs: Sequence[int]


class Waiting(NamedTuple):
    """A line that is not released yet; `place` counts the lines of its partition."""

    arrival_ns: int
    name: PartitionName
    place: int
    packed: tuple[Any, ...]


class Partition:
    """The counts of one partition's lines, and its promise.

    A restored partition has promised nothing.

    Attributes:
        received: The number of lines read.
        released: The number of lines released.
        arrivals: The different arrivals of the waiting lines.
        counts: For each of `arrivals`, the number of lines that wait up to it.
        hidden: The times of the last consecutive batches that had HIDDEN and no line of this
            partition.
        promised_ns: The last promise.
    """

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
        self._add_waiting(runs)

    def _add_waiting(self, runs: Sequence[int], begin_ns: int = BEFORE_EVERYTHING_NS) -> None:
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

    def add(self, stretch: PartitionLines, begin_ns: int) -> None:
        self._add_waiting(stretch.runs, begin_ns)
        self.received += stretch.lines
        self.clock_ns = max(stretch.arrival_ns, begin_ns)

    def count_before(self, arrival_ns: int) -> int:
        """Return the number of lines that have arrived before this time."""
        return self._count_first(bisect_left(self.arrivals, arrival_ns))

    def count_until(self, arrival_ns: int) -> int:
        """Return the number of lines that have arrived at this time or earlier."""
        return self._count_first(bisect_right(self.arrivals, arrival_ns))

    def _count_first(self, at: int) -> int:
        return self.released + (self.counts[at - 1] if at else 0)

    def promise(self, quiet_ns: int, *, is_read: bool, hides: bool) -> None:
        """Set the promise after a batch.

        `is_read` says whether the batch had lines of this partition, and `hides` whether it had a
        task without lines (HIDDEN).
        """
        if hides and not is_read:
            self.hidden = [*self.hidden, quiet_ns][-MOST_HIDDEN:]
            is_over = len(self.hidden) == MOST_HIDDEN
            quiet_ns = self.hidden[0] if is_over else self.clock_ns
        else:
            self.hidden = []
        self.promised_ns = self.clock_ns if is_read else max(self.clock_ns, quiet_ns)

    def release(self, until_ns: int) -> None:
        """Remove the lines that arrived before `until_ns` from the waiting ones."""
        left = self.runs()[2 * bisect_left(self.arrivals, until_ns) :]
        self.arrivals, self.counts = [], []
        self._add_waiting(left)

    def runs(self) -> list[int]:
        """Return the waiting lines in the form of `Stretch.runs`."""
        found: list[int] = []
        before = 0
        for arrival_ns, count in zip(self.arrivals, self.counts, strict=True):
            found += (arrival_ns, count - before)
            before = count
        return found


class Partitions:
    """All partitions of a group, with the time `advanced_ns` up to which the operators have run."""

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
        """Return the time before which no further line of the partition arrives."""
        return max(self._partition(name).clock_ns, self.advanced_ns)

    def count_received(self, name: PartitionName) -> int:
        """Return the number of lines that were read from the partition."""
        return self._partition(name).received

    def _partition(self, name: PartitionName) -> Partition:
        return self.partitions.setdefault(name, Partition())

    def add(self, stretch: PartitionLines) -> None:
        """Add the next stretch of its partition."""
        self._partition(stretch.name).add(stretch, self.begin_of(stretch.name))
        self._read.add(stretch.name)

    def record_hidden(self) -> None:
        """Record that a task of the batch read no lines, from an unknown partition."""
        self._hides = True

    def time_ns(self, quiet_ns: int) -> int:
        """Return the time up to which the log is complete after this batch; call it once per batch.

        Partitions without offsets in the batch were at their ends at `quiet_ns`.
        """
        for name, partition in self.partitions.items():
            partition.promise(quiet_ns, is_read=name in self._read, hides=self._hides)
        self._read, self._hides = set(), False
        promised = (partition.promised_ns for partition in self.partitions.values())
        return max(self.advanced_ns, min(promised, default=self.advanced_ns))

    def number(self, lines: Sequence[Waiting]) -> Iterable[tuple[Waiting, int]]:
        """Yield pairs of a line and its number.

        `lines` are all waiting lines of the group up to a time, in order. They include every
        waiting clock line up to that time.
        """
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
                    partition.count_until(arrival_ns)
                    if other < name
                    else partition.count_before(arrival_ns)
                    for other, partition in others
                    if other != name
                )
            if name.rank == CLOCK:
                yield line, before + clocks
                clocks += 1
            else:
                yield line, before + clocks + line.place

    def release(self, until_ns: int, clocks: int) -> None:
        """Release the lines that arrived before `until_ns`, up to which the operators have run.

        `clocks` is the number of clock lines among them.
        """
        for partition in self.partitions.values():
            partition.release(until_ns)
        self.clocks_released += clocks
        self.advanced_ns = until_ns

    def save(self) -> tuple[Any, ...]:
        """Return the state as plain values."""
        partitions = [
            (*name, partition.clock_ns, partition.received, partition.runs(), partition.hidden)
            for name, partition in self.partitions.items()
        ]
        return partitions, self.clocks_released, self.advanced_ns


def restore(saved: tuple[Any, ...]) -> Partitions:
    partitions, clocks_released, advanced_ns = saved
    found = {PartitionName(*each[:3]): Partition(*each[3:]) for each in partitions}
    return Partitions(found, clocks_released, advanced_ns)
