"""Bounds each broker's clock from below, so that time never comes from this machine's wall clock.

A partition that has caught up must know the time of its broker, because later records get their
arrival times from that clock. Every `PROBE_S` an empty record is written to a topic of ours, which
has a partition for each broker (`agents.kafka.declared`). It is written only while something asks
for the time. The answer has the record's arrival time, which lies between sending and answer:

    arrival time - monotonic time of the answer <= broker's clock - monotonic clock
    arrival time - monotonic time of sending    >= broker's clock - monotonic clock

The lower bound gives the least time that the broker's clock can show at any later moment. A slow
answer, a pause or a busy process make it lower, and so the partition late, but never early. An
older bound counts while it is higher, less `DRIFT_PPM` of its age. If a new upper bound is below
it, the broker's clock has stepped back. A bound says nothing of moments before a step, and nothing
once it is older than `STALE_S`. The monotonic clock here goes on while the machine sleeps.

A step *ahead* by more than `LEAST_NS` is doubted until it has lasted for its own length, as in
`topology.base.append_clock`. It is believed at once if the clocks of all brokers have stepped,
because then this machine was suspended.

A broker without a partition of the topic, for example one that joined later, gets the least bound
of all others. If its own clock is behind all of those, its records may be late, as they are when a
partition moves to such a broker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from agents.kafka.brokers import Brokers
from agents.kafka.partition_queue import steady_ns
from agents.kafka.refused_rights import refusal_in
from agents.kafka.rights import WRITE
from topology.base.append_clock import BACK_NS, LEAST_NS

log = logging.getLogger(__name__)

PROBE_S: Final = 1.0
ANSWER_S: Final = 5.0
"""Time limit for the answer to a probe."""

AGAIN_S: Final = 5.0
"""Time before the next attempt when no producer can be started."""

DRIFT_PPM: Final = 200
"""Largest rate at which a broker's clock and the monotonic clock of this machine drift apart."""

STALE_S: Final = 10.0
"""Age from which on a bound does not count; the broker may have stepped back since."""

SILENT_ROUNDS: Final = 3
"""Rounds of probes without any answer after which the producer is replaced."""

UNKNOWN_AFTER_S: Final = 10.0
"""Time for which the time of the brokers may be unknown before this is a fault."""

WALL_OFF_NS: Final = 1_000_000_000
"""Difference from the brokers' clocks above which this machine's wall clock is reported."""

LOG_APPEND_TIME: Final = 1
NS_PER_MS: Final = 1_000_000
MILLION: Final = 1_000_000


class Probe(NamedTuple):
    """A record that a broker has appended; times other than `append_ns` are monotonic.

    `append_ns` is in whole milliseconds, rounded down. `wall_ns` is this machine's wall clock at
    `received_ns`.
    """

    append_ns: int
    sent_ns: int
    received_ns: int
    wall_ns: int = 0


@dataclass(slots=True)
class _Clock:
    """The bounds on a broker's clock less the monotonic clock.

    Attributes:
        seen_ns: Monotonic time of the lower bound.
        steady_ns: Monotonic time since which the clock is known not to have stepped.
        stepped_ns: Monotonic time at which a doubted step ahead was first seen; None without one.
        wall_off_ns: How far the wall clock is ahead of this clock at least; below 0 if behind.
    """

    low_ns: int
    high_ns: int
    seen_ns: int
    steady_ns: int
    stepped_ns: int | None = None
    wall_off_ns: int = 0

    def drift_ns(self, mono_ns: int) -> int:
        """Return by how much the difference may have changed since it was seen."""
        return max(0, mono_ns - self.seen_ns) * DRIFT_PPM // MILLION

    def least_ns(self, mono_ns: int) -> int:
        """Return the least difference at this time."""
        return self.low_ns - self.drift_ns(mono_ns)

    def is_fresh(self, mono_ns: int) -> bool:
        return mono_ns - self.seen_ns <= STALE_S * 1e9

    def is_steady(self, mono_ns: int) -> bool:
        """Return whether the clock has not stepped since this time."""
        return mono_ns >= self.steady_ns


