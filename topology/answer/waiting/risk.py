"""RISK: waits until the risk of missing an event fits the target; the default for windows.

The risk of a source is the probability that an event at or below a bound has not arrived yet. It
depends on the source's earlier events and on its silence (`topology.answer.waiting.posterior`). It
is weighed by the cost of waiting for the next event, unless `weigh=False`. If the source's events
are not in order, the expected number of stragglers is added. The risks of all sources are added.
The bound passes once the sum is at most the threshold of the budget
(`topology.answer.waiting.budget`). It also passes when all live sources have sent later events.

* There are tables for each source, and for all sources together. A source uses its own tables once
  they have 200 samples and differ from the common ones by more than 0.2 (Kolmogorov-Smirnov). Until
  then it uses the common tables. Until these have 200 samples, only certainty passes a bound.
* Certainty is the newest time of each live source, exclusive, less the largest lateness of a
  straggler among the source's last T events. It is certain if sources keep order.
* A source that is silent for `idle_ns` is no longer waited for (reason `idle`). After ten times
  that it counts as absent, and windows no longer count as lacking it.
* No count is older than about T = `period` events of the source (of all sources, in the common
  tables).

Decisions on risk are made at multiples of `step_ns` after the last event of a source. Only sources
that may still send an event for the bound count. Cost: O(1) for an event, and a model every T/8
events. A decision costs O(sources that have sent nothing after the bound). Memory: tables of a few
hundred bins for each source.
"""

from __future__ import annotations

from typing import Any, Final

from topology.answer.waiting.budget import ACCURACY, AccuracyBudget
from topology.answer.waiting.fitting import (
    DELAYS,
    READY,
    ROTATING,
    DelayTables,
    Rotating,
    distance_ppm,
    grid_floor,
    grid_next,
)
from topology.answer.waiting.miss import ONE
from topology.answer.waiting.policy import AFTER_ALL, BEFORE_ALL, SLACK, SlackPolicy
from topology.answer.waiting.posterior import Posterior, StepRate
from topology.answer.waiting.sources import MAX_SOURCES, SOURCE, Source, Sources
from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER, Changes, Figures
from topology.state.saved import (
    BIG,
    FLAG,
    INT,
    Saved,
    Shape,
    ShapeRefused,
    list_of,
    optional,
    record,
)
from topology.state.tables import Table, TableWithin

MS: Final = 1_000_000
OWN_PPM: Final = 200_000
LOOK_AHEAD: Final = 16
"""The maximum number of instants that are examined to find one deadline.

If none of them is the deadline, the last is used, which is too early. Usually an event arrives
before it; otherwise the search continues from it.
"""


POOL: Final = "pool"

MODELLED: Final = Shape(
    "waiting.modelled",
    1,
    fitting=ROTATING,
    made_of=optional(DELAYS),
    pace=optional(record(StepRate, events=INT, steps=INT)),
)
MODELLED_SOURCE: Final = SOURCE.with_more(
    "waiting.modelled_source", 1, alone=FLAG, _events=INT, lateness_ns=list_of(INT), own=MODELLED
)
RISK: Final = SLACK.with_more(
    "waiting.risk",
    1,
    _ordered=FLAG,
    _newest_ns=BIG,
    _pool=TableWithin(MODELLED),
    _sources=TableWithin(MODELLED_SOURCE),
    budget=ACCURACY,
)


class Modelled(Saved):
    """A set of counts, and the last model that was made from them."""

    SHAPE = MODELLED
    __slots__ = (*MODELLED.fields, "_step_ns", "model")

    def __init__(self, period: int, step_ns: int) -> None:
        self.fitting = Rotating(period, step_ns)
        self.model: Posterior | None = None
        self.made_of: DelayTables | None = None
        self.pace: StepRate | None = None
        self._step_ns = step_ns

    def make(self, sample: DelayTables, pace: StepRate | None) -> None:
        self.made_of = sample
        self.pace = pace
        self.derive()

    def fresh(self, field: str) -> DelayTables:
        return DelayTables()

    def derive(self) -> None:
        if self.made_of is not None:
            if self.fitting.base_ns is None:
                raise ShapeRefused("the delays of a model have no `base_ns`")
            self.model = Posterior(self.made_of, self._step_ns, self.fitting.base_ns, self.pace)


class PoolTable(Table[str, Modelled]):
    """A table with a single row: the counts of all sources together."""

    def __init__(self, pool: Modelled) -> None:
        super().__init__("", MODELLED)
        self.rows[POOL] = pool
        self.is_recorded = False

    def fresh(self, key: str) -> Modelled:
        return self.rows[key]

    def changes(self) -> Changes:
        self.is_recorded = False
        return super().changes()


