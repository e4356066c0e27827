"""Keeps the arrival clock of one input partition, the only clock that the operators read.

The arrival time of a record is the append time (LogAppendTime) that the broker gave it.
`topology.base.append_clock` takes its running maximum, because the clock of a new leader may step
back. It also handles a broker's clock that is wrong. The arrival clock is part of the checkpoint.
So catching up after a stop gives the same results as live work, and so does a replay of the log.

If no record arrives, time advances only while the partition is caught up. It advances to the start
of the fetch that showed this, by the *broker's* clock (`agents.kafka.broker_times`), less
`tick_lag`. It never advances to this machine's clock. Otherwise a wrong clock, or a pause, would
let time overtake unread records. A record that arrived before such a tick gets the tick's time as
its arrival time, and is counted. If arrival times are in doubt, the doubted amount is subtracted
from the tick. It is not if the broker's clock was steady all the while, because then records were
only sent late.

If the saved time is ahead of the broker's clock by more than `BACK_NS`, the broker's clock is or
was wrong. An earlier version may also have taken a wrong clock of its machine. Time then advances
at half the speed of the broker's clock until that has caught up. So nothing waits more than
`SLOWED_BY` times as long as it should. Meanwhile the arrival times of events are those of the
log, so no clock of a source is corrected by the wrong time.

A topic with `CreateTime` has no append time (LogAppendTime). The arrival time is then the time of
reading, and two runs over one log may differ. With `arrival: timestamp` it is the largest of the
timestamps of the records read, so a replay gives the same result. A timestamp that is ahead of the
time of reading by more than `max_ahead` does not move the clock. Topics with foreign records must
choose one of the two (`why_unreadable`).

The embedded broker sets no arrival times either, but all its producers are on this machine and
share its clock. There the timestamp that the producer's client set at sending counts as the arrival
time. It must be plausible: not in the future and not older than `OLDEST_STAMP_NS`. In a recording
that is played back (`agents.stage.playback`) it is the recorded arrival time, of any age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from topology.base.append_clock import BACK_NS, BLOCK, AppendClock
from topology.base.event import DEAD, Event
from topology.base.outcome import Malformed
from topology.config import Topology
from topology.config.fields import Arrival

LOG_APPEND_TIME: Final = 1
NS_PER_MS: Final = 1_000_000
SLOWED_BY: Final = 2
"""The factor by which waits are longer while a saved time is ahead of the broker's clock."""

OLDEST_STAMP_NS: Final = 60_000_000_000
"""Largest plausible time between sending and reading, on the embedded broker."""


