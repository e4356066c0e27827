"""Lists the published strategies for a query with `quality`, by their names in the topology file.

| name           | a window is emitted                                                      |
|----------------|--------------------------------------------------------------------------|
| `prob_slack`   | by the rule of Rivetti et al.                                            |
| `event_driven` | when all live sources have sent something after its end                  |
| `mp`           | when the event-time clock is after its end by the largest lateness       |
| `aq`           | the same, with the share of the largest lateness that keeps the accuracy |
| `ldop`         | the same, with a multiple of the mean delay of events out of order       |
| `mean_delay`   | when the mean delay has passed since its end                             |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.published.aq_k_slack import AQKSlack
from benchmarks.published.event_driven import EventDriven
from benchmarks.published.ldop import LDOP
from benchmarks.published.mean_delay import AverageDelay
from benchmarks.published.mp_k_slack import MPKSlack
from benchmarks.published.prob_slack import ProbSlack
from topology.answer.settings import QualityConfig
from topology.answer.waiting.budget import PPM
from topology.answer.waiting.policy import SlackPolicy

LDOP_FACTOR_PPM: Final = 4_000_000
"""Four times the mean, the factor with the fewest late events among those measured."""
LDOP_REMEMBERS: Final = 10
"""The mean is computed over the arrivals within this many times `max_wait`."""


QUALITY: Final[Mapping[str, Callable[[QualityConfig, int], SlackPolicy]]] = {
    "prob_slack": lambda q, _: ProbSlack((PPM - q.accuracy_ppm) / PPM),
    "event_driven": lambda q, _: EventDriven(idle_ns=q.idle_ns, max_sources=q.max_sources),
    "mp": lambda q, _: MPKSlack(idle_ns=q.idle_ns),
    "aq": lambda q, window_ns: AQKSlack(window_ns, q.accuracy_ppm / PPM, idle_ns=q.idle_ns),
    "ldop": lambda q, _: LDOP(LDOP_REMEMBERS * q.max_wait_ns, LDOP_FACTOR_PPM, idle_ns=q.idle_ns),
    "mean_delay": lambda *_: AverageDelay(),
}
"""Functions that make a strategy from a quality target and the length of its windows."""