@dataclass(eq=False)
class BrokerTimes:
    """The least time that each broker's clock can show; all arguments are monotonic times.

    Cost: O(1) a question, O(brokers) for a broker that has not been probed.

    Attributes:
        why_unknown: Why the last probe had no answer.
        asked: Set while a new probe is wanted.
    """

    why_unknown: str = "no broker has answered yet"
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    _clocks: dict[int, _Clock] = field(default_factory=dict)
    _waits: dict[int, int] = field(default_factory=dict)
    """Since when a partition waits for the time of each broker that is unknown."""

    def request_probes(self, broker: int, mono_ns: int) -> None:
        """Note that a partition has caught up, so that the brokers are probed again."""
        self.asked.set()
        if self.least_ns(broker, mono_ns) is None:
            self._waits.setdefault(broker, mono_ns)
        else:
            self._waits.pop(broker, None)

    def least_ns(self, broker: int, mono_ns: int) -> int | None:
        """Return the least time of the broker's clock at `mono_ns`; None if it is unknown."""
        clock = self._clocks.get(broker)
        if clock is not None and clock.is_fresh(mono_ns):
            return mono_ns + clock.least_ns(mono_ns) if clock.is_steady(mono_ns) else None
        others = [each for each in self._clocks.values() if each.is_fresh(mono_ns)]
        if not others or not all(each.is_steady(mono_ns) for each in others):
            return None
        return mono_ns + min(each.least_ns(mono_ns) for each in others)

    def most_ns(self, broker: int, mono_ns: int) -> int | None:
        """Return the latest time of the broker's clock at `mono_ns`; None if it is unknown.

        It is also None while a step ahead is doubted.
        """
        clock = self._clocks.get(broker)
        if clock is None or clock.stepped_ns is not None or not clock.is_fresh(mono_ns):
            return None
        return mono_ns + clock.high_ns + clock.drift_ns(mono_ns)

    def steady_since_ns(self, broker: int) -> int | None:
        """Return the time of the broker's clock since which it is known not to have stepped."""
        clock = self._clocks.get(broker)
        if clock is None or clock.stepped_ns is not None:
            return None
        return clock.steady_ns + clock.high_ns

    def take_probes(self, probes: Mapping[int, Probe]) -> None:
        """Take the answers of one round of probes, by broker."""
        for broker in probes:
            self._waits.pop(broker, None)
        known = [(self._clocks[at], probe) for at, probe in probes.items() if at in self._clocks]
        steps_ns = [_step_ns(clock, probe) for clock, probe in known]
        all_step = len(steps_ns) > 1 and min(steps_ns) > LEAST_NS // 2
        for broker, probe in probes.items():
            self._take(broker, probe, believes=all_step)

    def _take(self, broker: int, probe: Probe, *, believes: bool) -> None:
        low_ns = probe.append_ns - probe.received_ns
        high_ns = probe.append_ns + NS_PER_MS - probe.sent_ns
        seen_ns = probe.received_ns
        clock = self._clocks.get(broker)
        if clock is None:
            clock = self._clocks[broker] = _Clock(low_ns, high_ns, seen_ns, seen_ns)
        step_ns = _step_ns(clock, probe)
        if step_ns > LEAST_NS and not believes:
            if clock.stepped_ns is None:
                clock.stepped_ns = seen_ns
                log.warning(
                    "the clock of broker %d has stepped ahead by %.0f s; the step is ignored until"
                    " it has lasted as long",
                    *(broker, step_ns / 1e9),
                )
            if seen_ns - clock.stepped_ns < step_ns:
                clock.high_ns += clock.drift_ns(seen_ns)
                clock.low_ns, clock.seen_ns = clock.least_ns(seen_ns), seen_ns
                return
        clock.stepped_ns = None
        before_ns = clock.least_ns(seen_ns)
        if step_ns > BACK_NS or before_ns - high_ns > BACK_NS:
            clock.steady_ns = seen_ns
        clock.low_ns = before_ns if low_ns < before_ns <= high_ns else low_ns
        clock.high_ns, clock.seen_ns = high_ns, seen_ns
        wall_ns = probe.wall_ns - probe.received_ns
        clock.wall_off_ns = max(0, wall_ns - high_ns) or min(0, wall_ns - clock.low_ns)

    # -- what the operator sees --------------------------------------------------------------------

    def wall_off_ns(self, mono_ns: int) -> int:
        """Return how far this machine's wall clock is ahead of the nearest broker's.

        It is below 0 if the wall clock is behind, and 0 if no broker was probed of late.
        """
        fresh = (clock for clock in self._clocks.values() if clock.is_fresh(mono_ns))
        return min((clock.wall_off_ns for clock in fresh), key=abs, default=0)

    def notes(self, mono_ns: int) -> tuple[str, ...]:
        """Return a line if this machine's wall clock is wrong."""
        off_ns = self.wall_off_ns(mono_ns)
        if abs(off_ns) <= WALL_OFF_NS:
            return ()
        side = "ahead of" if off_ns > 0 else "behind"
        line = (
            f"this machine's clock is {abs(off_ns) / 1e9:.0f} s {side} the brokers' clocks; results"
            " do not depend on it, but logs and metrics show it: set it by NTP"
        )
        return (line,)

    def faults(self, mono_ns: int) -> tuple[str, ...]:
        """Return a line if time stands still in partitions that have caught up, and why."""
        late_ns = mono_ns - int(UNKNOWN_AFTER_S * 1e9)
        waiting = sorted(each for each, since_ns in self._waits.items() if since_ns <= late_ns)
        if not waiting:
            return ()
        line = (
            f"the time of broker {', '.join(map(str, waiting))} is unknown, so time advances only"
            f" with new records: {self.why_unknown} (docs/operate/outages.md, The brokers' time)"
        )
        return (line,)

    def note_failure(self, why: str) -> None:
        """Note and log why a probe had no answer."""
        if why != self.why_unknown:
            log.warning("a broker did not tell its time: %s", why)
        self.why_unknown = why


