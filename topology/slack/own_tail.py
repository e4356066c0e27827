"""`TailSlack` for one source by its own clock: what REORDER waits where nothing is numbered.

A source alone needs no arrival clock to be compared with its stamps, so what its clock shows,
and how it drifts, is all the same here. What counts is how far behind its newest event the
others come, in two measures:

    lateness   newest time - time
    silence    the same, and what has passed since the newest arrived

both 0 for an event that is the newest itself. K and D are the q-tails of the two, and

    frontier = newest + max(-K, time since the newest arrived - D)

K serves while the source speaks, D when it falls silent. A source in order waits for
nothing. q, the budget and the cold start are those of `TailSlack`: at most `delta` of the
events may be late, nothing is spent while nothing is left (then K and D are twice the largest
remembered), and until `COLD` events have come K and D are `max_wait_ns`, which bounds them
ever after.

Cost: O(1) an event. Memory: two histograms.
"""

from __future__ import annotations

from topology.event import Event
from topology.histogram import PPM, Histogram
from topology.operator import Figures, Plain
from topology.slack.policy import BEFORE_ALL, Standing
from topology.slack.tail import COLD, Q_MOST, RESERVE


class OwnTail(Standing):
    """`delta_ppm`: how many of a million events may be late."""

    __slots__ = (
        "_delta_ppm",
        "_events",
        "_late",
        "_latenesses",
        "_max_wait_ns",
        "_newest_at_ns",
        "_newest_ns",
        "_silences",
        "_waits_at",
        "_waits_ns",
    )

    def __init__(self, delta_ppm: int, *, max_wait_ns: int) -> None:
        super().__init__()
        self._delta_ppm = delta_ppm
        self._max_wait_ns = max_wait_ns
        self._latenesses = Histogram(0)
        self._silences = Histogram(0)
        self._newest_ns = BEFORE_ALL
        self._newest_at_ns = BEFORE_ALL
        self._events = 0
        self._late = 0
        self._waits_at = (-1, -1)  # events and late ones at which `_waits_ns` was found
        self._waits_ns = (0, 0)

    def _observe(self, event: Event, now_ns: int) -> None:
        ts_ns = event.ref_time_ns
        lateness_ns = silence_ns = 0
        if ts_ns >= self._newest_ns:
            self._newest_ns = ts_ns
            self._newest_at_ns = now_ns
        else:
            lateness_ns = self._newest_ns - ts_ns
            silence_ns = lateness_ns + now_ns - self._newest_at_ns
        self._latenesses.add(lateness_ns)
        self._silences.add(silence_ns)
        self._events += 1

    def late(self, ts_ns: int, lateness_ns: int) -> None:
        self._late += 1

    def q_ppm(self) -> int:
        """What share of the events may be given up at present."""
        left = self._delta_ppm * self._events - PPM * self._late
        return max(0, min(Q_MOST, self._delta_ppm * left // (RESERVE * PPM)))

    def waits_ns(self) -> tuple[int, int]:
        """K and D."""
        most_ns = self._max_wait_ns
        if self._events < COLD:
            return most_ns, most_ns
        if self._waits_at != (self._events, self._late):
            self._waits_at = (self._events, self._late)
            q_ppm = self.q_ppm()
            self._latenesses.miss_ppm = self._silences.miss_ppm = q_ppm
            times = 1 if q_ppm else 2
            k_ns, d_ns = times * self._latenesses.edge_ns(), times * self._silences.edge_ns()
            self._waits_ns = min(k_ns, most_ns), min(d_ns, most_ns)
        return self._waits_ns

    def _raw_ns(self, now_ns: int) -> int:
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
        own = {"events": self._events, "late": self._late, "q_ppm": self.q_ppm()}
        return {**own, "lateness_ns": k_ns, "silence_ns": d_ns}

    def _state(self) -> Plain:
        own = [self._newest_ns, self._newest_at_ns, self._events, self._late]
        return [*own, self._latenesses.snapshot(), self._silences.snapshot()]

    def _restore(self, state: Plain) -> None:
        self._newest_ns, self._newest_at_ns, self._events, self._late = state[:4]
        self._latenesses.restore(state[4])
        self._silences.restore(state[5])
