"""Partitions as micro-batches read them: up to when the log is known, and the number of each line.

A *lane* is a partition of an input topic or of the clocks' topic. A batch takes a stretch of each
lane, as long as it likes; what the log's order is (`inorder dump`: by arrival, clocks first, then
by topic, partition and offset) does not depend on that. So a line is let go only when nothing can
come before it any more: when its arrival lies below what every lane has promised.

* A lane promises the arrival of its last line: its clock never goes back.
* A lane of which a batch took nothing was at its end when the batch was planned, as each that is
  not gets a share of at least one offset: it promises the batch's time less the tick lag, which
  covers what the broker's clock may be behind Spark's, and the time between the look at the ends
  and the batch's.
* A share may be marks of transactions alone, and then it has no lines (`HIDDEN`). Whose it was
  nobody is told, so in such a batch lanes without lines promise no more than before. A lane without
  lines in `MOST_HIDDEN` such batches, one behind the other, promises what it would have at the
  first of them: else one on which transactions are only ever aborted would hold time for ever. What
  lies behind so many shares of marks, and arrived before, is overtaken.

Lines beyond the least promise wait. A record that breaks a promise arrives when time has already
been told: it counts as arriving then, and is *overtaken*.

The number of a line is its place in that order, from 1, as `inorder replay` counts the lines of a
dump. No group of streams sees the lines of the others; of these it is told how many arrived when
(`Stretch.runs`), which is enough to count. Lines of clocks come to all.

Cost: for each line one search by bisection in each other lane; for each lane a pair of integers for
each millisecond in which lines arrived, as long as they wait.

Proved by: tests/spark_analytics/live/test_lanes.py
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

BEFORE_EVERYTHING_NS: Final = -(1 << 62)
CLOCK: Final = 0
RAW: Final = 1


class LaneName(NamedTuple):
    """In the order in which lines of one arrival stand. `rank`: CLOCK or RAW."""

    rank: int
    topic: str
    partition: int


HIDDEN: Final = LaneName(-1, "", -1)
"""Some lane, of which a task of a batch took offsets and saw no record."""

MOST_HIDDEN: Final = 8
"""Batches in a row of which each has such a share, until a lane without lines is taken for one that
was at its end at the first."""


class Stretch(NamedTuple):
    """What one batch, or one task of it, has read of a lane. `first`: its first offset; `lines`:
    how many it says; `arrival_ns`: where its own clock ended; `runs`: an arrival and how many lines
    have it, one behind the other; of clocks none."""

    name: LaneName
    first: int
    lines: int
    arrival_ns: int
    runs: Sequence[int]


class Waiting(NamedTuple):
    """A line that is not let go yet; `place` counts the lines of its lane."""

    arrival_ns: int
    name: LaneName
    place: int
    packed: tuple[Any, ...]


class Lane:
    """`come` and `gone` count its lines; those between wait, told by `arrivals`, and `counts`: how
    many of them have come by each. `hidden`: the times of the batches with a share of marks, the
    last ones that lie one behind the other and brought none of its lines. `promised_ns` is what it
    promised last; what is restored has promised nothing yet."""

    def __init__(
        self,
        clock_ns: int = BEFORE_EVERYTHING_NS,
        come: int = 0,
        runs: Sequence[int] = (),
        hidden: Sequence[int] = (),
    ) -> None:
        self.clock_ns = clock_ns
        self.come = come
        self.hidden = list(hidden)
        self.promised_ns = BEFORE_EVERYTHING_NS
        self.arrivals: list[int] = []
        self.counts: list[int] = []
        for at in range(0, len(runs), 2):
            self._wait(runs[at], runs[at + 1])

    def _wait(self, arrival_ns: int, lines: int) -> None:
        if self.arrivals and self.arrivals[-1] == arrival_ns:
            self.counts[-1] += lines
            return
        self.arrivals.append(arrival_ns)
        self.counts.append(lines + (self.counts[-1] if self.counts else 0))

    @property
    def waiting(self) -> int:
        return self.counts[-1] if self.counts else 0

    @property
    def gone(self) -> int:
        return self.come - self.waiting

    def add(self, stretch: Stretch, begin_ns: int) -> None:
        runs = stretch.runs
        for at in range(0, len(runs), 2):
            self._wait(max(runs[at], begin_ns), runs[at + 1])
        self.come += stretch.lines
        self.clock_ns = max(stretch.arrival_ns, begin_ns)

    def before(self, arrival_ns: int) -> int:
        """How many of its lines have arrived before."""
        return self._up_to(bisect_left(self.arrivals, arrival_ns))

    def by(self, arrival_ns: int) -> int:
        """How many have arrived before, or then."""
        return self._up_to(bisect_right(self.arrivals, arrival_ns))

    def _up_to(self, at: int) -> int:
        return self.gone + (self.counts[at - 1] if at else 0)

    def promise(self, quiet_ns: int, *, is_read: bool, hides: bool) -> None:
        """After a batch; `is_read`: it brought lines of this lane, `hides`: a share of marks."""
        if hides and not is_read:
            self.hidden = [*self.hidden, quiet_ns][-MOST_HIDDEN:]
            is_over = len(self.hidden) == MOST_HIDDEN
            quiet_ns = self.hidden[0] if is_over else self.clock_ns
        else:
            self.hidden = []
        self.promised_ns = self.clock_ns if is_read else max(self.clock_ns, quiet_ns)

    def let_go(self, until_ns: int) -> None:
        """Lines that arrived before wait no longer."""
        runs = self.runs()
        at = 2 * bisect_left(self.arrivals, until_ns)
        self.arrivals, self.counts = [], []
        for each in range(at, len(runs), 2):
            self._wait(runs[each], runs[each + 1])

    def runs(self) -> list[int]:
        """What waits, as a stretch has it."""
        found: list[int] = []
        before = 0
        for arrival_ns, count in zip(self.arrivals, self.counts, strict=True):
            found += (arrival_ns, count - before)
            before = count
        return found


class Lanes:
    """All of them. `told_ns`: up to when time has been told; what arrived before is let go."""

    def __init__(
        self, lanes: dict[LaneName, Lane], clocks_gone: int = 0, told_ns: int = BEFORE_EVERYTHING_NS
    ) -> None:
        self.lanes = lanes
        self.clocks_gone = clocks_gone
        self.told_ns = told_ns
        self._read: set[LaneName] = set()
        self._hides = False

    def begin_of(self, name: LaneName) -> int:
        """No line of the lane arrives before."""
        return max(self._lane(name).clock_ns, self.told_ns)

    def come(self, name: LaneName) -> int:
        """How many lines the lane has had."""
        return self._lane(name).come

    def _lane(self, name: LaneName) -> Lane:
        return self.lanes.setdefault(name, Lane())

    def add(self, stretch: Stretch) -> None:
        """The next of its lane."""
        self._lane(stretch.name).add(stretch, self.begin_of(stretch.name))
        self._read.add(stretch.name)

    def hide(self) -> None:
        """The batch took of some lane what bears no line."""
        self._hides = True

    def time_ns(self, quiet_ns: int) -> int:
        """Up to when the log is known after this batch; lanes of which it took nothing were at
        their ends at `quiet_ns`. Called once for each batch."""
        for name, lane in self.lanes.items():
            lane.promise(quiet_ns, is_read=name in self._read, hides=self._hides)
        self._read, self._hides = set(), False
        promised = (lane.promised_ns for lane in self.lanes.values())
        return max(self.told_ns, min(promised, default=self.told_ns))

    def numbered(self, lines: Sequence[Waiting]) -> Iterable[tuple[Waiting, int]]:
        """With their numbers; these are all that wait of their group, in their order, so all that
        waits of clocks is among them."""
        clocks = self.clocks_gone
        others: list[tuple[LaneName, Lane]] = [
            (name, lane) for name, lane in self.lanes.items() if name.rank == RAW
        ]
        last: tuple[int, LaneName] | None = None
        before = 0
        for line in lines:
            arrival_ns, name = line.arrival_ns, line.name
            if (arrival_ns, name) != last:
                last = arrival_ns, name
                before = 1 + sum(
                    lane.by(arrival_ns) if other < name else lane.before(arrival_ns)
                    for other, lane in others
                    if other != name
                )
            if name.rank == CLOCK:
                yield line, before + clocks
                clocks += 1
            else:
                yield line, before + clocks + line.place

    def let_go(self, until_ns: int, clocks: int) -> None:
        """Time has been told up to then; so many lines of clocks were among what was let go."""
        for lane in self.lanes.values():
            lane.let_go(until_ns)
        self.clocks_gone += clocks
        self.told_ns = until_ns

    def saved(self) -> tuple[Any, ...]:
        """As plain values."""
        lanes = [
            (*name, lane.clock_ns, lane.come, lane.runs(), lane.hidden)
            for name, lane in self.lanes.items()
        ]
        return lanes, self.clocks_gone, self.told_ns


def restored(saved: tuple[Any, ...]) -> Lanes:
    lanes, clocks_gone, told_ns = saved
    found = {LaneName(*each[:3]): Lane(*each[3:]) for each in lanes}
    return Lanes(found, clocks_gone, told_ns)
