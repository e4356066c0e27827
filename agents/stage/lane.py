"""Keeps the part of a task that belongs to one of its input partitions, a *lane*.

A lane has its own offsets, arrival clock and inlet. Its events have the lane's number
(`topology.stage.lanes`), so that those of all lanes differ. A task that reads one partition has one
lane, with the number 0 and the offsets of the log.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka.structs import TopicPartition

from agents.kafka.broker_times import BrokerTimes
from agents.kafka.partition_queue import NEVER, End, FetchRequest, steady_ns
from agents.stage.arrival import ArrivalClock
from agents.stage.inlet import Inlet, InletBatch
from agents.stage.input_lag import SILENT_AFTER_NS, InputLag
from topology.base.event import PROGRESS, Event
from topology.stage.lanes import number_events, number_of


@dataclass(eq=False)
class Lane:
    """An input partition of a task.

    Attributes:
        number: The number of the lane in its task.
        inlet: The reader of the records into events.
        clock: The arrival clock.
        next_offset: Offset at which reading continues; None before the first record.
        lag: How long the next record has waited.
        high_watermark: The end of the log in the broker's last answer.
        newest_stamp_ns: The latest of the timestamps with which batches ended; 0 before the first.
    """

    number: int
    partition: TopicPartition
    inlet: Inlet
    clock: ArrivalClock
    next_offset: int | None = None
    lag: InputLag = field(default_factory=InputLag)
    high_watermark: int = 0
    newest_stamp_ns: int = 0
    _broker: int = NEVER.broker
    _led_since_ns: int | None = None  # By the clock of this leader.
    _asked_ns: int | None = None
    """Monotonic time of the request that was answered last; None before the first answer."""

    def read(self, records: Sequence[Any]) -> InletBatch:
        """Read consecutive records into events, and move the clock and the offset."""
        read = self.inlet.read(records, self.clock)
        self.own(read.events)
        for letter in read.dead:
            letter.offset = number_of(self.number, letter.offset)
        self.next_offset = records[-1].offset + 1
        return read

    def read_again(self, records: Sequence[Any], inlet: Inlet | None = None) -> list[Event]:
        """Return the events of buffered records, as this inlet reads them (None: the lane's)."""
        events = (inlet or self.inlet).read_again(records)
        self.own(events)
        return events

    def own(self, events: Iterable[Event]) -> None:
        """Give events that were read from this lane its number."""
        if self.number:
            number_events(events, self.number)

    def progress(self) -> Event:
        """Return an event that says that all records before the clock's time have been read."""
        event = Event("", "", 0, 0, 0, self.clock.now_ns, kind=PROGRESS)
        event.lane = self.number
        return event

    # -- the time of the broker --------------------------------------------------------------------

    @property
    def is_silent(self) -> bool:
        """Whether the broker has stopped answering, as without a leader."""
        return self._asked_ns is not None and steady_ns() - self._asked_ns > SILENT_AFTER_NS

    def note_answer(self, end: End) -> None:
        """Note the broker's last answer."""
        self.high_watermark = end.high_watermark
        if end.asked is not NEVER:
            self._asked_ns = end.asked.mono_ns
            if self._broker != end.asked.broker:
                self._broker, self._led_since_ns = end.asked.broker, None
            self.lag.note_answer(end.asked.mono_ns, end.high_watermark)

    def bound_clock_ns(
        self, at: FetchRequest, times: BrokerTimes | None
    ) -> tuple[int | None, int | None]:
        """Return the least time of the lane's clock at a request, and the latest; None if unknown.

        `times` are the brokers' clocks; None if arrival times are another clock's.
        """
        if times is None:
            return at.wall_ns, at.wall_ns
        times.request_probes(at.broker, at.mono_ns)
        now_ns = times.least_ns(at.broker, at.mono_ns)
        if self._led_since_ns is None:
            self._led_since_ns = now_ns
        self.clock.steady_since_ns = _latest_of(
            times.steady_since_ns(at.broker), self._led_since_ns
        )
        return now_ns, times.most_ns(at.broker, at.mono_ns)

    # -- for people --------------------------------------------------------------------------------

    @property
    def records_behind(self) -> int:
        return max(0, self.high_watermark - (self.next_offset or 0))

    def lag_ns(self, times: BrokerTimes | None) -> int | None:
        """How long the next record has waited, in ns; None if unknown (`stage.input_lag`)."""
        at = FetchRequest(steady_ns(), time.time_ns(), self._broker)
        now_ns = at.wall_ns if times is None else times.least_ns(at.broker, at.mono_ns)
        return self.lag.ns(self.next_offset or 0, now_ns, at.mono_ns)


def _latest_of(one_ns: int | None, other_ns: int | None) -> int | None:
    """Return the later time; None if one of them is unknown."""
    return None if one_ns is None or other_ns is None else max(one_ns, other_ns)