class ModelledSource(Source):
    """A source with its counts.

    `alone` means that it uses its own model. `lateness_ns` has the largest lateness in this half of
    the period, and in the one before.
    """

    SHAPE = MODELLED_SOURCE
    __slots__ = ("_events", "_half", "alone", "lateness_ns", "own")

    def __init__(self, source: str, period: int, step_ns: int) -> None:
        super().__init__(source)
        self.own = Modelled(period, step_ns)
        self.alone = False
        self.lateness_ns = [0, 0]
        self._events = 0
        self._half = period // 2

    def count(self) -> None:
        self._events += 1
        if self._events >= self._half:
            self._events = 0
            self.lateness_ns = [0, self.lateness_ns[0]]

    def certain_ns(self) -> int:
        return self.last_ns - 1 - max(self.lateness_ns)


@mypyc_attr(allow_interpreted_subclasses=True)
class RiskSlack(SlackPolicy):
    """A strategy that waits until the risk of each bound fits a budget."""

    SHAPE = RISK
    certain = True

    def __init__(
        self,
        budget: AccuracyBudget,
        *,
        period: int = 10_000,
        step_ns: int = MS,
        weigh: bool = True,
        idle_ns: int = NEVER,
        max_sources: int = MAX_SOURCES,
    ) -> None:
        super().__init__()
        self.budget = budget
        self._step_ns = step_ns
        self._weigh = weigh
        self._all = Modelled(period, step_ns)
        self._pool = PoolTable(self._all)
        self._sources = Sources(
            lambda source: ModelledSource(source, period, step_ns),
            MODELLED_SOURCE,
            idle_ns,
            max_sources,
        )
        self._newest_ns = BEFORE_ALL
        self._ordered = True  # Whether no straggler has arrived yet.

    # -- what happens ------------------------------------------------------------------------------

    def observe(self, event: Event, now_ns: int) -> None:
        sources = self._sources
        source = sources.observe(event.source, now_ns)
        ts_ns = event.ref_time_ns
        last_ns = source.last_ns
        if ts_ns > self._newest_ns:
            self._newest_ns = ts_ns
        if last_ns == BEFORE_ALL:
            source.last_ns = ts_ns
            return
        if not self._ordered:
            source.count()
        if not self._pool.is_recorded:
            self._pool.is_recorded = True
            self._pool.note(POOL)
        several = len(sources.rows) > 1
        if ts_ns < last_ns:
            self._ordered = False
            source.lateness_ns[0] = max(source.lateness_ns[0], last_ns - ts_ns)
            self._all.fitting.count_straggler(now_ns - ts_ns)
            if several:
                source.own.fitting.count_straggler(now_ns - ts_ns)
            return
        source.last_ns = ts_ns
        due = self._all.fitting.add(ts_ns - last_ns, now_ns - ts_ns)
        if due is not None:
            steps = max(1, due.span_ns // self._step_ns)
            self._all.make(due, StepRate(due.events, steps) if self._weigh else None)
        if several:
            due = source.own.fitting.add(ts_ns - last_ns, now_ns - ts_ns)
            if due is not None:
                source.own.make(due, self._all.pace if self._weigh else None)
                source.alone = due.events >= READY and self._differs_from_all(source.own)

    def _differs_from_all(self, own: Modelled) -> bool:
        mine, others = own.made_of, self._all.made_of
        if mine is None or others is None or own.model is None or self._all.model is None:
            return False
        if distance_ppm(mine.apart, others.apart) > OWN_PPM:
            return True
        shift = (own.model.base_ns - self._all.model.base_ns) // self._step_ns
        shifted = {grid_floor(d + shift): count for d, count in mine.delays.items()}
        return distance_ppm(shifted, others.delays) > OWN_PPM

    def note_closed(self, bound_ns: int, now_ns: int, by: str, windows: int = 1) -> None:
        self.budget.note_closed(by, windows)

    def note_resolved(self, missed: bool, by: str, windows: int = 1) -> None:
        self.budget.note_resolved(missed, by, windows)

    def note_void(self, by: str) -> None:
        # The window no longer counts as closed. The target is still met, because the number of
        # missed windows is unchanged and this one cannot miss an event.
        self.budget.note_closed(by, -1)

    def note_end(self, source: str, now_ns: int) -> None:
        self._sources.note_end(source)

    # -- the frontier ------------------------------------------------------------------------------

    def confirmed_ns(self, now_ns: int) -> int:
        if self._ended:
            return AFTER_ALL
        if not self._sources.rows:
            return BEFORE_ALL
        if self._ordered:
            return min(self._sources.least_ns(now_ns), self._newest_ns) - 1
        certain = (source.certain_ns() for source in self._sources.live(now_ns))
        return min(certain, default=self._newest_ns - 1)

    def ignores_idle(self, bound_ns: int, now_ns: int) -> bool:
        return self._sources.is_idle_behind(bound_ns, now_ns)

    def passes(self, bound_ns: int, now_ns: int) -> bool:
        if bound_ns <= self.confirmed_ns(now_ns):
            return True
        threshold = self.budget.compute_threshold()
        if threshold <= 0 or self._all.model is None:
            return False
        return (
            self._risk_of(self._find_sources_below(bound_ns, now_ns), bound_ns, now_ns) <= threshold
        )

    def _find_sources_below(self, bound_ns: int, now_ns: int) -> list[ModelledSource]:
        """Return the live sources that may still send an event at or below the bound."""
        return [source for source in self._sources.live(now_ns) if source.certain_ns() < bound_ns]

    def _model_of(self, source: ModelledSource) -> Posterior | None:
        return source.own.model if source.alone else self._all.model

    def _risk_of(self, sources: list[ModelledSource], bound_ns: int, now_ns: int) -> int:
        step_ns = self._step_ns
        risk = 0
        for source in sources:
            model = self._model_of(source)
            if model is None:
                return ONE
            last_ns = source.last_ns
            beta = (now_ns - last_ns - model.base_ns) // step_ns
            alpha = -((last_ns - bound_ns) // step_ns)
            risk += model.risk_of(alpha, grid_floor(beta))
            if source.lateness_ns[0] or source.lateness_ns[1]:
                risk += model.stragglers((now_ns - bound_ns - model.base_ns) // step_ns)
        return risk

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        idle_ns = self._sources.next_idle_ns(now_ns)
        at_ns = min(idle_ns, self._find_risk_deadline_ns(bound_ns, now_ns, idle_ns))
        return at_ns if at_ns < AFTER_ALL else None

    def _find_risk_deadline_ns(self, bound_ns: int, now_ns: int, until_ns: int) -> int:
        threshold = self.budget.compute_threshold()
        if threshold <= 0 or self._all.model is None:
            return AFTER_ALL
        sources = self._find_sources_below(bound_ns, now_ns)
        if len(sources) == 1 and self._ordered:
            return self._find_single_deadline_ns(sources[0], bound_ns, now_ns, threshold)
        at_ns = now_ns
        for _ in range(LOOK_AHEAD):
            at_ns = self._next_change_ns(sources, bound_ns, at_ns)
            if at_ns >= until_ns or self._risk_of(sources, bound_ns, at_ns) <= threshold:
                break
        return at_ns

    def _find_single_deadline_ns(
        self, source: ModelledSource, bound_ns: int, now_ns: int, threshold: int
    ) -> int:
        """Return the deadline for the only source that is behind, faster than in the general case.

        In most streams at most one source is behind.
        """
        model = self._model_of(source)
        if model is None:
            return AFTER_ALL
        step_ns = self._step_ns
        origin_ns = source.last_ns + model.base_ns
        beta = grid_floor((now_ns - origin_ns) // step_ns)
        first = model.find_first_beta(-((source.last_ns - bound_ns) // step_ns), beta, threshold)
        return AFTER_ALL if first is None else origin_ns + first * step_ns

    def _next_change_ns(self, sources: list[ModelledSource], bound_ns: int, now_ns: int) -> int:
        """Return the next instant at which the risk changes without an arrival."""
        step_ns = self._step_ns
        next_ns = AFTER_ALL
        for source in sources:
            model = self._model_of(source)
            if model is None:
                continue
            origins = [source.last_ns + model.base_ns]
            if source.lateness_ns[0] or source.lateness_ns[1]:
                origins.append(bound_ns + model.base_ns)
            for origin_ns in origins:
                steps = grid_floor((now_ns - origin_ns) // step_ns)
                if steps <= model.last:
                    next_ns = min(next_ns, origin_ns + grid_next(steps) * step_ns)
        return next_ns

    def newest_ns(self) -> int:
        return self._newest_ns

    def figures(self) -> Figures:
        known = self._sources.rows.values()
        alone = sum(source.alone for source in known)
        return {"sources": len(known), "sources_alone": alone, **self.budget.figures()}

    def tables(self) -> list[Table[Any, Any]]:
        return [self._pool, self._sources]
