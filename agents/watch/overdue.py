"""Detects events that wait much longer than the topology file allows, whatever the cause.

An event may wait for earlier numbers of its source, for other sources, and for upstream partitions.
The first two waits have bounds in the file. The third has none, because an upstream partition may
never advance. So a partition checks its oldest buffered event every second. The stage is not ready
if that event stays the same for longer than all waits of the file together plus `OVERDUE_MARGIN_S`.
The local monotonic clock measures this, because the arrival clock itself may be stuck.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agents.watch.sentences import why_held
from topology.base.event import Event
from topology.base.location import HELD
from topology.config import StreamConfig, Topology
from topology.stage.registry import ALIGN_PLACE
from topology.stage.stage import Stage

OVERDUE_MARGIN_S: Final = 60.0
"""Extra time that is allowed for workers to restart, restore and hand over partitions."""

REORDER_WAITS: Final = 3
"""Number of waits in REORDER: for the start of the source, for an earlier epoch, and for a gap."""

LONGEST_STEP_S: Final = 5.0
"""Maximum time that counts between two checks, because the process may have been stopped."""

NAMED: Final = 5
NS_PER_S: Final = 1_000_000_000


def longest_wait_s(topology: Topology, streams: Iterable[StreamConfig]) -> float:
    """Return the longest time, in s, that an event may wait in all operators together."""
    waits = (
        REORDER_WAITS * stream.reorder.max_wait_ns
        + stream.clock.activation_ns
        + stream.clock.broker_slack_ns
        + stream.merge.max_wait_ns
        + stream.merge.idle_after_ns
        + stream.merge.quiet_after_ns
        + stream.merge.outage_wait_ns
        for stream in streams
    )
    shell_ns = topology.tick_lag_ns + topology.heartbeat_ns + topology.checkpoint_ns
    return (max(waits, default=0) + shell_ns + topology.transaction_timeout_ns) / NS_PER_S


class Overdue:
    """A watch over the oldest buffered event in a partition of a stage.

    `seconds` is by how long the event is overdue; 0 means not overdue. `waits_for` describes the
    cause of the wait, if the event is overdue.
    """

    def __init__(self, stage: Stage, topology: Topology) -> None:
        streams = [topology.streams[name] for name in stage.streams]
        self._stage = stage
        self.allowed_s = longest_wait_s(topology, streams) + OVERDUE_MARGIN_S
        self._streams = topology.streams
        self._oldest: tuple[int, ...] | None = None
        self._looked_s = 0.0
        self._looked_ns = self._since_ns = 0  # Both times are times of the arrival clock.
        self.waited_s = 0.0
        """Time for which the event has been the oldest, without the time that does not count."""
        self.seconds = 0.0
        self.waits_for = ""

    def update(self, oldest: Event | None, now_ns: int, *, has_backlog: bool) -> None:
        """Record which buffered event is the oldest, or None, and whether it is overdue.

        With a backlog nothing is overdue here, because another alarm reports it. Cost: O(1), and
        O(buffered events) once for an event that becomes overdue.
        """
        now_s = time.monotonic()
        step_s = min(now_s - self._looked_s, LONGEST_STEP_S)
        if self._stage.alignment is None and now_ns == self._looked_ns:
            step_s = 0.0  # The time during which the broker does not answer does not count.
        self._looked_s, self._looked_ns = now_s, now_ns
        key: tuple[int, ...] | None = None
        if oldest is not None and not has_backlog:
            # If only the alignment buffers the event, any advance of time counts as progress.
            places = self._stage.ledger.places_of(oldest)
            aligned_ns = now_ns if places == ALIGN_PLACE else 0
            key = (oldest.offset, places, aligned_ns)
        if key is None or oldest is None or key != self._oldest:
            self._oldest, self._since_ns = key, now_ns
            self.waited_s, self.seconds, self.waits_for = 0.0, 0.0, ""
            return
        self.waited_s += step_s
        # An event whose corrected timestamp is after its arrival also waits for that time.
        most_ahead_ns = self._streams[oldest.stream].clock.max_ahead_ns
        ahead_ns = min(max(0, oldest.ref_time_ns - oldest.at_ns), most_ahead_ns)
        self.seconds = max(0.0, self.waited_s - self.allowed_s - ahead_ns / NS_PER_S)
        if self.seconds and not self.waits_for:
            located = self._stage.locate_in(oldest.stream, oldest.source, oldest.epoch, oldest.seq)
            self.waits_for = describe_wait(located, oldest.source, self._find_lacking(now_ns))

    def _find_lacking(self, now_ns: int) -> Sequence[str]:
        """Return the upstream partitions that keep the time of this stage from advancing.

        Returns an empty sequence if the time advances.
        """
        alignment = self._stage.alignment
        if alignment is None or (now_ns - self._since_ns) / NS_PER_S >= self.allowed_s:
            return ()
        return alignment.blocking_partitions()

    def fault(self) -> str | None:
        """Return a description of the overdue event; None if none is overdue."""
        if not self.waits_for:
            return None
        return (
            f"the oldest event has waited for {self.waited_s:.0f} s,"
            " longer than all waits of the topology file"
            f" together: it waits for {self.waits_for}"
        )


def describe_wait(located: Mapping[str, Any], source: str, upstream: Sequence[str]) -> str:
    """Return what an event of the source waits for; `located` is the result of `Stage.locate_in`.

    `upstream` are the upstream partitions that keep the time of this stage from advancing.
    """
    if located["alignment"] is not None:
        upstream = located["alignment"]["waiting_for"]
    if upstream:
        return f"progress of {_format_names(upstream)}"
    for answers in located["streams"].values():
        merge, reorder = answers.get("merge") or {}, answers.get("reorder") or {}
        if merge.get("where") == HELD and merge["waits_for"]:
            return f"sources {_format_names([feed['source'] for feed in merge['waits_for']])}"
        if reorder.get("where") == HELD:
            return f"source {source}, {why_held(reorder)}"
    return "its timestamp to pass"


def _format_names(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
