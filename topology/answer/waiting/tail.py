"""Waits long enough for all but a few events: the default for a reorder by time.

The times of one source are not compared with the arrival clock, so the offset and drift of its
clock do not matter. Only the distance of an event from the newest one counts, in two measures:

    lateness   newest time - time
    silence    lateness + time since the newest arrived

Both are 0 for an event that is the newest itself. K and D are the values that only a share q of the
two measures exceeds, and

    frontier = newest + max(-K, time since the newest arrived - D)

K applies while the source sends, and D when it falls silent. A source in order waits for nothing.

K and D are at most `max_wait_ns`. No wait could have saved an event whose silence is above that, so
both histograms count it without a value. So an outlier costs nothing.

q is the part of the target that is left: at most `delta` of the events that could be saved may be
late. With *left* = delta events - late events, q = delta left / `RESERVE`, and at most 1. While
nothing is left, nothing is spent: K and D are then twice the largest value in the sketch. The
unspent part is spent later, so the share of late events settles just below delta. Late events that
no allowed wait could have saved are counted separately, as `beyond`. Until `COLD` events have
arrived, K and D are `max_wait_ns`.

The sketch is `topology.state.histogram` with eight buckets an octave. It is halved every 4,096
samples, so that old tails fade.

Cost: O(1) for an event. Memory: two histograms.
"""

from __future__ import annotations

from typing import Final

from topology.answer.waiting.policy import BEFORE_ALL, FLOORED, FlooredSlack
from topology.base.event import Event
from topology.base.operator import Figures
from topology.state.histogram import HISTOGRAM, PPM, Histogram
from topology.state.saved import BIG, INT, Saved, Shape, optional

RESERVE: Final = 20
"""The number of late events that the target must still allow before q may reach delta."""

COLD: Final = 64


ALLOWANCE: Final = Shape("waiting.allowance", 1, events=INT, late=INT, beyond=INT)
TAILS: Final = Shape(
    "waiting.tails",
    1,
    samples=INT,
    least_ns=optional(BIG),
    latenesses=HISTOGRAM,
    delays=HISTOGRAM,
)
TAIL: Final = FLOORED.with_more(
    "waiting.tail", 1, _newest_ns=BIG, _newest_at_ns=BIG, _allowance=ALLOWANCE, _tails=TAILS
)


class Allowance(Saved):
    """The counts of events and late events, which determine how many more may be late."""

    SHAPE = ALLOWANCE
    __slots__ = (*ALLOWANCE.fields, "delta_ppm")

    def __init__(self, delta_ppm: int) -> None:
        self.delta_ppm = delta_ppm
        self.events = 0
        self.late = 0
        # Late events that no allowed wait could have saved; they are not in `late`.
        self.beyond = 0

    def allowed_ppm(self) -> int:
        """Return the share of events that may become late now, in ppm."""
        left = self.delta_ppm * (self.events - self.beyond) - PPM * self.late
        return max(0, min(PPM, self.delta_ppm * left // (RESERVE * PPM)))

    def figures(self) -> Figures:
        own = {"events": self.events, "late": self.late, "beyond": self.beyond}
        return {**own, "q_ppm": self.allowed_ppm()}


class Tails(Saved):
    """The histograms of latenesses and silences (`delays`) of one source, or of all.

    The silences are counted from the smallest one.
    """

    SHAPE = TAILS
    __slots__ = (*TAILS.fields, "_cut", "_cut_at", "_most_ns")

    def __init__(self, max_wait_ns: int) -> None:
        self._most_ns = max_wait_ns
        self.latenesses = Histogram(0)
        self.delays = Histogram(0)
        self.least_ns: int | None = None
        self.samples = 0
        self._cut_at = (-1, -1)  # The q and `samples` for which `_cut` was computed.
        self._cut = (0, 0)

    def add(self, lateness_ns: int, delay_ns: int) -> None:
        self.samples += 1
        if delay_ns > self._most_ns:
            self.latenesses.trial()
            self.delays.trial()
            return
        if self.least_ns is None or delay_ns < self.least_ns:
            self.least_ns = delay_ns
        self.delays.add(delay_ns - self.least_ns)
        if lateness_ns > self._most_ns:
            self.latenesses.trial()
        else:
            self.latenesses.add(lateness_ns)

    def cut(self, q_ppm: int) -> tuple[int, int]:
        """Return (K, D), the waits in nanoseconds that all events need except a share of `q_ppm`.

        If `q_ppm` is 0, they are twice the largest values.
        """
        if self._cut_at != (q_ppm, self.samples):
            self._cut_at = (q_ppm, self.samples)
            self.latenesses.miss_ppm = self.delays.miss_ppm = q_ppm
            times = 1 if q_ppm else 2
            k_ns, d_ns = times * self.latenesses.edge_ns(), times * self.delays.edge_ns()
            self._cut = min(k_ns, self._most_ns), min(d_ns + (self.least_ns or 0), self._most_ns)
        return self._cut


class OwnTail(FlooredSlack):
    """A strategy that waits long enough for all events except a share of `delta_ppm`."""

    SHAPE = TAIL
    __slots__ = ("_allowance", "_max_wait_ns", "_newest_at_ns", "_newest_ns", "_tails")

    def __init__(self, delta_ppm: int, *, max_wait_ns: int) -> None:
        super().__init__()
        self._max_wait_ns = max_wait_ns
        self._allowance = Allowance(delta_ppm)
        self._tails = Tails(max_wait_ns)
        self._newest_ns = BEFORE_ALL
        self._newest_at_ns = BEFORE_ALL

    def _observe_event(self, event: Event, now_ns: int) -> None:
        ts_ns = event.ref_time_ns
        lateness_ns = silence_ns = 0
        if ts_ns >= self._newest_ns:
            self._newest_ns = ts_ns
            self._newest_at_ns = now_ns
        else:
            lateness_ns = self._newest_ns - ts_ns
            silence_ns = lateness_ns + now_ns - self._newest_at_ns
        self._tails.add(lateness_ns, silence_ns)
        self._allowance.events += 1

    def late(self, ts_ns: int, lateness_ns: int) -> None:
        if self._newest_ns - ts_ns + self._now_ns - self._newest_at_ns > self._max_wait_ns:
            self._allowance.beyond += 1
        else:
            self._allowance.late += 1

    def waits_ns(self) -> tuple[int, int]:
        """Return the current waits K and D."""
        if self._allowance.events < COLD:
            return self._max_wait_ns, self._max_wait_ns
        return self._tails.cut(self._allowance.allowed_ppm())

    def _find_frontier_ns(self, now_ns: int) -> int:
        if self._newest_ns == BEFORE_ALL:
            return BEFORE_ALL
        k_ns, d_ns = self.waits_ns()
        return self._newest_ns + max(-k_ns, now_ns - self._newest_at_ns - d_ns)

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        if self._newest_ns == BEFORE_ALL:
            return None
        return self._newest_at_ns + bound_ns - self._newest_ns + self.waits_ns()[1]

    def newest_ns(self) -> int:
        return self._newest_ns

    def figures(self) -> Figures:
        k_ns, d_ns = self.waits_ns()
        return {**self._allowance.figures(), "lateness_ns": k_ns, "silence_ns": d_ns}