def _step_ns(clock: _Clock, probe: Probe) -> int:
    """Return by how much the clock has stepped ahead at least since its last probe."""
    drift_ns = clock.drift_ns(probe.received_ns)
    return probe.append_ns - probe.received_ns - clock.high_ns - drift_ns


@dataclass(eq=False)
class Probing:
    """The writer of empty records to the topic, which `run` keeps up until it is cancelled."""

    brokers: Brokers
    topic: str
    times: BrokerTimes = field(default_factory=BrokerTimes)

    async def run(self) -> None:
        while True:
            try:
                await self._run()
            except Exception as failed:  # noqa: BLE001 - a probe must never end its stage
                self._fail(failed)
            await asyncio.sleep(AGAIN_S)

    async def _run(self) -> None:
        producer = AIOKafkaProducer(
            **self.brokers.client, acks=1, request_timeout_ms=int(ANSWER_S * 1000)
        )
        try:
            await producer.start()
            silent = 0
            while silent < SILENT_ROUNDS:
                await self.times.asked.wait()
                self.times.asked.clear()
                silent = 0 if await self._probe_all(producer) else silent + 1
                await asyncio.sleep(PROBE_S)
        finally:
            with suppress(TimeoutError):
                await asyncio.wait_for(producer.stop(), ANSWER_S)

    async def _probe_all(self, producer: Any) -> bool:
        """Probe each broker once; return whether any answered."""
        cluster = producer.client.cluster
        if not cluster.partitions_for_topic(self.topic):
            await producer.partitions_for(self.topic)
        leaders = {
            cluster.leader_for_partition(TopicPartition(self.topic, number)): number
            for number in cluster.partitions_for_topic(self.topic) or ()
        }
        asked = [each for each in leaders.items() if each[0] is not None and each[0] >= 0]
        if len(asked) < len(leaders):
            # The client would ask for the leader only after minutes (`metadata_max_age_ms`).
            producer.client.force_metadata_update()
        answers = await asyncio.gather(*(self._probe(producer, *each) for each in asked))
        found = {leader: probe for (leader, _), probe in zip(asked, answers, strict=True) if probe}
        self.times.take_probes(found)
        return bool(found)

    async def _probe(self, producer: Any, leader: int, number: int) -> Probe | None:
        """Write one record; return None if its broker did not answer, or is no longer known."""
        sent_ns = steady_ns()
        try:
            async with asyncio.timeout(ANSWER_S):
                stored = await producer.send_and_wait(self.topic, b"", partition=number)
        except (KafkaError, TimeoutError) as failed:
            self._fail(failed)
            return None
        received_ns, wall_ns = steady_ns(), time.time_ns()
        place = TopicPartition(self.topic, number)
        if stored.timestamp_type != LOG_APPEND_TIME:
            self.times.note_failure(
                f"{self.topic} gives no arrival times; set message.timestamp.type=LogAppendTime"
            )
            return None
        if producer.client.cluster.leader_for_partition(place) != leader:
            return None  # Another broker may have answered.
        return Probe(stored.timestamp * NS_PER_MS, sent_ns, received_ns, wall_ns)

    def _fail(self, failed: BaseException) -> None:
        away = f"no broker answers for {self.topic} ({type(failed).__name__})"
        why = refusal_in(failed, WRITE, self.topic) or away
        self.times.note_failure(why)
