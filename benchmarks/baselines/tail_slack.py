"""A tail's wait for many sources by one arrival clock (slack.md 9.6), from which `OwnTail` came.

Two ways to know that nothing at or below a time is still to come from a source:

    it has itself come further by K    K the q-tail of its latenesses
    that time is over by D             D the q-tail of its delays

and the frontier is the smallest over the live sources of the larger of the two:
min over s of max(newest_s - K_s, now - D_s). K serves sources that speak often, D those that
are silent; a source in order has K = 0. A source whose clock is slow by more than `max_wait_ns`,
which leaves no sample of its delays, has K = D = 0. A source with less than `OWN` samples goes by
the sketch of all. The budget, the cold start and what comes too late are those of
`topology.waiting.tail`; late ones that had been late though all sources were waited for as long as
`max_wait_ns` are counted apart.

Cost: O(1) an event, O(live sources) a decision.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from topology.model.event import Event
from topology.model.histogram import PPM
from topology.model.operator import Figures
from topology.waiting.policy import AFTER_ALL, BEFORE_ALL, FlooredSlack
from topology.waiting.sources import MAX_SOURCES, Source, Sources
from topology.waiting.tail import COLD, Allowance, Tails

OWN: Final = 64


class TailSource(Source):
    __slots__ = ("tails",)
    FIELDS = (*Source.FIELDS, "tails")

    def __init__(self, max_wait_ns: int) -> None:
        super().__init__()
        self.tails = Tails(max_wait_ns)


class TailSlack(FlooredSlack):
    __slots__ = ("_all", "_allowance", "_max_wait_ns", "_sources")
    FIELDS = (*FlooredSlack.FIELDS, "_allowance", "_all", "_sources")

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
        self._max_wait_ns = max_wait_ns
        self._sources = Sources(partial(TailSource, max_wait_ns), idle_ns, max_sources)
        self._all = Tails(max_wait_ns)
        self._allowance = Allowance(round(delta * PPM))

    def _observe(self, event: Event, now_ns: int) -> None:
        ts_ns = event.ref_time_ns
        source = self._sources.hear(event.source, now_ns)
        delay_ns = now_ns - ts_ns
        behind_ns = source.last_ns - ts_ns
        if behind_ns <= 0 or source.last_ns == BEFORE_ALL:
            self._sources.advance(source, ts_ns)
            behind_ns = 0
        if len(self._sources.known) > 1:
            source.tails.add(behind_ns, delay_ns)
        self._all.add(behind_ns, delay_ns)
        self._allowance.events += 1

    def late(self, ts_ns: int, lateness_ns: int) -> None:
        least_ns = self._sources.least_ns(self._now_ns)
        if max(self._now_ns, least_ns) - self._max_wait_ns > ts_ns:
            self._allowance.beyond += 1
        else:
            self._allowance.late += 1

    def q_ppm(self) -> int:
        """What share of the events may be given up at present."""
        return self._allowance.q_ppm()

    def _raw_ns(self, now_ns: int) -> int:
        q_ppm = self.q_ppm()
        frontier_ns = AFTER_ALL
        for source in self._sources.live(now_ns):
            k_ns, d_ns = self._waits_ns(source, q_ppm)
            frontier_ns = min(frontier_ns, max(source.last_ns - k_ns, now_ns - d_ns))
        return frontier_ns if frontier_ns < AFTER_ALL else self._sources.newest_ns

    def _waits_ns(self, source: TailSource, q_ppm: int) -> tuple[int, int]:
        if self._allowance.events < COLD:
            return self._max_wait_ns, self._max_wait_ns
        return (source.tails if source.tails.samples >= OWN else self._all).cut(q_ppm)

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        """When the bound is over by the delays of all sources that hold it back."""
        q_ppm = self.q_ppm()
        due_ns = None
        for source in self._sources.live(now_ns):
            k_ns, d_ns = self._waits_ns(source, q_ppm)
            if source.last_ns - k_ns < bound_ns and (due_ns is None or bound_ns + d_ns > due_ns):
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
        k_ns, d_ns = self._all.cut(self.q_ppm())
        own = {"sources": len(self._sources.known), **self._allowance.figures()}
        return {**own, "lateness_ns": k_ns, "delay_ns": d_ns}