@dataclass(eq=False)
class ArrivalClock:
    """The clock of one input partition; `now_ns` never goes back.

    Attributes:
        tick_lag_ns: Time by which a tick stays behind the fetch that showed the partition's end.
        embedded: Whether the log is the embedded broker's.
        judges: Whether the broker's clock is checked; otherwise each of its timestamps is accepted.
        arrival: The topology's `arrival` setting for the topic.
        max_ahead_ns: The topology's `max_ahead` setting for the topic.
        log: The clock of the arrival times alone, without ticks.
        steady_since_ns: Time of the broker's clock since which it has not stepped; None if unknown.
        plays: Whether the records at hand are of a recording with its own arrival times.
        `overtaken`: Number of records whose arrival time was not after the last tick.
    """

    tick_lag_ns: int
    embedded: bool = False
    judges: bool = True
    arrival: Arrival | None = None
    max_ahead_ns: int = 0

    def __post_init__(self) -> None:
        self.judges = self.judges and self.arrival in (None, "append")
        self._ticked_ns = 0
        self.log = AppendClock()
        self.now_ns = 0
        self.steady_since_ns: int | None = None
        self.overtaken = 0
        self.plays = False
        # The latest time of the broker's clock, while `now_ns` is ahead of it.
        self._behind_at_ns: int | None = None
        self.without_append_time = False

    def arrive(
        self, timestamp_ms: int, timestamp_type: int | None, read_at_ns: int, records: int = 1
    ) -> int:
        """Return the arrival time of the next record of the log, and advance the clock to it.

        `records` is the number of consecutive records with this timestamp. The records must have
        passed `goes_on`; otherwise use `judge`. `read_at_ns` is the wall-clock time of reading.
        """
        if self.arrival == "timestamp":
            arrival_ns = timestamp_ms * NS_PER_MS
            if arrival_ns > read_at_ns + self.max_ahead_ns:
                arrival_ns = self.now_ns
        elif self.arrival == "read":
            arrival_ns = read_at_ns
        elif timestamp_type == LOG_APPEND_TIME:
            arrival_ns = timestamp_ms * NS_PER_MS
        else:
            self.without_append_time = True
            stamp_ns = timestamp_ms * NS_PER_MS
            oldest_ns = read_at_ns if self.plays else OLDEST_STAMP_NS
            is_of_sending = self.embedded and 0 <= read_at_ns - stamp_ns <= oldest_ns
            arrival_ns = stamp_ns if is_of_sending else read_at_ns
        return self._advance(arrival_ns, records)

    @property
    def is_of_broker(self) -> bool:
        """Whether arrival times are the broker's, so that its clock is that of ticks, too."""
        return self.judges and not self.embedded and not self.without_append_time

    @property
    def is_of_reading(self) -> bool:
        """Whether arrival is the time of reading, which hides how long records have waited."""
        return self.arrival == "read" or self.without_append_time

    @property
    def arrival_ns(self) -> int:
        """The arrival time of the last record, which is below `now_ns` if that is far ahead."""
        log_ns = self.log.now_ns
        return self.now_ns if log_ns is None or self.now_ns - log_ns <= BACK_NS else log_ns

    def least_arrival_ns(self, append_ns: int) -> int:
        """Return the least arrival time of the next record, which was appended at `append_ns`."""
        is_apart = self.log.doubted_ns or self.now_ns - append_ns > BACK_NS
        return min(self.now_ns, self.arrival_ns) if is_apart else self.now_ns

    def _advance(self, arrival_ns: int, records: int = 1) -> int:
        # A tick has already fired everything that is due at its time, inclusive.
        if arrival_ns <= self._ticked_ns:
            self.overtaken += records
        if arrival_ns > self.now_ns:
            self.now_ns = arrival_ns
        return self.now_ns

    # -- a broker's clock that may be wrong --------------------------------------------------------

    def goes_on(self, records: Sequence[Any]) -> bool:
        """Return whether the arrival times show no fault of the clock, so that `arrive` suffices.

        If they show one, call `judge` for each record.
        """
        if not self._is_judged(records):
            return True
        if self.now_ns - records[0].timestamp * NS_PER_MS > BACK_NS:
            return False
        return self.log.goes_on([record.timestamp * NS_PER_MS for record in records])

    def record_batch(self, records: Sequence[Any], events: Sequence[Event], ts_name: str) -> None:
        """Record the timestamps of a batch that passed `goes_on`, for later checks of the clock.

        `events` are the events of these records; `ts_name` is the header with the reported
        timestamp.
        """
        if self._is_judged(records):
            stamped = [
                event for event in events if event.kind != DEAD and _is_stamped(event, ts_name)
            ]
            last = [
                (event.record.timestamp * NS_PER_MS, event.ts_ns) for event in stamped[-2 * BLOCK :]
            ]
            self.log.advance_to(records[-1].timestamp * NS_PER_MS, last, len(stamped))

    def _is_judged(self, records: Sequence[Any]) -> bool:
        return self.judges and bool(records) and records[0].timestamp_type == LOG_APPEND_TIME

    def judge(
        self, timestamp_ms: int, timestamp_type: int | None, read_at_ns: int, stamp_ns: int | None
    ) -> int:
        """Advance to the next record, check the broker's clock, and return the arrival time.

        `stamp_ns` is the record's time by the source's own clock; None if the source reported none.
        """
        if timestamp_type != LOG_APPEND_TIME or not self.judges:
            return self.arrive(timestamp_ms, timestamp_type, read_at_ns)
        self._follow_slowly(timestamp_ms * NS_PER_MS)
        return self._advance(self.log.take(timestamp_ms * NS_PER_MS, stamp_ns))

    def judge_all(
        self,
        records: Sequence[Any],
        items: Sequence[Event | Malformed],
        read_at_ns: int,
        ts_name: str,
    ) -> None:
        """Set the arrival time of each record's event or dead letter."""
        for record, item in zip(records, items, strict=True):
            stamp_ns = None
            if isinstance(item, Event) and _is_stamped(item, ts_name):
                stamp_ns = item.ts_ns
            item.at_ns = self.judge(record.timestamp, record.timestamp_type, read_at_ns, stamp_ns)
            if isinstance(item, Event):
                item.arrival_ns = self.arrival_ns

    def fault(self) -> str:
        """Return a readable description of the broker's clock fault; "" if no fault is known."""
        log = self.log
        if log.doubted_ns and not self._is_sent_late:
            return (
                f"append times have stepped ahead by {log.doubted_ns / 1e9:.0f} s, but the records'"
                " own timestamps have not: a broker's clock is wrong, or records were sent late;"
                " that step is ignored (docs/operate/outages.md, A broker's clock is wrong)"
            )
        if log.behind_ns:
            return (
                f"append times have stepped back, and are still {log.behind_ns / 1e9:.0f} s behind:"
                " a broker's clock is or was wrong; until they have caught up, time advances at"
                " half speed (docs/operate/outages.md, A broker's clock is wrong)"
            )
        if self._behind_at_ns is not None:
            return (
                f"time is {self.off_ns / 1e9:.0f} s ahead of the broker's clock: that clock, or a"
                " worker's, was wrong; for the next"
                f" {SLOWED_BY * self.off_ns / 1e9:.0f} s, time advances at half speed"
                " (docs/operate/outages.md, A broker's clock is wrong)"
            )
        return ""

    @property
    def off_ns(self) -> int:
        """How far the broker's clock is ahead of or behind this clock."""
        if self._behind_at_ns is not None:
            return self.now_ns - self._behind_at_ns
        return 0 if self._is_sent_late else self.log.off_ns

    @property
    def _is_sent_late(self) -> bool:
        """Whether arrival times are in doubt, but the broker's clock has been steady since before.

        Then the records of a doubted step were kept by their producers, as during an outage.
        """
        since_ns, steady_ns = self.log.doubted_since_ns, self.steady_since_ns
        return since_ns is not None and steady_ns is not None and steady_ns < since_ns

    def tick(self, caught_up_at_ns: int, most_ns: int | None = None) -> bool:
        """Advance the time of a partition that has caught up, and return whether it moved.

        `caught_up_at_ns` is a time at which the partition had no more records. The clock may have
        shown a later time then, `most_ns` at most; None if that is unknown.
        """
        tick_ns = caught_up_at_ns - self.tick_lag_ns
        doubted_ns = 0 if self._is_sent_late else self.log.doubted_ns
        if doubted_ns and tick_ns - self.now_ns > doubted_ns // 2:
            tick_ns -= doubted_ns
        if tick_ns <= self.now_ns:
            return most_ns is not None and self._follow_slowly(most_ns)
        self._behind_at_ns = None
        self.now_ns = self._ticked_ns = tick_ns
        return True

    def _follow_slowly(self, time_ns: int) -> bool:
        """Advance at half the speed of a clock that is behind by more than `BACK_NS`.

        Return whether time moved.
        """
        last_ns, self._behind_at_ns = self._behind_at_ns, None
        if self.now_ns - time_ns <= BACK_NS:
            return False
        self._behind_at_ns = time_ns if last_ns is None else max(last_ns, time_ns)
        step_ns = 0 if last_ns is None else (self._behind_at_ns - last_ns) // SLOWED_BY
        self.now_ns += step_ns
        self._ticked_ns = self.now_ns
        return step_ns > 0

    def snapshot(self) -> list[int]:
        return [self.now_ns, self._ticked_ns, self.overtaken, *self.log.snapshot()]

    def restore(self, state: Sequence[int]) -> None:
        """Restore the clock from a saved state; a backfill's state has no values for `log`."""
        self.now_ns, self._ticked_ns, self.overtaken, *log = state
        self.log.restore(log)


