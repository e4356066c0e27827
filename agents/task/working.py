"""Processes the records of one task: to events, through the operators, to encoded outputs.

After a failure, memory is ahead of the log. So the partition is closed, and its next owner restores
the state (`agents.task.partition`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from time import thread_time_ns
from typing import Any

from agents.kafka.stage_topics import SEQUENCED
from agents.restore.partition_state import PartitionState
from agents.stage.arrangement import Arrangement, ArrangementError
from agents.stage.arrival import why_unreadable
from agents.stage.inlet import InletBatch
from agents.stage.lane import Lane
from agents.stage.outbox import Outbox
from agents.state.changelog import StateRefused
from agents.task.hang import HangGuard
from agents.task.item_price import ItemPrice
from agents.watch.metrics.partition import PartitionMetrics
from topology.base.event import DATA
from topology.base.outcome import Malformed, Step

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Work:
    """The processing of a task's records, through its operators into the outbox.

    Attributes:
        event_came_s: Monotonic time at which the last event arrived.
    """

    arrangement: Arrangement
    state: PartitionState
    outbox: Outbox
    metrics: PartitionMetrics

    def __post_init__(self) -> None:
        arrangement, topology = self.arrangement, self.arrangement.topology
        self._outlet = arrangement.make_outlet(self.state.source)
        self._side = arrangement.make_side_outlet(self.state.source)
        self._results = arrangement.make_result_outlet()
        self._guard = HangGuard(topology.stuck_after_ns, is_armed=any(topology.user_functions))
        self._price = ItemPrice(self.state.stage.speculative_detectors)
        self._aligns = len(self.state.lanes) > 1
        self._progress_ns = 0
        self._warned = False
        self.event_came_s = time.monotonic()

    def process_records(self, pieces: Sequence[tuple[Lane, Sequence[Any]]]) -> None:
        """Process consecutive records of the logs of some lanes."""
        found = InletBatch()
        for lane, records in pieces:
            read = lane.read(records)
            events = read.events
            if self.arrangement.is_first:
                lane.lag.arrived_ns = 0 if lane.clock.is_of_reading else lane.clock.now_ns
                if events and events[-1].kind == DATA:
                    lane.newest_stamp_ns = max(lane.newest_stamp_ns, events[-1].ts_ns)
            else:
                lane.lag.arrived_ns = events[-1].at_ns if events else 0
            if lane.clock.without_append_time and not self._warned:
                self._warned = True
                self._warn_of_arrival(lane)
            found = read if len(pieces) == 1 else found.extend(read)
        self.process_events(found, [lane for lane, _ in pieces])

    def process_events(self, read: InletBatch, moved: Sequence[Lane]) -> None:
        """Pass events to the operators, and write everything that these emit and report.

        The clocks of the lanes `moved` have advanced. The events of a history are passed, too.
        """
        events, state = read.events, self.state
        if any(event.kind == DATA for event in events):
            self.event_came_s = time.monotonic()
        inputs, now_ns = events, state.first.clock.now_ns
        if self._aligns:
            inputs = [*events, *(lane.progress() for lane in moved)]
        begun_ns = thread_time_ns() if self._price else 0
        with self._guard:
            step = state.stage.on_batch(inputs, now_ns)
        if self._price:
            self._price.add_cpu_ns(thread_time_ns() - begun_ns)
        if not self.arrangement.is_first:
            clock = state.first.clock
            clock.now_ns = max(clock.now_ns, step.now_ns)
        if self.arrangement.reads == SEQUENCED:
            _refuse_unknown_stream(step)
        state.held.update(events)
        self.write_dead_letters(read.dead, events)
        self._put(step)

    def write_dead_letters(self, dead: Sequence[Malformed], events: Sequence[Any] = ()) -> None:
        """Count received events and dead letters, and write the dead letters."""
        self.metrics.count_received(events, dead)
        for letter in dead:
            self._side.put(letter, self.outbox)

    def _warn_of_arrival(self, lane: Lane) -> None:
        """Log that the topic has no arrival times.

        Raises ArrangementError if the topology file must choose another source of arrival times.
        """
        topic = lane.partition.topic
        without = why_unreadable(self.arrangement.topology, topic)
        if without is not None and not lane.clock.embedded:
            raise ArrangementError(without)
        log.log(
            logging.INFO if lane.clock.embedded else logging.WARNING,
            "%s has no append time (message.timestamp.type=LogAppendTime): arrival is the"
            " time of %s, and two runs over one log may differ",
            topic,
            "sending" if lane.clock.embedded else "reading",
        )

    def pass_time(self, moved: Sequence[Lane]) -> None:
        """Advance time after ticks of these lanes, which have no records."""
        stage = self.state.stage
        with self._guard:
            if self._aligns:
                step = stage.on_batch([lane.progress() for lane in moved], 0)
            else:
                step = stage.on_time(self.state.first.clock.now_ns)
        self.state.held.update()
        self._put(step)

    def _put(self, step: Step) -> None:
        """Write the outputs of a step."""
        outbox = self.outbox
        self._outlet.put_all(step.released, outbox)
        for report in step.reports:
            self._side.put(report, outbox)
        for finding in step.results:
            self._results.put(finding, outbox)
        self.metrics.count_emitted(step)

    def beat(self) -> None:
        """Report progress to the next stage, once in each heartbeat interval."""
        now_ns, beat_ns = self.state.now_ns, self.arrangement.topology.heartbeat_ns
        if now_ns // beat_ns > self._progress_ns // beat_ns:
            self._progress_ns = now_ns
            self._outlet.progress(now_ns, self.outbox)


def _refuse_unknown_stream(step: Step) -> None:
    """Raise StateRefused if the previous stage writes a stream that this topology file lacks."""
    for report in step.reports:
        if isinstance(report, Malformed) and report.reason == "unknown_stream":
            raise StateRefused(
                f"{report.detail}; the previous stage runs another topology file: restart this one"
                " with that file"
            )
