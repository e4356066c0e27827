"""The figures of the operators as metric families.

A figure `<operator>_<name>` of a chain (topology.model.operator, `figures`) is the family
`inorder_<operator>_<name>`: a counter where it only grows, else a gauge; one that ends in
`_ns` is told in seconds, an instant as seconds since 1970.

Labels are stage, stream and partition. Streams beyond those that stand for themselves are
told together: their counts summed, their times left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from topology.model.operator import TOTALS, Figures

NS_PER_S: Final = 1_000_000_000
TIME: Final = "_ns"

TEXTS: Final = {
    "reorder_sources": "Sources known",
    "reorder_held": "Events behind a hole or before a start, and dead letters that hold a place",
    "reorder_held_bytes": "Payload of the events held",
    "reorder_overflows": "Times that a bound on held events gave up a hole or a start hold",
    "reorder_forgotten": "Sources forgotten at a bound, or after forget_after",
    "clock_sources": "Sources known",
    "clock_synced": "Sources whose clock was known when they spoke last",
    "clock_stale": "The same, but the last good round of time sync is long ago",
    "clock_unsynced": "Sources whose clock was not known: the policy `unsynced` held",
    "clock_suspect": "Sources whose newest rounds contradict the older, undecided yet",
    "clock_broken": "Sources whose events have refuted their clock, and not synced since",
    "clock_moved": "Sources whose clock was moved by arrivals alone (`unsynced: estimate`)",
    "clock_moved_ns": "How far it moved one of them at most",
    "clock_contradicted": "Events that contradicted the clock of their source",
    "clock_jumps": "Jumps of a clock that events have shown",
    "clock_forgotten": "Sources forgotten at a bound",
    "merge_sources": "Sources known",
    "merge_idle": "Sources that are silent or said bye: not waited for",
    "merge_catching_up": "Sources whose last event was late: not waited for",
    "merge_awaited": "Sources waited for since a pause of the whole log took them away",
    "merge_blocked": "Sources whose events wait in reorder behind a hole",
    "merge_queued": "Events that wait for other sources",
    "merge_queued_bytes": "Payload of the events that wait",
    "merge_overflows": "Events let go early, the bound being reached",
    "merge_forgotten": "Sources forgotten at a bound",
    "merge_watermark_ns": "W: only late events have a smaller reference time from now on",
    "merge_watermark_lag_ns": "How far W is behind the arrival clock",
    "merge_complete_ns": "C: every source has been heard up to here, without a hole",
    "window_windows": "Windows open, or kept for corrections",
    "window_told_not_final": "Windows told that may still change",
    "window_keys": "Keys with sessions",
    "window_kept": "Events that count windows keep for corrections",
    "window_emitted": "Results told for the first time, or again after a retract",
    "window_updated": "Results told again",
    "window_retracted": "Results taken back",
    "window_expired": "Events that came for a window that was final",
    "window_refused": "Events left out, as max_windows were open",
    "window_given_up": "Windows made final before their time, max_windows being reached",
    "window_promised_ppm": "Share of windows to be right when first told; of the strictest query",
    "window_achieved_ppm": "Share of windows that were right when first told; of the worst query",
    "window_wait_mean_ns": "From a window's end until it was told, mean; of the slowest query",
    "window_wait_max_ns": "The longest of these",
    "window_late_ppm": "Share of events that came after a window of theirs was told",
    "window_missed": "Windows told under a promise of quality that missed an event",
    "window_missed_apart": "Windows that missed an event, no promise speaking of them",
    "window_unkeyed": "Events without a value for the key of a query",
    "window_skipped": "Values that an aggregate cannot use",
    "window_failed": "Times that an aggregate of the user's own raised",
    "window_unreadable": "Payloads that are no JSON",
    "pattern_retained": "Events kept for what may still come",
    "pattern_irrelevant": "Events that no query asks for",
    "pattern_late": "Events behind the frontier",
    "pattern_refused": "Events left out at a bound",
    "pattern_given_up": "Watermarks at which room for newcomers was given up, for want of place",
    "pattern_copies": "Events seen before",
    "pattern_conflicts": "Copies that say something else",
    "pattern_unpartitioned": "Events without a value for the partition key of a query",
    "pattern_unreadable": "Payloads that are no JSON",
    "pattern_promised_ppm": "Share of times that are to be complete when first told; the strictest",
    "pattern_achieved_ppm": "Share of times that were complete when first told; the worst query",
    "pattern_wait_mean_ns": "From its end until it was told, mean; of the slowest query",
    "pattern_wait_max_ns": "The longest of these",
    "pattern_late_ppm": "Share of events that came after their time was told",
    "pattern_missed": "Times told under a promise of quality that missed an event",
    "pattern_missed_apart": "Times that missed an event, no promise speaking of them",
    "join_retained": "Events that may still get a partner",
    "join_emitted": "Rows told for the first time, or again after a retract",
    "join_updated": "Rows told again",
    "join_retracted": "Rows taken back, a partner having come",
    "join_expired": "Events that came when their time was final",
    "join_given_up": "Events forgotten before their time, max_events being reached",
    "join_overflows": "Events with more rows than max_rows",
    "join_promised_ppm": "Share of times that are to be complete when first told; of the strictest",
    "join_achieved_ppm": "Share of times that were complete when first told; of the worst query",
    "join_wait_mean_ns": "From its end until it was told, mean; of the slowest query",
    "join_wait_max_ns": "The longest of these",
    "join_late_ppm": "Share of events that came after their time was told",
    "join_missed": "Times told under a promise of quality that missed an event",
    "join_missed_apart": "Times that missed an event, no promise speaking of them",
    "join_copies": "Events seen before",
    "join_unkeyed": "Events without a value for the key of a query",
    "join_unreadable": "Payloads that are no JSON",
}


class OperatorMetrics:
    """The families, in the registry given. A place is (stage, stream, partition)."""

    def __init__(self, registry: CollectorRegistry, labels: tuple[str, ...]) -> None:
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter] = {}
        for figure, text in TEXTS.items():
            name = f"inorder_{figure}"
            if is_total(figure):
                self._counters[figure] = Counter(name, text, labels, registry=registry)
            else:
                name = name.replace(TIME, "_seconds")
                self._gauges[figure] = Gauge(name, text, labels, registry=registry)

    def stand(self, place: tuple[str, str, str], figures: Figures) -> None:
        for figure, value in figures.items():
            gauge = self._gauges.get(figure)
            if gauge is not None:
                gauge.labels(*place).set(value / NS_PER_S if figure.endswith(TIME) else value)

    def grew(self, place: tuple[str, str, str], before: Figures, now: Figures) -> None:
        """The totals are now these; `before` have been counted."""
        for figure, counter in self._counters.items():
            if figure in now:
                counter.labels(*place).inc(max(0, now[figure] - before.get(figure, 0)))

    def forget(self, place: tuple[str, str, str]) -> None:
        for gauge in self._gauges.values():
            gauge.remove(*place)


def is_total(figure: str) -> bool:
    return figure.partition("_")[2] in TOTALS


def together(parts: Iterable[Mapping[str, int]]) -> Figures:
    """The figures of several streams as one."""
    parts = list(parts)
    if len(parts) == 1:
        return dict(parts[0])
    summed: Figures = {}
    for part in parts:
        for figure, value in part.items():
            if not figure.endswith(TIME):
                summed[figure] = summed.get(figure, 0) + value
    return summed