def make_arrival_clock(
    topology: Topology,
    topic: str,
    tick_lag_ns: int = 0,
    *,
    embedded: bool = False,
) -> ArrivalClock:
    """Return the clock of a partition of this topic, with the topology's `arrival` setting."""
    arrival, max_ahead_ns = topology.arrival_of(topic)
    return ArrivalClock(tick_lag_ns, embedded=embedded, arrival=arrival, max_ahead_ns=max_ahead_ns)


def why_unreadable(topology: Topology, topic: str) -> str | None:
    """Return why a topic without append times (CreateTime) cannot be read; None if it can.

    Foreign records do not contain an arrival time, so the topology needs a setting for it.
    """
    names = [name for name, each in topology.streams.items() if each.input == topic and each.fields]
    if not names:
        return None
    return (
        f"{topic} has no append time (message.timestamp.type=LogAppendTime), so the arrival of its"
        f" records is unknown; write streams: {{{names[0]}: {{arrival: timestamp}}}} to use the"
        " largest timestamp of the records read, which a replay repeats, or arrival: read to use"
        " the time of reading"
    )


def _is_stamped(event: Event, ts_name: str) -> bool:
    """Return whether the source reported the timestamp.

    Otherwise `ts_ns` is the broker's own timestamp, which is no evidence about the broker's clock.
    """
    record = event.record
    return event.ts_ns != record.timestamp * NS_PER_MS or any(
        name == ts_name for name, _ in record.headers
    )
