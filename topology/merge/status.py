"""The state of MERGE, for people and for metrics."""

from __future__ import annotations

from typing import Any

from topology.merge.bounds import SourceBounds
from topology.merge.passage import Passage
from topology.merge.queues import Queues
from topology.merge.source import NO_REF
from topology.merge.sources import KnownSources
from topology.merge.watermark import Watermark
from topology.model.event import NO_EPOCH
from topology.model.location import HELD, LOST, NOT_COME, OLD_EPOCH, PASSED
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
            "idle": sources - bounds.live - bounds.behind - bounds.dozing,
            "departed": bounds.departed,
            "dozing": bounds.dozing,
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

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Any] | None:
        """Where an event is (topology.model.location). O(events of the source that wait), and
        O(sources) for one that does."""
        progress = self._known.table.get(source)
        if progress is None:
            return None
        wanted = progress.epoch if epoch == NO_EPOCH else epoch
        answer: dict[str, Any] = {
            "epoch": wanted,
            "newest_epoch": progress.epoch,
            "newest": progress.seq,
        }
        for event in (*progress.queue, *self._queues.late):
            if (event.seq, event.epoch, event.source) == (seq, wanted, source):
                return {
                    **answer,
                    "where": HELD,
                    "arrival": event.arrival_ns,
                    "since": event.at_ns,
                    "ref_time": event.ref_time_ns,
                    "error": event.error_ns,
                    "waits_for": [] if event.late else self._bounds.waits_for(event.ref_time_ns),
                }
        floor_ns = self._passage.floor_ns
        answer["watermark"] = None if floor_ns == NO_REF else floor_ns
        if (wanted, seq) > (progress.epoch, progress.seq):
            return {**answer, "where": NOT_COME}
        if wanted < progress.epoch:
            return {**answer, "where": OLD_EPOCH}
        missing = progress.missing_around(seq)
        if missing is not None:
            return {**answer, "where": LOST, "missing": missing}
        return {**answer, "where": PASSED}

    def counts_of(self, source: str) -> Figures:
        progress = self._known.table.get(source)
        if progress is None:
            return {}
        return {
            "received": progress.received,
            "late": progress.late,
            "duplicate": progress.duplicate,
        }
