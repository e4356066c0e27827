"""How MERGE stands, for people and for metrics.

Proved by: tests/laws/test_figures.py, tests/agents/watch/test_operator_metrics.py
"""

from __future__ import annotations

from typing import Any

from topology.merge.bounds import SourceBounds
from topology.merge.passage import Passage
from topology.merge.queues import Queues
from topology.merge.source import NO_REF
from topology.merge.sources import KnownSources
from topology.merge.watermark import Watermark
from topology.model.operator import Figures


class MergeStatus:
    """Over the parts of a `Merge`; it changes none of them."""

    __slots__ = ("_bounds", "_known", "_passage", "_queues", "_watermark")

    def __init__(
        self,
        known: KnownSources,
        bounds: SourceBounds,
        queues: Queues,
        passage: Passage,
        watermark: Watermark,
    ) -> None:
        self._known = known
        self._bounds = bounds
        self._queues = queues
        self._passage = passage
        self._watermark = watermark

    def figures(self, now_ns: int) -> Figures:
        """`watermark_ns` is W by announcement or by the last event, whichever is larger;
        `awaited` are the sources that a pause of the log took away."""
        bounds = self._bounds
        sources = len(self._known.table)
        figures = {
            "sources": sources,
            "idle": sources - bounds.live - bounds.behind,
            "catching_up": bounds.behind,
            "awaited": len(bounds.awaited),
            "blocked": bounds.blocked,
            "queued": self._queues.count,
            "queued_bytes": self._queues.bytes,
            "forgotten": self._known.forgotten,
        }
        floor_ns = self._passage.floor_ns
        if floor_ns != NO_REF:
            figures["watermark_ns"] = floor_ns
            figures["watermark_lag_ns"] = now_ns - floor_ns
        if self._watermark.complete_ns != NO_REF:
            figures["complete_ns"] = self._watermark.complete_ns
        return figures

    def explain(self) -> dict[str, Any]:
        """What waits, for which sources, and until when if they stay silent; and what was late
        here, by cause."""
        heads = self._queues.heads
        sources = self._known.table.items()
        return {
            "late_by_cause": dict(sorted(self._passage.late_by_cause.items())),
            "wandering": sorted(source for source, progress in sources if progress.wandered),
            "head": {"source": heads[0][1], "ref_time": heads[0][0]} if heads else None,
            "waits_for": self._bounds.waits_for(heads[0][0]) if heads else [],
        }
