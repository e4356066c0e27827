"""What the figures of CLOCK mean, in the order in which metrics have them.

Proved by: tests/laws/test_figures.py, tests/agents/watch/test_operator_metrics.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.model.operator import Figure

FIGURES: Final[Mapping[str, Figure]] = {
    "sources": Figure("Sources known"),
    "synced": Figure("Sources whose clock was known when they spoke last"),
    "stale": Figure("The same, but the last good round of time sync is long ago"),
    "unsynced": Figure("Sources whose clock was not known: the policy `unsynced` held"),
    "suspect": Figure("Sources whose newest rounds contradict the older, undecided yet"),
    "broken": Figure("Sources whose events have refuted their clock, and not synced since"),
    "moved": Figure("Sources whose clock was moved by arrivals alone (`unsynced: estimate`)"),
    "moved_ns": Figure("How far it moved one of them at most"),
    "contradicted": Figure("Events that contradicted the clock of their source", is_total=True),
    "jumps": Figure("Jumps of a clock that events have shown", is_total=True),
    "forgotten": Figure("Sources forgotten at a bound, or after forget_after", is_total=True),
}
