"""Wait as long as all but a few of the events need: the default for a reorder by time
(slack.md 9.6, and the budget of 9.2).

Two ways to know that nothing at or below a time is still to come from a source:

    it has itself come further by K    K the q-tail of its latenesses
    that time is over by D             D the q-tail of its delays

and the frontier is the smallest over the live sources of the larger of the two:
min over s of max(newest_s - K_s, now - D_s). K serves sources that speak often, D those that
are silent; a source in order has K = 0.

q is what the promise leaves: at most `delta` of the events may be late. With *left* = delta
events - late ones, q = delta left / `RESERVE`, at most `Q_MOST`. Nothing is spent while
nothing is left: then K and D are twice the largest that the sketch remembers. What is left
over is spent later, so that the share of late events settles just below delta. Until
`COLD` events have come, K and D are `max_wait_ns`, which bounds them ever after.

Sketch: `topology.histogram`, eight buckets an octave, halved every 4 096 samples, so that
old tails fade. A source with less than `OWN` samples goes by the sketch of all.

Cost: O(1) an event, O(live sources) a decision.
"""

from __future__ import annotations

from typing import Final

from topology.event import Event
from topology.histogram import PPM, Histogram
from topology.operator import Figures, Plain
from topology.slack.policy import AFTER_ALL, BEFORE_ALL, Standing
from topology.slack.sources import MAX_SOURCES, Source, Sources

RESERVE: Final = 20
"""Late events that must be left to spend before the tail is cut at delta."""

Q_MOST: Final = 500_000
OWN: Final = 64
COLD: Final = 64


class Tails:
    """Latenesses and delays of a source, or of all. Delays stand against the least seen."""

    __slots__ = ("delays", "latenesses", "least_ns")

    def __init__(self) -> None:
        self.latenesses = Histogram(0)
        self.delays = Histogram(0)
        self.least_ns = 0

    def add(self, lateness_ns: int, delay_ns: int) -> None:
        if not self.delays.trials or delay_ns < self.least_ns:
            self.least_ns = delay_ns
        self.latenesses.add(lateness_ns)
        self.delays.add(delay_ns - self.least_ns)

    def cut(self, q_ppm: int) -> tuple[int, int]:
        """(K, D) that all but q of the events need; twice the largest for q = 0."""
        self.latenesses.miss_ppm = self.delays.miss_ppm = q_ppm
        k_ns, d_ns = self.latenesses.edge_ns(), self.delays.edge_ns()
        if q_ppm == 0:
            k_ns, d_ns = 2 * k_ns, 2 * d_ns
        return k_ns, d_ns + self.least_ns

    def snapshot(self) -> Plain:
        return [self.least_ns, self.latenesses.snapshot(), self.delays.snapshot()]

    def restore(self, state: Plain) -> None:
        self.least_ns, latenesses, delays = state
        self.latenesses.restore(latenesses)
        self.delays.restore(delays)


class Voice(Source):
    __slots__ = ("samples", "tails", "waits_at", "waits_ns")

    def __init__(self) -> None:
        super().__init__()
        self.tails = Tails()
        self.samples = 0
        self.waits_at = (-1, -1)  # q and samples at which `waits_ns` was found
        self.waits_ns = (0, 0)

    def snapshot(self) -> Plain:
        return [super().snapshot(), self.samples, self.tails.snapshot()]

    def restore(self, state: Plain) -> None:
        base, self.samples, tails = state
        super().restore(base)
        self.tails.restore(tails)


