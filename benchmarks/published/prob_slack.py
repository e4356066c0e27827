"""ProbSlack as published (Rivetti et al., DEBS 2018): closes windows at a small risk.

A window closes when a later event has arrived, or when the joint probability J is at most `delta`.
J is the probability that an event of the window is still on its way
(`topology.answer.waiting.miss`). All sources are one stream, as in the paper, so the last event is
the newest of all.

* Fitting: the counts of `period` events make a model, and then start again from zero. Before the
  first model the strategy is event-driven.
* Guard: while missed / closed windows >= delta, the strategy is event-driven. When this begins,
  model and counts are dropped, and the next model takes `period` events.
  `guard=False` uses the rule alone, which does not keep its target. J ignores that no event has
  arrived until now, so every event of a window spends delta again.

Some rules are not in the paper. The guard counts exactly the closed windows that missed an event,
and it is off until a window has closed. With delta = 0 the strategy is event-driven. The frontier
is the time of the last event + (least risky alpha - 1 step), so that the strategy can drive a
reordering too.

Cost: O(1) amortised for an event. Memory: as in `topology.answer.waiting.miss`, and a number for
each row in use.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from topology.answer.waiting.fitting import (
    COUNTS,
    FITTING,
    Counts,
    DelayTables,
    Fitting,
    grid_floor,
    grid_next,
)
from topology.answer.waiting.miss import ONE, Joint, to_fixed_point
from topology.answer.waiting.policy import AFTER_ALL, BEFORE_ALL, PROMISED, SLACK, SlackPolicy
from topology.base.event import Event
from topology.base.operator import Figures
from topology.state.saved import BIG, INT, optional, tuple_of

MS: Final = 1_000_000


class Jumping(Fitting):
    """A fitting that makes a model from every `period` events, and then counts from zero again."""

    def _take_due(self) -> DelayTables | None:
        if self._now.events < self._period:
            return None
        full, self._now = self._now, DelayTables()
        return full

    def clear(self) -> None:
        self._now = DelayTables()


class Polyline:
    """The line at which J exceeds `theta` (in units of 2^-32).

    The line is the least alpha with J(alpha, beta) > theta, as a step function of beta. Its values
    are computed when they are needed.
    """

    def __init__(self, joint: Joint, theta: int) -> None:
        self._joint = joint
        self._limit = theta * joint.whole // ONE
        self._hats: dict[int, int | None] = {}
        self._first_beta: dict[int, int] = {}

    def hat(self, beta: int) -> int | None:
        """Return the least risky alpha for a bin `beta`, or None if no window is risky."""
        if beta not in self._hats:
            row = self._joint.row(beta)
            # The limit is at least 0, and row[0] is 0, so `beyond` is at least 1.
            beyond = bisect_right(row, self._limit)
            self._hats[beta] = self._joint.apart[beyond - 1] if beyond < len(row) else None
        return self._hats[beta]

    def first_beta(self, alpha: int) -> int:
        """Return the least beta (a bin) at which a window `alpha` ahead is not risky."""
        if alpha not in self._first_beta:
            joint = self._joint
            beta = grid_floor(joint.apart[0] + joint.delays[0]) - 1
            while (hat := self.hat(beta)) is not None and hat <= alpha and beta <= joint.last:
                beta = grid_next(beta)
            self._first_beta[alpha] = beta
        return self._first_beta[alpha]


PROB_SLACK: Final = SLACK.with_more(
    "published.prob_slack",
    1,
    _last_ns=BIG,
    _closed=INT,
    _missed=INT,
    _fitting=FITTING,
    _model=optional(tuple_of(COUNTS, COUNTS)),
)


class ProbSlack(SlackPolicy):
    """A strategy that waits until the joint probability is at most `delta`."""

    SHAPE = PROB_SLACK

    def __init__(
        self,
        delta: float,
        *,
        period: int = 10_000,
        step_ns: int = MS,
        guard: bool = True,
    ) -> None:
        super().__init__()
        self._theta = to_fixed_point(delta)
        self._step_ns = step_ns
        self._guard = guard
        self._fitting = Jumping(period, step_ns)
        # The counts from which `_polyline` was made.
        self._model: tuple[Counts, Counts] | None = None
        self._polyline: Polyline | None = None
        self._last_ns = BEFORE_ALL
        self._closed = 0
        self._missed = 0

    # -- what happens ------------------------------------------------------------------------------

    def observe(self, event: Event, now_ns: int) -> None:
        ts_ns = event.ref_time_ns
        if self._last_ns == BEFORE_ALL:
            self._last_ns = ts_ns
        elif ts_ns >= self._last_ns:
            due = self._fitting.add(ts_ns - self._last_ns, now_ns - ts_ns)
            self._last_ns = ts_ns
            if due is not None:
                self._make(due.apart, due.delays)

    def note_closed(self, bound_ns: int, now_ns: int, by: str, windows: int = 1) -> None:
        self._closed += windows

    def note_resolved(self, missed: bool, by: str, windows: int = 1) -> None:
        if not missed or by not in PROMISED:
            return
        before = self._is_guarded()
        self._missed += 1
        if self._is_guarded() and not before:
            self._fitting.clear()
            self._model = self._polyline = None

    def _is_guarded(self) -> bool:
        if self._theta == 0:
            return True
        return self._guard and self._missed * ONE >= self._theta * self._closed > 0

    def _make(self, apart: Counts, delays: Counts) -> None:
        self._model = (apart, delays)
        self._polyline = Polyline(Joint(apart, delays), self._theta)

    # -- the frontier ------------------------------------------------------------------------------

    def confirmed_ns(self, now_ns: int) -> int:
        if self._ended:
            return AFTER_ALL
        return self._last_ns - 1 if self._last_ns != BEFORE_ALL else BEFORE_ALL

    def _beta(self, now_ns: int) -> int:
        """Return the bin of the time since the last event.

        The base of the delays is subtracted, as in the tables.
        """
        assert self._fitting.base_ns is not None
        return grid_floor((now_ns - self._last_ns - self._fitting.base_ns) // self._step_ns)

    def passes(self, bound_ns: int, now_ns: int) -> bool:
        if bound_ns <= self.confirmed_ns(now_ns):
            return True
        if self._polyline is None or self._is_guarded():
            return False
        hat = self._polyline.hat(self._beta(now_ns))
        return hat is None or self._alpha(bound_ns) < hat

    def _alpha(self, bound_ns: int) -> int:
        return -(-(bound_ns - self._last_ns) // self._step_ns)

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        if self._polyline is None or self._is_guarded():
            return None
        assert self._fitting.base_ns is not None
        first = self._polyline.first_beta(self._alpha(bound_ns))
        beta = max(grid_next(self._beta(now_ns)), first)
        return self._last_ns + self._fitting.base_ns + beta * self._step_ns

    def newest_ns(self) -> int:
        return self._last_ns

    def figures(self) -> Figures:
        return {"closed": self._closed, "missed": self._missed, "guarded": int(self._is_guarded())}

    def derive(self) -> None:
        if self._model is not None:
            self._make(*self._model)
