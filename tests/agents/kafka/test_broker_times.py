"""Laws and examples: bounds of the brokers' clocks from probes, whatever the wall clock shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from random import Random
from unittest.mock import Mock

import pytest
from aiokafka.errors import KafkaError

from agents.kafka import broker_times
from agents.kafka.broker_times import DRIFT_PPM, MILLION, NS_PER_MS, BrokerTimes, Probe, Probing
from agents.kafka.brokers import Brokers
from agents.kafka.declared import BROKER_TIMES, TopicSpec
from agents.kafka.partition_queue import steady_ns
from agents.kafka.topics import ensure_topics
from tests.seeds import seeds_of_today
from tests.services import SharedKafka
from tests.waiting import until

S = 1_000_000_000
BEGIN = 1_700_000_000 * S
HOUR = 3_600 * S
ONE, TWO = 1, 2

Clock = Callable[[int], int]
"""A function from monotonic time to the time of a broker's clock."""


def probe(clock: Clock, sent_ns: int, way_ns: int, back_ns: int, wall_ns: int = 0) -> Probe:
    append_ns = clock(sent_ns + way_ns) // NS_PER_MS * NS_PER_MS
    return Probe(append_ns, sent_ns, sent_ns + way_ns + back_ns, wall_ns)


def lower_bound_ns(times: BrokerTimes, mono_ns: int, broker: int = ONE) -> int:
    """Return the lower bound of the broker's clock, and assert that there is one."""
    found_ns = times.least_ns(broker, mono_ns)
    assert found_ns is not None
    return found_ns