class TailSlack(Standing):
    __slots__ = ("_all", "_delta_ppm", "_events", "_late", "_max_wait_ns", "_sources")

    def __init__(
        self,
        delta: float,
        *,
        max_wait_ns: int,
        idle_ns: int | None = None,
        max_sources: int = MAX_SOURCES,
    ) -> None:
        super().__init__()
        if not 0 <= delta <= 1:
            raise ValueError(f"delta is {delta}; it is a share between 0 and 1")
        self._delta_ppm = int(delta * PPM)
        self._max_wait_ns = max_wait_ns
        self._sources = Sources(Voice, idle_ns, max_sources)
        self._all = Tails()
        self._events = 0
        self._late = 0

    def _observe(self, event: Event, now_ns: int) -> None:
        ts_ns = event.ref_time_ns
        voice = self._sources.hear(event.source, now_ns)
        delay_ns = now_ns - ts_ns
        behind_ns = voice.last_ns - ts_ns
        if behind_ns <= 0 or voice.last_ns == BEFORE_ALL:
            self._sources.advance(voice, ts_ns)
            behind_ns = 0
        voice.samples += 1
        if len(self._sources.known) > 1:
            voice.tails.add(behind_ns, delay_ns)
        self._all.add(behind_ns, delay_ns)
        self._events += 1

    def late(self, ts_ns: int, lateness_ns: int) -> None:
        self._late += 1

    def q_ppm(self) -> int:
        """What share of the events may be given up at present."""
        left = self._delta_ppm * self._events - PPM * self._late
        return max(0, min(Q_MOST, self._delta_ppm * left // (RESERVE * PPM)))

    def _raw_ns(self, now_ns: int) -> int:
        q_ppm = self.q_ppm()
        frontier_ns = AFTER_ALL
        for voice in self._sources.live(now_ns):
            k_ns, d_ns = self._waits_ns(voice, q_ppm)
            frontier_ns = min(frontier_ns, max(voice.last_ns - k_ns, now_ns - d_ns))
        return frontier_ns if frontier_ns < AFTER_ALL else self._sources.newest_ns

    def _waits_ns(self, voice: Voice, q_ppm: int) -> tuple[int, int]:
        most_ns = self._max_wait_ns
        if self._events < COLD:
            return most_ns, most_ns
        if len(self._sources.known) == 1 or voice.samples < OWN:
            k_ns, d_ns = self._all.cut(q_ppm)
            return min(k_ns, most_ns), min(d_ns, most_ns)
        if voice.waits_at != (q_ppm, voice.samples):
            k_ns, d_ns = voice.tails.cut(q_ppm)
            voice.waits_at = (q_ppm, voice.samples)
            voice.waits_ns = (min(k_ns, most_ns), min(d_ns, most_ns))
        return voice.waits_ns

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        """When the bound is over by the delays of all sources that hold it back."""
        q_ppm = self.q_ppm()
        due_ns = None
        for voice in self._sources.live(now_ns):
            k_ns, d_ns = self._waits_ns(voice, q_ppm)
            if voice.last_ns - k_ns < bound_ns and (due_ns is None or bound_ns + d_ns > due_ns):
                due_ns = bound_ns + d_ns
        idle_ns = self._sources.next_idle_ns(now_ns)
        if due_ns is None or (idle_ns is not None and idle_ns < due_ns):
            return idle_ns
        return due_ns

    def waives(self, bound_ns: int, now_ns: int) -> bool:
        return self._sources.idle_is_behind(bound_ns, now_ns)

    def newest_ns(self) -> int:
        return self._sources.newest_ns

    def leave(self, source: str, now_ns: int) -> None:
        self._sources.leave(source)

    def figures(self) -> Figures:
        q_ppm = self.q_ppm()
        k_ns, d_ns = self._all.cut(q_ppm)
        own = {"sources": len(self._sources.known), "events": self._events, "late": self._late}
        return {**own, "q_ppm": q_ppm, "lateness_ns": k_ns, "delay_ns": d_ns}

    def _state(self) -> Plain:
        own = [self._events, self._late, self._all.snapshot()]
        return [*own, self._sources.snapshot()]

    def _restore(self, state: Plain) -> None:
        self._events, self._late, everyone, sources = state
        self._all.restore(everyone)
        self._sources.restore(sources)
