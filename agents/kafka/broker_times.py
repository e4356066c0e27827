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
it, the broker's clock has stepped back.

A step *ahead* by more than `LEAST_NS` is doubted until it has lasted for its own length, as in
`topology.model.append_clock`. It is believed at once if the clocks of all brokers have stepped,
because then this machine was suspended.

A broker without a partition of the topic, for example one that joined later, gets the least bound
of all brokers.
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
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.structs import TopicPartition

from agents.kafka.brokers import Brokers
from topology.model.append_clock import BACK_NS, LEAST_NS

log = logging.getLogger(__name__)

PROBE_S: Final = 1.0
ANSWER_S: Final = 5.0
"""Time limit for the answer to a probe."""

AGAIN_S: Final = 5.0
"""Time before the next attempt when no producer can be started."""

DRIFT_PPM: Final = 200
"""Largest rate at which a broker's clock and the monotonic clock of this machine drift apart."""

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

    def least_ns(self, mono_ns: int) -> int:
        """Return the least difference at this time."""
        return self.low_ns - max(0, mono_ns - self.seen_ns) * DRIFT_PPM // MILLION


@dataclass(eq=False)
class BrokerTimes:
    """The least time that each broker's clock can show; all arguments are monotonic times.

    Cost: O(1) a question, O(brokers) for a broker that has not been probed.

    Attributes:
        why_unknown: Why the last probe had no answer; "" if it had one.
        asked: Set while a new probe is wanted.
    """

    why_unknown: str = "no broker has answered yet"
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    _clocks: dict[int, _Clock] = field(default_factory=dict)
    _waits_since_ns: int | None = None

    def want(self, mono_ns: int) -> None:
        """Note that a partition has caught up, so that the brokers are probed again."""
        self.asked.set()
        if not self._clocks and self._waits_since_ns is None:
            self._waits_since_ns = mono_ns

    def least_ns(self, broker: int, mono_ns: int) -> int | None:
        """Return the least time of the broker's clock at `mono_ns`; None if it is unknown."""
        clock = self._clocks.get(broker)
        clocks = self._clocks.values() if clock is None else (clock,)
        if not clocks:
            return None
        return mono_ns + min(clock.least_ns(mono_ns) for clock in clocks)

    def steady_since_ns(self, broker: int) -> int | None:
        """Return the time of the broker's clock since which it is known not to have stepped."""
        clock = self._clocks.get(broker)
        if clock is None or clock.stepped_ns is not None:
            return None
        return clock.steady_ns + clock.high_ns

    def probed(self, probes: Mapping[int, Probe]) -> None:
        """Take the answers of one round of probes, by broker."""
        if not probes:
            return
        self.why_unknown, self._waits_since_ns = "", None
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

    @property
    def wall_off_ns(self) -> int:
        """How far this machine's wall clock is ahead of the nearest broker's; below 0 if behind."""
        return min((clock.wall_off_ns for clock in self._clocks.values()), key=abs, default=0)

    def notes(self) -> tuple[str, ...]:
        """Return a line if this machine's wall clock is wrong."""
        off_ns = self.wall_off_ns
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
        since_ns = self._waits_since_ns
        if since_ns is None or mono_ns - since_ns < UNKNOWN_AFTER_S * 1e9:
            return ()
        line = (
            "the brokers' time is unknown, so time advances only with new records:"
            f" {self.why_unknown} (docs/operate/outages.md, The brokers' time)"
        )
        return (line,)


def _step_ns(clock: _Clock, probe: Probe) -> int:
    """Return by how much the clock has stepped ahead at least since its last probe."""
    drift_ns = max(0, probe.received_ns - clock.seen_ns) * DRIFT_PPM // MILLION
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
            except (KafkaError, TimeoutError, OSError) as failed:
                self._failed(failed)
            await asyncio.sleep(AGAIN_S)

    async def _run(self) -> None:
        producer = AIOKafkaProducer(
            **self.brokers.client, acks=1, request_timeout_ms=int(ANSWER_S * 1000)
        )
        try:
            await producer.start()
            while True:
                await self.times.asked.wait()
                self.times.asked.clear()
                await self._probe_all(producer)
                await asyncio.sleep(PROBE_S)
        finally:
            with suppress(TimeoutError):
                await asyncio.wait_for(producer.stop(), ANSWER_S)

    async def _probe_all(self, producer: Any) -> None:
        cluster = producer.client.cluster
        if not cluster.partitions_for_topic(self.topic):
            await producer.partitions_for(self.topic)
        leaders = {
            cluster.leader_for_partition(TopicPartition(self.topic, number)): number
            for number in cluster.partitions_for_topic(self.topic) or ()
        }
        asked = [each for each in leaders.items() if each[0] is not None and each[0] >= 0]
        answers = await asyncio.gather(*(self._probe(producer, *each) for each in asked))
        found = {leader: probe for (leader, _), probe in zip(asked, answers, strict=True) if probe}
        self.times.probed(found)

    async def _probe(self, producer: Any, leader: int, number: int) -> Probe | None:
        """Write one record; return None if its broker did not answer, or is no longer known."""
        sent_ns = time.monotonic_ns()
        try:
            async with asyncio.timeout(ANSWER_S):
                stored = await producer.send_and_wait(self.topic, b"", partition=number)
        except (KafkaError, TimeoutError) as failed:
            self._failed(failed)
            return None
        received_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        place = TopicPartition(self.topic, number)
        if stored.timestamp_type != LOG_APPEND_TIME:
            self.times.why_unknown = (
                f"{self.topic} gives no arrival times; set message.timestamp.type=LogAppendTime"
            )
            return None
        if producer.client.cluster.leader_for_partition(place) != leader:
            return None  # Another broker may have answered.
        return Probe(stored.timestamp * NS_PER_MS, sent_ns, received_ns, wall_ns)

    def _failed(self, failed: BaseException) -> None:
        if isinstance(failed, TopicAuthorizationFailedError):
            why = f"the right Write to {self.topic} is missing"
        else:
            why = f"no broker answers for {self.topic} ({type(failed).__name__})"
        self.times.why_unknown = why
