"""Draw worlds: sources, their clocks, their networks, and the truth about them.

`World(seed)` is a stream of several machines that send numbered events. The properties of a machine
and its network are drawn from `random.Random(seed)` alone, so the seed replays a world.

* A machine sends at a rate, with bursts (twenty times as fast) and silences. Its clock is off by a
constant; under `unsynced: trust` that is part of ts. ts rises strictly within a run.

* A machine can restart: its numbers start again in the next run. If it names its epoch, the run is
the epoch, and late events of the run before can arrive after the restart. Otherwise it stays down
for `PAUSE_NS` beyond the longest delay of its network. Thus the restart can be recognised, and no
earlier event arrives after it.

* A network has a base delay, a distribution of delays for some of its events, and a share of losses
and of duplicates. A network can reorder events, and it can stall and then pass everything on at
once.

* All records from a machine are in one lane, which is a partition of the raw topic.

The payload of an event is its `Origin`, whatever the receiver infers from its numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log
from random import Random
from typing import Final, NamedTuple
from zlib import crc32

from tests.kit.events import copies
from topology.base.event import NO_EPOCH, Event

US: Final = 1_000
MS: Final = 1_000_000
S: Final = 1_000_000_000
START_NS: Final = 1_700_000_000 * S
PAUSE_NS: Final = 1 * S
"""Twice the default `max_wait` of REORDER."""

LONGEST_DELAY_NS: Final = 400 * MS
LONGEST_STALL_NS: Final = 300 * MS


class Origin(NamedTuple):
    """An event's identity: the `run`-th run of `source`, its `seq`-th number."""

    source: str
    run: int
    seq: int


class Sent(NamedTuple):
    origin: Origin
    ts_ns: int
    sent_ns: int


@dataclass(slots=True)
class Truth:
    """A history of a world.

    `arrived` counts the records of each origin that arrived; the others are in `lost`.
    """

    lost: set[Origin] = field(default_factory=set)
    arrived: Counter[Origin] = field(default_factory=Counter)
    restarts: int = 0

    @property
    def copies(self) -> int:
        return sum(self.arrived.values()) - len(self.arrived)


@dataclass(slots=True)
class Machine:
    name: str
    names_epoch: bool
    period_ns: int
    offset_ns: int
    first_seq: int
    burst_share: float
    silence_share: float
    restart_share: float


@dataclass(slots=True)
class Network:
    base_ns: int
    slow_share: float
    slow_mean_ns: int
    lost_share: float
    copy_share: float
    overtakes: bool
    stall_ns: int

    def delay_ns(self, rng: Random) -> int:
        if rng.random() >= self.slow_share:
            return self.base_ns
        slow_ns = int(-self.slow_mean_ns * log(1.0 - rng.random()))
        return min(LONGEST_DELAY_NS, self.base_ns + slow_ns)


