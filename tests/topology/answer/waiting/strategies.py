"""Every waiting strategy in a few settings, and streams to run it on.

Streams are seeded; timestamps and arrivals are whole ms, so that ties are frequent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from benchmarks.baselines.ignore import Ignore
from benchmarks.published.aq_k_slack import AQKSlack
from benchmarks.published.event_driven import EventDriven
from benchmarks.published.ldop import LDOP
from benchmarks.published.mean_delay import AverageDelay
from benchmarks.published.mp_k_slack import MPKSlack
from benchmarks.published.prob_slack import ProbSlack
from tests.kit.events import copies
from tests.kit.k_slack import KSlack
from tests.laws.streams import in_log_order
from topology.answer.waiting.budget import AccuracyBudget
from topology.answer.waiting.policy import AFTER_ALL, BEFORE_ALL, SlackPolicy
from topology.answer.waiting.risk import RiskSlack
from topology.answer.waiting.tail import OwnTail
from topology.base.event import Event
from topology.base.operator import NEVER

MS: Final = 1_000_000
START: Final = 1_000_000 * MS
EVERY: Final = 30 * MS


@dataclass(frozen=True)
class Strategy:
    """A waiting strategy.

    `make(scale)` makes it with all times `scale` times as long. `promise` is the share of windows
    that may be missed at every prefix. `certain`: an event in order with a steady delay is never
    late. `inexact`: it divides times, so that scaling them can move a result by a few ns.
    """

    name: str
    make: Callable[[int], SlackPolicy]
    promise: float | None = None
    certain: bool = False
    inexact: bool = False

    def __repr__(self) -> str:
        return self.name


def always(make: Callable[..., SlackPolicy], **settings: Any) -> Callable[[int], SlackPolicy]:
    """Return a maker for a strategy that has no times to scale."""
    return lambda _: make(**settings)


def _printed(scale: int, delta: float, **more: Any) -> ProbSlack:
    return ProbSlack(delta, period=200, step_ns=MS * scale, **more)


REACH_NS: Final = 60_000 * MS
"""No strategy passes a bound that is further beyond the newest event and the clock."""


class Unguarded(AccuracyBudget):
    """A budget that uses its threshold alone, however much has been spent."""

    def compute_threshold(self) -> int:
        return self._theta


def _risk(scale: int, delta: float, idle: int = 0, **more: Any) -> RiskSlack:
    idle_ns = idle * MS * scale if idle else NEVER
    return RiskSlack(AccuracyBudget(delta, **more), period=400, step_ns=MS * scale, idle_ns=idle_ns)


STRATEGIES: Final = [
    Strategy("fixed, 0", lambda s: KSlack(0 * s), certain=True),
    Strategy("fixed, 20 ms", lambda s: KSlack(20 * MS * s), certain=True),
    Strategy("fixed, idle", lambda s: KSlack(20 * MS * s, idle_ns=70 * MS * s), certain=True),
    Strategy("mp, next tick", always(MPKSlack), certain=True),
    Strategy("mp, arrival", always(MPKSlack, measure="arrival"), certain=True),
    Strategy(
        "mp, bounded", lambda s: MPKSlack(max_k_ns=9 * MS * s, idle_ns=50 * MS * s), certain=True
    ),
    Strategy("aq", lambda s: AQKSlack(50 * MS * s, 0.95), certain=True, inexact=True),
    Strategy("ldop", lambda s: LDOP(500 * MS * s, 1_500_000), certain=True, inexact=True),
    Strategy("event-driven", always(EventDriven), certain=True, promise=0.0),
    Strategy("event-driven, idle", lambda s: EventDriven(idle_ns=300 * MS * s), certain=True),
    Strategy("ignore", always(Ignore)),
    Strategy("average delay", always(AverageDelay), inexact=True),
    Strategy("probslack", partial(_printed, delta=0.1)),
    Strategy("probslack, no guard", partial(_printed, delta=0.1, guard=False)),
    Strategy("risk, 10 %", partial(_risk, delta=0.1), promise=0.1),
    Strategy("risk, 2 %", partial(_risk, delta=0.02), promise=0.02),
    Strategy("risk, 60 %", partial(_risk, delta=0.6), promise=0.6),
    Strategy("risk, idle", partial(_risk, delta=0.1, idle=300)),
    Strategy("own tail, 1 %", lambda s: OwnTail(10_000, max_wait_ns=200 * MS * s), inexact=True),
    Strategy("own tail, 20 %", lambda s: OwnTail(200_000, max_wait_ns=200 * MS * s), inexact=True),
    Strategy("own tail, short", lambda s: OwnTail(100_000, max_wait_ns=30 * MS * s), inexact=True),
]


class Frontier:
    """A search for the largest bound that passes now or has passed at an earlier call."""

    def __init__(self, policy: SlackPolicy) -> None:
        self._policy = policy
        self._kept_ns = BEFORE_ALL

    def at(self, now_ns: int) -> int:
        policy = self._policy
        low_ns = max(self._kept_ns, policy.confirmed_ns(now_ns))
        if BEFORE_ALL < low_ns < AFTER_ALL:
            high_ns = max(policy.newest_ns(), now_ns) + REACH_NS
            while high_ns - low_ns > 1:
                middle_ns = (low_ns + high_ns) // 2
                if policy.passes(middle_ns, now_ns):
                    low_ns = middle_ns
                else:
                    high_ns = middle_ns
        self._kept_ns = low_ns
        return low_ns


def in_order(seed: int) -> list[Event]:
    """Return events of sources that keep order.

    Delays and rates change over time, and at times an event is stalled.
    """
    rng = Random(seed)
    sources = rng.choice((1, 1, 2, 4))
    apart = [rng.choice((5, 15, 60)) for _ in range(sources)]
    events = []
    for source in range(sources):
        ts = arrival = 0
        most, jitter = rng.choice((2, 11, 40)), rng.choice((1, 5, 20))
        for seq in range(450 // sources):
            if rng.random() < 0.004:
                most, jitter = rng.choice((2, 11, 40)), rng.choice((1, 5, 20))
            ts += apart[source] + rng.randint(0, jitter)
            stall = 150 if rng.random() < 0.004 else 0
            arrival = max(arrival, ts + rng.randint(1, most) + stall)
            events.append(event(f"s{source}", seq, ts, arrival, rng))
    return in_log_order(events)


def disordered(seed: int) -> list[Event]:
    """Return events of sources that do not keep order, with rare outliers."""
    rng = Random(seed)
    sources = rng.choice((1, 2, 3))
    events = []
    for source in range(sources):
        ts = 0
        for seq in range(450 // sources):
            ts += rng.randint(0, 12)
            delay = rng.choice((0, 0, 0, 1, 3, 9)) + (80 if rng.random() < 0.01 else 0)
            events.append(event(f"s{source}", seq, ts, ts + delay, rng))
    return in_log_order(events)


def steady(seed: int) -> list[Event]:
    """Return events of one source in order, always with the same delay."""
    rng = Random(seed)
    ts = 0
    events = []
    for seq in range(300):
        ts += rng.randint(1, 20)
        events.append(event("s0", seq, ts, ts + 7, rng))
    return in_log_order(events)


def event(source: str, seq: int, ts: int, arrival: int, rng: Random) -> Event:
    ts_ns, arrival_ns = START + ts * MS, START + arrival * MS
    return Event("default", source, 0, seq, ts_ns, arrival_ns, type=rng.choice("AAB"))


def moved(events: list[Event], shift_ns: int, scale: int) -> list[Event]:
    """Return the same stream shifted and stretched in time."""
    again = copies(events)
    for one in again:
        one.ts_ns = one.ref_time_ns = one.ts_ns * scale + shift_ns
        one.arrival_ns = one.at_ns = one.arrival_ns * scale + shift_ns
    return again
