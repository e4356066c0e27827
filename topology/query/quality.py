"""What a query asks of its waiting (`quality:`), and the strategy that gives it.

| `strategy`     | a window is emitted                                    | its parameter      |
|----------------|--------------------------------------------------------|--------------------|
| `risk`         | as soon as the promised accuracy allows it (default)   | `guard: hard, soft`|
| `prob_slack`   | as Rivetti et al. print it                             | none               |
| `event_driven` | when all sources have been heard beyond its end        | none               |
| `fixed`        | when the clock of the events is `wait` beyond its end  | `wait`             |
| `mp`           | the same, with the largest lateness seen               | none, it only grows|
| `aq`           | the same, with a share of it that keeps the accuracy   | none               |
| `ldop`         | the same, with a multiple of the mean delay of what    | none               |
|                | came out of order                                      |                    |
| `mean_delay`   | when the mean delay has passed since its end           | none               |

Only `risk` keeps the promised accuracy at every moment; all tell what they achieve, and `max_wait`
bounds all. `fixed`, `mp`, `aq` and `ldop` go by one clock for all sources. docs/waiting.md says how
they compare.

Proved by: tests/topology/window/test_promise.py, tests/topology/waiting/test_outage.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from topology.waiting.budget import PPM, AccuracyBudget
from topology.waiting.policy import SlackPolicy
from topology.waiting.published.aq_k_slack import AQKSlack
from topology.waiting.published.event_driven import EventDriven
from topology.waiting.published.k_slack import KSlack, MPKSlack
from topology.waiting.published.ldop import LDOP
from topology.waiting.published.mean_delay import AverageDelay
from topology.waiting.published.prob_slack import ProbSlack
from topology.waiting.risk import RiskSlack

Strategy = Literal["risk", "prob_slack", "event_driven", "fixed", "mp", "aq", "ldop", "mean_delay"]
Guard = Literal["hard", "soft"]

LDOP_FACTOR_PPM: Final = 4_000_000
"""Four times the mean: of the factors that are measured the one that is late least often."""
LDOP_REMEMBERS: Final = 10
"""The mean is that of what came within so many times `max_wait`."""


@dataclass(frozen=True, slots=True)
class Quality:
    """`accuracy_ppm` of the windows are right when first emitted, at the latest `max_wait_ns` after
    their end. A source silent for `idle_ns` is not waited for; None: every source is."""

    accuracy_ppm: int
    max_wait_ns: int
    strategy: Strategy = "risk"
    guard: Guard = "hard"
    wait_ns: int = 0
    idle_ns: int | None = None
    max_sources: int = 10_000

    def fault(self) -> str:
        """What cannot work; nothing if all can."""
        if 0 < self.accuracy_ppm < PPM and self.max_wait_ns > 0 and self.wait_ns >= 0:
            return ""
        return "quality needs an accuracy below 100% and a max_wait above 0"


def policy_of(quality: Quality, window_ns: int) -> SlackPolicy:
    """A fresh one; `window_ns` is how long the windows are."""
    return _MADE[quality.strategy](quality, window_ns)


def _risk(quality: Quality, _: int) -> SlackPolicy:
    budget = AccuracyBudget((PPM - quality.accuracy_ppm) / PPM, guard=quality.guard)
    return RiskSlack(budget, idle_ns=quality.idle_ns, max_sources=quality.max_sources)


def _aq(quality: Quality, window_ns: int) -> SlackPolicy:
    return AQKSlack(window_ns, quality.accuracy_ppm / PPM, idle_ns=quality.idle_ns)


_MADE: Final[Mapping[Strategy, Callable[[Quality, int], SlackPolicy]]] = {
    "risk": _risk,
    "prob_slack": lambda quality, _: ProbSlack((PPM - quality.accuracy_ppm) / PPM),
    "event_driven": lambda quality, _: EventDriven(
        idle_ns=quality.idle_ns, max_sources=quality.max_sources
    ),
    "fixed": lambda quality, _: KSlack(quality.wait_ns, idle_ns=quality.idle_ns),
    "mp": lambda quality, _: MPKSlack(idle_ns=quality.idle_ns),
    "aq": _aq,
    "ldop": lambda quality, _: LDOP(
        LDOP_REMEMBERS * quality.max_wait_ns, LDOP_FACTOR_PPM, idle_ns=quality.idle_ns
    ),
    "mean_delay": lambda *_: AverageDelay(),
}
