"""Counts events by stream, and how long they were buffered, in buckets of a histogram.

Waits are given in nanoseconds; a batch of them is sorted and counted bucket by bucket. The first
bucket is 0, for events that were not buffered at all.

This module is compiled, so it imports no library (setup.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from topology.base.event import DATA, Event

EDGES_MS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
_EDGES_NS: Final = tuple(edge * 1_000_000 for edge in EDGES_MS)


class WaitCounts:
    """The number of waits in each bucket, and their sum, for one set of labels."""

    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_MS) + 1)
        self.sum_ns = 0

    def observe(self, waits_ns: Sequence[int]) -> None:
        """Count a batch of waits; a negative wait counts as 0."""
        waits_ns = sorted(waits_ns)
        counts = self.counts
        begin = bisect_right(waits_ns, 0)
        counts[0] += begin
        self.sum_ns += sum(waits_ns[begin:])
        for bucket, edge_ns in enumerate(_EDGES_NS[1:], start=1):
            if begin == len(waits_ns):
                return
            end = bisect_right(waits_ns, edge_ns, begin)
            counts[bucket] += end - begin
            begin = end
        counts[-1] += len(waits_ns) - begin


def count_data(events: Sequence[Event]) -> dict[str, int]:
    """Return the number of data events of each stream."""
    counts: dict[str, int] = {}
    for event in events:
        if event.kind == DATA:
            counts[event.stream] = counts.get(event.stream, 0) + 1
    return counts


def waits_of(released: Sequence[Event]) -> tuple[list[int], list[Event], list[Event]]:
    """Return how long each data event waited, in ns, then the late events and the control events.

    Late events are among the data events.
    """
    waits_ns: list[int] = []
    late: list[Event] = []
    control: list[Event] = []
    for event in released:
        if event.kind != DATA:
            control.append(event)
            continue
        waits_ns.append(event.at_ns - event.arrival_ns)
        if event.late:
            late.append(event)
    return waits_ns, late, control
