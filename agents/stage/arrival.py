"""The arrival clock of one input partition: the only clock the operators know.

Arrival is the broker's append time, as `topology.model.append_clock` takes it: the running
maximum, since the clock of a new leader may step back, but where a broker's clock is wrong. It is
part of the checkpoint, so catching up after a stop behaves as it would have live, and a replay of
the log gives the same answer.

Where no record arrives, time moves on only while the partition is caught up, to the
moment at which the fetch that showed this was asked for, less `tick_lag`: never to the
wall clock, since a worker that wakes from a pause would pass records it has not read. A
record overtaken all the same counts as arriving at the tick, and is counted. Where the broker's
clock is doubted, and this machine's is nearer to that than to ours, it is ahead by as much.

A topic without append times (CreateTime) gives no such clock: arrival is then the time of
reading, and two runs over one log may differ. `arrival: timestamp` takes the largest of the
records' own stamps so far instead, so that a replay gives the same answer; one that is further
ahead of the reading than `max_ahead` moves nothing. Topics of others have to say which
(`no_arrival`).

The embedded broker stamps nothing either, but all
who send to it are on this machine and under one clock: there the stamp that a producer's client
gives a record as it is sent counts as its arrival, as long as it can be one, not ahead and not
older than `OLDEST_STAMP_NS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from topology.config import Topology
from topology.config.fields import Arrival
from topology.model.append_clock import BLOCK, AppendClock
from topology.model.event import DEAD, Event
from topology.model.outcome import Malformed

LOG_APPEND_TIME: Final = 1
NS_PER_MS: Final = 1_000_000
OLDEST_STAMP_NS: Final = 60_000_000_000
"""Before the reading; what is older was hardly given when the record was sent."""


@dataclass(eq=False)
class ArrivalClock:
    """`now_ns` never goes back. `overtaken` counts records that a tick had passed. `embedded`:
    the log is the embedded broker's. `log`: the clock of the append times, without ticks. `judges`:
    a broker's clock may be doubted; else any append time is taken as it is. `arrival`,
    `max_ahead_ns`: as the topology has them for the topic."""

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
        self.overtaken = 0
        self.without_append_time = False

    def arrive(
        self, timestamp_ms: int, timestamp_type: int | None, read_at_ns: int, records: int = 1
    ) -> int:
        """Arrival of the next record of the log, or of so many that bear the same stamp, where the
        log goes on plainly; `read_at_ns` is the wall clock."""
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
            is_of_sending = self.embedded and 0 <= read_at_ns - stamp_ns <= OLDEST_STAMP_NS
            arrival_ns = stamp_ns if is_of_sending else read_at_ns
        return self._come(arrival_ns, records)

    @property
    def is_of_reading(self) -> bool:
        """Arrival is the time of reading, so it does not say how long a record has waited."""
        return self.arrival == "read" or self.without_append_time

    def _come(self, arrival_ns: int, records: int = 1) -> int:
        if arrival_ns <= self._ticked_ns:  # a tick fires what is due at its very instant
            self.overtaken += records
        if arrival_ns > self.now_ns:
            self.now_ns = arrival_ns
        return self.now_ns

    # -- a broker's clock that may be wrong --------------------------------------------------------

    def goes_on(self, records: Sequence[Any]) -> bool:
        """`arrive` is enough for them; else each is to be judged by its stamp."""
        if not self._is_judged(records):
            return True
        return self.log.goes_on([record.timestamp * NS_PER_MS for record in records])

    def went_on(self, records: Sequence[Any], events: Sequence[Event], ts_name: str) -> None:
        """They did, and yielded those events. `ts_name`: the header that bears a stamp."""
        if self._is_judged(records):
            stamped = [
                event for event in events if event.kind != DEAD and _is_stamped(event, ts_name)
            ]
            last = [
                (event.record.timestamp * NS_PER_MS, event.ts_ns) for event in stamped[-2 * BLOCK :]
            ]
            self.log.went_on(records[-1].timestamp * NS_PER_MS, last, len(stamped))

    def _is_judged(self, records: Sequence[Any]) -> bool:
        return self.judges and bool(records) and records[0].timestamp_type == LOG_APPEND_TIME

    def judge(
        self, timestamp_ms: int, timestamp_type: int | None, read_at_ns: int, stamp_ns: int | None
    ) -> int:
        """As `arrive`, for any record; `stamp_ns`: when the record was sent by its own account, by
        another clock than the broker's."""
        if timestamp_type != LOG_APPEND_TIME or not self.judges:
            return self.arrive(timestamp_ms, timestamp_type, read_at_ns)
        return self._come(self.log.take(timestamp_ms * NS_PER_MS, stamp_ns))

    def judge_all(
        self,
        records: Sequence[Any],
        items: Sequence[Event | Malformed],
        read_at_ns: int,
        ts_name: str,
    ) -> None:
        """What each of the records has become."""
        for record, item in zip(records, items, strict=True):
            stamp_ns = None
            if isinstance(item, Event) and _is_stamped(item, ts_name):
                stamp_ns = item.ts_ns
            item.at_ns = self.judge(record.timestamp, record.timestamp_type, read_at_ns, stamp_ns)
            if isinstance(item, Event):
                item.arrival_ns = item.at_ns

    def fault(self) -> str:
        """What is wrong with the broker's clock, for people; "" if nothing is known."""
        log = self.log
        if log.doubted_ns:
            return (
                f"append times have stepped ahead by {log.doubted_ns / 1e9:.0f} s, and no record's"
                " own time has: a broker's clock is wrong, or what comes was kept for as long; time"
                " goes on without that step (docs/operate/outages.md, A broker's clock is wrong)"
            )
        if log.behind_ns:
            return (
                f"append times have stepped back, by {log.behind_ns / 1e9:.0f} s still: a broker's"
                " clock is or was wrong; until they have caught up time goes on at half speed (see"
                " docs/operate/outages.md, A broker's clock is wrong)"
            )
        return ""

    def tick(self, caught_up_at_ns: int) -> bool:
        """The partition held nothing more at that time; True if time moved."""
        tick_ns = caught_up_at_ns - self.tick_lag_ns
        doubted_ns = self.log.doubted_ns
        if doubted_ns and tick_ns - self.now_ns > doubted_ns // 2:
            tick_ns -= doubted_ns
        if tick_ns <= self.now_ns:
            return False
        self.now_ns = self._ticked_ns = tick_ns
        return True

    def snapshot(self) -> list[int]:
        return [self.now_ns, self._ticked_ns, self.overtaken, *self.log.snapshot()]

    def restore(self, state: Sequence[int]) -> None:
        """A history is no evidence about the log."""
        self.now_ns, self._ticked_ns, self.overtaken, *log = state
        self.log.restore(log)