class World:
    """A world: `events()` is the broker's view, `truth` the history."""

    def __init__(
        self, seed: int, most_sources: int = 6, seconds: int = 4, lanes: int | None = None
    ) -> None:
        self.seconds = seconds
        rng = Random(seed)
        drawn_lanes = rng.randint(1, 3)  # It is always drawn, so that the rest is the same.
        self.lanes = lanes or drawn_lanes
        self.machines = [
            (_machine(f"m{i}", rng), _network(rng)) for i in range(rng.randint(1, most_sources))
        ]
        self.truth = Truth()
        self._events = self._live(rng)

    def events(self, lane: int | None = None) -> list[Event]:
        """Return new events in arrival order, from all partitions or from one.

        `offset` counts within the list.
        """
        chosen = [event for event in self._events if lane in (None, event.lane)]
        found = copies(chosen)
        for offset, event in enumerate(found):
            event.offset = offset
        return found

    def _live(self, rng: Random) -> list[Event]:
        events: list[Event] = []
        for machine, network in self.machines:
            own = Random(rng.random())
            events += self._through(machine, network, list(self._sent(machine, own)), own)
        events.sort(key=lambda event: event.arrival_ns)
        return events

    def _sent(self, machine: Machine, rng: Random) -> Iterator[Sent]:
        now_ns = START_NS + int(rng.random() * machine.period_ns)
        end_ns = START_NS + self.seconds * S
        run, seq, ts_ns = 0, machine.first_seq, 0
        fast = 0
        while now_ns < end_ns:
            ts_ns = max(ts_ns + 1, now_ns + machine.offset_ns)
            yield Sent(Origin(machine.name, run, seq), ts_ns, now_ns)
            seq += 1
            step_ns = max(1, machine.period_ns // 20) if fast else machine.period_ns
            now_ns += 1 + int(step_ns * (0.5 + rng.random()))
            fast = max(0, fast - 1)
            fate = rng.random()
            if fate < machine.burst_share:
                fast = 40
            elif fate < machine.burst_share + machine.silence_share:
                now_ns += int(rng.random() * 3 * S)
            elif fate < machine.burst_share + machine.silence_share + machine.restart_share:
                run, seq = run + 1, machine.first_seq
                now_ns += self._down_ns(machine, rng)
                self.truth.restarts += now_ns < end_ns

    def _down_ns(self, machine: Machine, rng: Random) -> int:
        if machine.names_epoch:
            return int(rng.random() * 200 * MS)
        return PAUSE_NS + LONGEST_DELAY_NS + LONGEST_STALL_NS

    def _through(
        self, machine: Machine, network: Network, sent: list[Sent], rng: Random
    ) -> Iterator[Event]:
        lane = crc32(machine.name.encode()) % self.lanes
        newest_ns = 0
        for one in sent:
            if rng.random() < network.lost_share:
                self.truth.lost.add(one.origin)
                continue
            for copy in range(1 + (rng.random() < network.copy_share)):
                arrival_ns = _unstalled(network, one.sent_ns + network.delay_ns(rng))
                if not network.overtakes and copy == 0:
                    newest_ns = arrival_ns = max(newest_ns, arrival_ns)
                yield _event(machine, one, max(arrival_ns, one.sent_ns), lane)
                self.truth.arrived[one.origin] += 1


def _machine(name: str, rng: Random) -> Machine:
    return Machine(
        name=name,
        names_epoch=rng.random() < 0.5,
        period_ns=rng.choice((1 * MS, 5 * MS, 20 * MS, 100 * MS)),
        offset_ns=rng.choice((0, 0, rng.randint(-5 * MS, 5 * MS))),
        first_seq=rng.choice((0, 0, 0, rng.randint(1, 10_000))),
        burst_share=rng.choice((0.0, 0.005)),
        silence_share=rng.choice((0.0, 0.002)),
        restart_share=rng.choice((0.0, 0.0, 0.002)),
    )


def _network(rng: Random) -> Network:
    return Network(
        base_ns=rng.choice((100 * US, 1 * MS, 10 * MS, 40 * MS)),
        slow_share=rng.choice((0.0, 0.05, 0.2, 1.0)),
        slow_mean_ns=rng.choice((500 * US, 5 * MS, 50 * MS)),
        lost_share=rng.choice((0.0, 0.0, 0.001, 0.02)),
        copy_share=rng.choice((0.0, 0.0, 0.005, 0.05)),
        overtakes=rng.random() < 0.7,
        stall_ns=rng.choice((0, 0, 100 * MS, LONGEST_STALL_NS)),
    )


def _unstalled(network: Network, arrival_ns: int) -> int:
    """Return the arrival after stalls: every 2 s the network stalls for `stall_ns`."""
    into_ns = (arrival_ns - START_NS) % (2 * S)
    return arrival_ns + network.stall_ns - into_ns if into_ns < network.stall_ns else arrival_ns


def _event(machine: Machine, one: Sent, arrival_ns: int, lane: int) -> Event:
    epoch = one.origin.run if machine.names_epoch else NO_EPOCH
    seq = one.origin.seq
    event = Event("default", machine.name, epoch, seq, one.ts_ns, arrival_ns, value=one.origin)
    event.lane = lane
    return event
