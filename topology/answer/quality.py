"""How a query answers, and what it asks of its waiting (`quality:`) with the strategy for it.

A window is emitted as soon as the promised accuracy allows it, at the latest after `max_wait`. The
methods of papers are in `topology.published`; benchmarks/README.md compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from topology.answer.rules import EARLY, FINAL, Answer
from topology.waiting.budget import PPM, AccuracyBudget
from topology.waiting.policy import SlackPolicy
from topology.waiting.risk import RiskSlack


@dataclass(frozen=True, slots=True)
class Quality:
    """`accuracy_ppm` of the windows are right when first emitted, at the latest `max_wait_ns` after
    their end. A source silent for `idle_ns` is not waited for; None: every source is. `published`
    makes the strategy of the name `method`; both None: ours."""

    accuracy_ppm: int
    max_wait_ns: int
    method: str | None = None
    idle_ns: int | None = None
    max_sources: int = 10_000
    published: Callable[[Quality, int], SlackPolicy] | None = field(default=None, repr=False)

    def policy(self, window_ns: int) -> SlackPolicy:
        """A fresh one; `window_ns` is how long the windows are."""
        if self.published is not None:
            return self.published(self, window_ns)
        budget = AccuracyBudget((PPM - self.accuracy_ppm) / PPM)
        return RiskSlack(budget, idle_ns=self.idle_ns, max_sources=self.max_sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """What any query asks of its results. `answer`: what is emitted before it is final. `finals`:
    what was emitted before is emitted once more when it is final. `correct_for_ns`: how long late
    events change results. `new_source_allowance_ns`: how far behind W a source that was not seen
    before may begin (`frontier`). `quality`: None for no quality target (`quality_target`)."""

    answer: Answer = EARLY
    finals: bool = False
    correct_for_ns: int = 600 * 10**9
    new_source_allowance_ns: int = 600 * 10**9
    quality: Quality | None = None

    @property
    def emits_finals(self) -> bool:
        """A query with `answer: final` has emitted results before they were final if it had another
        answer before a restart."""
        return self.finals or self.answer == FINAL
