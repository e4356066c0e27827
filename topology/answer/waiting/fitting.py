"""Counts the times between events (g) and their delays (d), for RISK and ProbSlack.

Times are counted in steps of `step_ns`. Between -128 and 128 steps each number has its own bin, so
counts are exact. Beyond that there are 32 bins an octave, so an edge is off by at most 1/32. So a
table is bounded: it has a few thousand bins at most, and a few dozen in practice. Rounding is
cautious: g down and d up. The remainder of g is added to d, so that g + d is never understated.

Delays are counted from `base_ns`, the first delay rounded down to a step. So the jitter of a clock
that is off by an hour is still counted in fine bins.

`Rotating` keeps two halves of about T/2 events each, where T is `period`, and a model uses both. So
no sample in it is older than about T events. A model is due after 200 samples, and then after every
T/8, but at least 200.
"""

from __future__ import annotations

from typing import Final

from topology.state.saved import BIG, INT, Saved, Shape, dict_of, optional

EXACT: Final = 128
MAX_SPAN_NS: Final = 1 << 61
"""The maximum `span_ns` of one table.

With this limit the sum of two spans fits 63 bits, even if clocks jump by decades.
"""
READY: Final = 200
"""The minimum number of samples for a model."""

Counts = dict[int, int]


def grid_floor(steps: int) -> int:
    """Return the largest bin that is at most `steps`."""
    if -EXACT <= steps < EXACT:
        return steps
    shift = steps.bit_length() - 6
    return steps >> shift << shift


def grid_ceil(steps: int) -> int:
    """Return the smallest bin that is at least `steps`."""
    if -EXACT <= steps <= EXACT:
        return steps
    shift = steps.bit_length() - 6
    return -(-steps >> shift) << shift


def grid_next(bin_steps: int) -> int:
    """Return the smallest bin above this one."""
    return grid_ceil(bin_steps + 1)


def grid_top(bin_steps: int) -> int:
    """Return the largest number of steps in the bin that begins at `bin_steps`."""
    return grid_next(bin_steps) - 1


COUNTS: Final = dict_of(INT, INT)
DELAYS: Final = Shape(
    "waiting.delays",
    1,
    events=INT,
    stragglers=INT,
    span_ns=INT,
    apart=COUNTS,
    delays=COUNTS,
    straggled=COUNTS,
)
FITTING: Final = Shape("waiting.fitting", 1, base_ns=optional(BIG), _now=DELAYS)
ROTATING: Final = FITTING.with_more("waiting.rotating", 1, _until_due=INT, _before=optional(DELAYS))


class DelayTables(Saved):
    """The counts of one span of events.

    The tables count g and d of the events in order. For stragglers, which arrive after a later
    event of their source, they count d alone.
    """

    SHAPE = DELAYS
    __slots__ = DELAYS.fields

    def __init__(self) -> None:
        self.events = 0
        self.apart: Counts = {}
        self.delays: Counts = {}
        self.stragglers = 0
        self.straggled: Counts = {}
        self.span_ns = 0

    def __add__(self, other: DelayTables) -> DelayTables:
        both = DelayTables()
        both.events = self.events + other.events
        both.stragglers = self.stragglers + other.stragglers
        both.span_ns = self.span_ns + other.span_ns
        both.apart = _add_counts(self.apart, other.apart)
        both.delays = _add_counts(self.delays, other.delays)
        both.straggled = _add_counts(self.straggled, other.straggled)
        return both


class Fitting(Saved):
    """The counts of a source's events, from which a model is made when one is due."""

    SHAPE = FITTING
    __slots__ = (*FITTING.fields, "_period", "_step_ns")

    def __init__(self, period: int, step_ns: int) -> None:
        self._period = period
        self._step_ns = step_ns
        self._now = DelayTables()
        self.base_ns: int | None = None

    def add(self, apart_ns: int, delay_ns: int) -> DelayTables | None:
        """Count an event in order: its distance from the last one (`apart_ns` >= 0), and its delay.

        Return the counts for a model if one is due, or else None.
        """
        step_ns = self._step_ns
        if self.base_ns is None:
            self.base_ns = delay_ns // step_ns * step_ns
        apart, rest_ns = divmod(apart_ns, step_ns)
        if apart >= EXACT:
            below = grid_floor(apart)
            # The delay is increased by the time that rounding down removes.
            rest_ns += (apart - below) * step_ns
            apart = below
        delay = -(-(delay_ns - self.base_ns + rest_ns) // step_ns)
        if not -EXACT <= delay <= EXACT:
            delay = grid_ceil(delay)
        now = self._now
        now.events += 1
        now.span_ns = min(MAX_SPAN_NS, now.span_ns + apart_ns)
        now.apart[apart] = now.apart.get(apart, 0) + 1
        now.delays[delay] = now.delays.get(delay, 0) + 1
        return self._take_due()

    def count_straggler(self, delay_ns: int) -> None:
        """Count an event that arrived after a later one of its source."""
        if self.base_ns is None:
            self.base_ns = delay_ns // self._step_ns * self._step_ns
        delay = grid_ceil(-(-(delay_ns - self.base_ns) // self._step_ns))
        now = self._now
        now.stragglers += 1
        now.straggled[delay] = now.straggled.get(delay, 0) + 1

    def _take_due(self) -> DelayTables | None:
        raise NotImplementedError


class Rotating(Fitting):
    """The counts of two halves of `period` events; a full newer half replaces the older one."""

    SHAPE = ROTATING
    __slots__ = ("_before", "_until_due")

    def __init__(self, period: int, step_ns: int) -> None:
        super().__init__(period, step_ns)
        self._before: DelayTables | None = None
        self._until_due = READY

    def _take_due(self) -> DelayTables | None:
        self._until_due -= 1
        if self._until_due > 0:
            return None
        self._until_due = max(READY, self._period // 8)
        due = self.sample()
        if self._now.events >= self._period // 2:
            self._before, self._now = self._now, DelayTables()
        return due

    def sample(self) -> DelayTables:
        """Return all counts of both halves."""
        return (self._before or DelayTables()) + self._now

    def fresh(self, field: str) -> DelayTables:
        return DelayTables()


def _add_counts(one: Counts, other: Counts) -> Counts:
    both = dict(one)  # A `Counter` is five times as slow.
    for key, count in other.items():
        both[key] = both.get(key, 0) + count
    return both


def distance_ppm(one: Counts, other: Counts) -> int:
    """Return the Kolmogorov-Smirnov distance of two tables, rounded down; 0 if one is empty."""
    ones, others = sum(one.values()), sum(other.values())
    if not ones or not others:
        return 0
    below_one = below_other = worst = 0
    for key in sorted(one.keys() | other.keys()):
        below_one += one.get(key, 0)
        below_other += other.get(key, 0)
        worst = max(worst, abs(below_one * others - below_other * ones))
    return worst * 1_000_000 // (ones * others)