def arrival_clock(
    topology: Topology,
    topic: str,
    tick_lag_ns: int = 0,
    *,
    embedded: bool = False,
) -> ArrivalClock:
    """The clock of a partition of this topic, as the topology says that its records arrive."""
    arrival, max_ahead_ns = topology.arrival_of(topic)
    return ArrivalClock(tick_lag_ns, embedded=embedded, arrival=arrival, max_ahead_ns=max_ahead_ns)


def no_arrival(topology: Topology, topic: str) -> str | None:
    """Why a topic without append times cannot be read, None where it can: what others send says
    nothing of when it arrived, unless the topology does."""
    names = [name for name, each in topology.streams.items() if each.input == topic and each.fields]
    if not names:
        return None
    return (
        f"{topic} bears no append time (message.timestamp.type=LogAppendTime), so nothing says when"
        f" its records arrived; write streams: {{{names[0]}: {{arrival: timestamp}}}} for the"
        " largest of their own timestamps so far, by which a replay gives the same answer, or"
        " arrival: read for the time of reading"
    )


def _is_stamped(event: Event, ts_name: str) -> bool:
    """By its source; else the broker's stamp replaces that, and is no evidence about a broker."""
    record = event.record
    return event.ts_ns != record.timestamp * NS_PER_MS or any(
        name == ts_name for name, _ in record.headers
    )