@pytest.mark.parametrize("seed", seeds_of_today(5))
def test_law_bound_trails_clock_closely(seed: int) -> None:
    """Here the clock drifts and steps back, the network is slow, and the process pauses."""
    dice = Random(seed)
    drift_ppm, steps_ns = dice.randrange(-100, 101), [BEGIN]

    def clock(mono_ns: int) -> int:
        return sum(steps_ns) + mono_ns + mono_ns * drift_ppm // MILLION

    times, mono_ns, fastest_ns, checks = BrokerTimes(), 0, HOUR, 0
    for _ in range(2_000):
        mono_ns += dice.randrange(1, 3 * S)
        if dice.random() < 0.01:
            # A step back that lasts longer than the probe is seen by the next probe.
            steps_ns.append(-dice.randrange(2 * S, 100 * S))
            fastest_ns = HOUR
        way_ns, back_ns = (int(dice.expovariate(1) * NS_PER_MS) + 1 for _ in range(2))
        back_ns += S * (dice.random() < 0.1)
        times.take_probes({ONE: probe(clock, mono_ns, way_ns, back_ns)})
        mono_ns += way_ns + back_ns
        fastest_ns = min(fastest_ns + 3 * S * 2 * DRIFT_PPM // MILLION, way_ns + back_ns)
        for later_ns in (0, S // 20, 9 * S):
            truth_ns, found_ns = (
                clock(mono_ns + later_ns),
                lower_bound_ns(times, mono_ns + later_ns),
            )
            # A step back within a probe's time looks like a slow network.
            assert found_ns <= truth_ns
            checks += 1
        assert (
            clock(mono_ns) - lower_bound_ns(times, mono_ns)
            <= fastest_ns + 2 * NS_PER_MS + S // 1_000
        )
    assert checks == 6_000


def steady(mono_ns: int) -> int:
    return BEGIN + mono_ns


def ahead(by_ns: int, since_ns: int, until_ns: int) -> Clock:
    return lambda mono_ns: steady(mono_ns) + by_ns * (since_ns <= mono_ns < until_ns)


def test_brief_lead_moves_no_bound() -> None:
    clock, times = ahead(HOUR, 10 * S, 20 * S), BrokerTimes()
    for second in range(40):
        times.take_probes({ONE: probe(clock, second * S, NS_PER_MS, NS_PER_MS)})
        at_ns = second * S + S // 10
        assert lower_bound_ns(times, at_ns) <= steady(at_ns)
        assert steady(at_ns) - lower_bound_ns(times, at_ns) < S // 10


def test_lasting_step_is_accepted() -> None:
    clock, times = ahead(60 * S, 10 * S, HOUR), BrokerTimes()
    for second in range(10 + 60):
        times.take_probes({ONE: probe(clock, second * S, NS_PER_MS, NS_PER_MS)})
        assert lower_bound_ns(times, second * S + S // 10) <= steady(second * S + S // 10)
    for second in (70, 71):
        times.take_probes({ONE: probe(clock, second * S, NS_PER_MS, NS_PER_MS)})
    assert clock(72 * S) - S // 10 < lower_bound_ns(times, 72 * S) <= clock(72 * S)


def test_step_of_all_brokers_is_accepted() -> None:
    """If all brokers' clocks step at once, this machine has slept."""
    clock, times = ahead(HOUR, 10 * S, 2 * HOUR), BrokerTimes()
    for second in (0, 11):
        each = probe(clock, second * S, NS_PER_MS, NS_PER_MS)
        times.take_probes({ONE: each, TWO: each})
    assert lower_bound_ns(times, 12 * S) > steady(12 * S) + HOUR - S


def test_unprobed_broker_gets_minimum() -> None:
    times = BrokerTimes()
    assert times.least_ns(ONE, S) is None
    late = ahead(-5 * S, 0, HOUR)
    times.take_probes({ONE: probe(steady, 0, 1, 1), TWO: probe(late, 0, 1, 1)})
    assert lower_bound_ns(times, S, broker=7) == lower_bound_ns(times, S, broker=TWO)
    assert lower_bound_ns(times, S, broker=ONE) > lower_bound_ns(times, S, broker=TWO) + 4 * S


def test_clock_is_steady_since_step() -> None:
    times = BrokerTimes()
    assert times.steady_since_ns(ONE) is None
    times.take_probes({ONE: probe(steady, S, 1, 1)})
    times.take_probes({ONE: probe(steady, 90 * S, 1, 1)})
    since_ns = times.steady_since_ns(ONE)
    assert since_ns is not None
    assert steady(S) <= since_ns <= steady(S) + 3 * NS_PER_MS
    times.take_probes({ONE: probe(ahead(-5 * S, 0, HOUR), 100 * S, 1, 1)})
    since_ns = times.steady_since_ns(ONE)
    assert since_ns is not None
    assert since_ns >= steady(95 * S)
    times.take_probes({ONE: probe(ahead(HOUR, 0, HOUR), 101 * S, 1, 1)})
    assert times.steady_since_ns(ONE) is None


@pytest.mark.parametrize(
    ("off_ns", "expected"),
    [
        (0, ""),
        (S, ""),
        (-S, ""),
        (HOUR, "3600 s ahead of the brokers"),
        (-HOUR, "3300 s behind the brokers"),
    ],
)
def test_wrong_wall_clock_is_noted(off_ns: int, expected: str) -> None:
    times = BrokerTimes()
    # If two brokers disagree, the nearer one counts.
    other = ahead(-300 * S, 0, HOUR)
    wall_ns = steady(2) + off_ns
    times.take_probes({ONE: probe(steady, 0, 1, 1, wall_ns), TWO: probe(other, 0, 1, 1, wall_ns)})
    notes = times.notes(2)
    assert expected in notes[0] if expected else not notes


def test_unknown_time_is_a_fault() -> None:
    times = BrokerTimes()
    assert not times.faults(HOUR)
    times.request_probes(ONE, 0)
    assert not times.faults(9 * S)
    times.note_failure("the right Write to app.broker-times is missing")
    (fault,) = times.faults(11 * S)
    assert "time of broker 1 is unknown" in fault
    assert "the right Write to app.broker-times is missing" in fault
    times.take_probes({ONE: probe(steady, 12 * S, 1, 1)})
    assert not times.faults(13 * S)
    # A broker that leads no partition of the topic gets the lowest time of the others.
    times.request_probes(TWO, -HOUR)
    times.request_probes(TWO, 13 * S)
    assert not times.faults(HOUR)
    # The right is revoked later. An old bound would not show a step back.
    times.request_probes(ONE, 20 * S)
    assert times.least_ns(ONE, 20 * S) is not None
    times.request_probes(ONE, 60 * S)
    assert times.least_ns(ONE, 60 * S) is None
    assert times.most_ns(ONE, 60 * S) is None
    assert times.faults(71 * S)


def test_time_before_step_is_unknown() -> None:
    """After a fetch is sent, this machine sleeps, and probes come before the fetch's answer."""
    clock, times = ahead(HOUR, 10 * S, 2 * HOUR), BrokerTimes()
    for second in (5, 11):
        each = probe(clock, second * S, NS_PER_MS, NS_PER_MS)
        times.take_probes({ONE: each, TWO: each})
    for broker in (ONE, TWO, 7):
        assert times.least_ns(broker, 9 * S) is None
        assert times.least_ns(broker, 12 * S) is not None


def test_upper_bound_adds_slow_answer() -> None:
    times = BrokerTimes()
    times.take_probes({ONE: probe(steady, 0, 1, 3 * S)})
    mono_ns = 4 * S
    assert steady(mono_ns) - 4 * S < lower_bound_ns(times, mono_ns) <= steady(mono_ns)
    most_ns = times.most_ns(ONE, mono_ns)
    assert most_ns is not None
    assert steady(mono_ns) <= most_ns <= steady(mono_ns) + 4 * S


class BrokenProducer:
    """A client whose sender has ended: every call fails, as it does after a topic was deleted."""

    made = 0

    def __init__(self, **_: object) -> None:
        BrokenProducer.made += 1
        cluster = Mock(partitions_for_topic=lambda _: {0}, leader_for_partition=lambda _: ONE)
        self.client = Mock(cluster=cluster)

    async def start(self) -> None:
        """Start like a working client."""

    async def stop(self) -> None:
        """Stop like a working client."""

    async def send_and_wait(self, *_: object, **__: object) -> None:
        raise KafkaError("the sender has ended") if BrokenProducer.made < 3 else AssertionError


async def test_broken_client_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PROBE_S", "AGAIN_S"):
        monkeypatch.setattr(broker_times, name, 0.001)
    monkeypatch.setattr(broker_times, "AIOKafkaProducer", BrokenProducer)
    probing = Probing(Brokers("nowhere:1", is_embedded=False), "topic")
    running = asyncio.create_task(probing.run())

    def many() -> bool:
        probing.times.request_probes(ONE, 0)
        return BrokenProducer.made >= 5

    await until(many)
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


class LeaderlessProducer(BrokenProducer):
    """A client that knows no leader for the partition, as happens while its broker is down."""

    def __init__(self, **_: object) -> None:
        cluster = Mock(partitions_for_topic=lambda _: {0}, leader_for_partition=lambda _: -1)
        self.client = Mock(cluster=cluster)


async def test_missing_leader_is_looked_up() -> None:
    """Without a lookup, a client notices a new leader only after five minutes."""
    probing = Probing(Brokers("nowhere:1", is_embedded=False), "topic")
    producer = LeaderlessProducer()
    assert not await probing._probe_all(producer)
    producer.client.force_metadata_update.assert_called_once_with()


@pytest.mark.kafka
async def test_real_broker_time_is_bounded(
    kafka: SharedKafka, unique_name: Callable[[str], str]
) -> None:
    topic = unique_name("broker-times")
    ensure_topics([TopicSpec(topic, 1, BROKER_TIMES, per_broker=True)], kafka.bootstrap, 1)
    probing = Probing(Brokers(kafka.bootstrap, is_embedded=False), topic)
    running = asyncio.create_task(probing.run())
    try:
        before_ns = steady_ns()
        probing.times.request_probes(ONE, before_ns)
        await until(lambda: probing.times.least_ns(ONE, steady_ns()) is not None)
        # The broker runs on this machine, so both have one wall clock.
        mono_ns, wall_ns = steady_ns(), time.time_ns()
        found_ns = lower_bound_ns(probing.times, mono_ns)
        assert wall_ns - (mono_ns - before_ns) - 2 * NS_PER_MS <= found_ns <= wall_ns
        assert not probing.times.notes(steady_ns())
    finally:
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.kafka
async def test_wrong_timestamp_type_is_named(
    kafka: SharedKafka, unique_name: Callable[[str], str]
) -> None:
    topic = unique_name("broker-times")
    ensure_topics([TopicSpec(topic, 1, {})], kafka.bootstrap, 1)
    probing = Probing(Brokers(kafka.bootstrap, is_embedded=False), topic)
    running = asyncio.create_task(probing.run())
    try:
        probing.times.request_probes(ONE, 0)
        await until(lambda: "message.timestamp.type=LogAppendTime" in probing.times.why_unknown)
        assert probing.times.least_ns(ONE, 0) is None
    finally:
        running.cancel()
        await asyncio.wait([running])
