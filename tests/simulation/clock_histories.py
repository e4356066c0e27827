"""Simulate histories of time sync: a clock, paths and servers, compared with the model.

Everything is derived from a seed. The source's clock is behind the right time by D. D changes with
a rate of up to 200 ppm, which itself wanders within the model's limit, and can step. Servers have
the right time, except for a lying one. Packets take a minimum delay, which can differ by direction,
plus a delay that depends on the kind of path. They can be lost, and reports can be duplicated or
out of order.

`run` feeds the model and compares its interval with the truth, for timestamps in the past, now,
before the next sync and long after. It does so only where the model can know. That excludes the
time between an unreported step and its discovery. With a lying server and an unknown number of
servers (`servers`), most of the servers that have an answer must be honest. `head_start` is the
number of rounds that the lying server answers before the others in each burst.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from benchmarks.published.clock import ThesisClock
from topology.base.sample import Sample
from topology.config import ClockConfig
from topology.order.clock.cell import UNSYNCED
from topology.order.clock.measured import MeasuredClock

US: Final = 1_000
MS: Final = 1_000_000
S: Final = 1_000_000_000
START_NS: Final = 1_750_000_000 * S
WANDER: Final = 0.099e-6 / 60
"""Per second: just within the model's 0.1 ppm a minute."""
PATHS: Final = ("even", "asymmetric", "bursty", "lossy")
LIES: Final = ("shift", "subtle", "drift", "random")
CONFIG: Final = ClockConfig(max_error_ns=1 << 62)
"""No width is too large to be compared with the truth."""


class TrueClock:
    """A source's clock: at the right time tau it shows tau - D(tau).

    Its rate changes linearly between knots, so D is a chain of parabolas.
    """

    def __init__(self, random: Random, length_ns: int, skew_ppm: float, wander: float) -> None:
        self.steps: list[tuple[int, int]] = []
        """Pairs (right time, size): D grows by the size."""
        self._offset_ns = random.choice((0, 1, -1)) * random.randrange(3600 * S)
        self._knots: list[tuple[float, float, float, float]] = []
        at_s, moved_ns = -3600.0, 0.0
        rate = random.uniform(-skew_ppm, skew_ppm) * 1e-6
        while at_s < length_ns / S + 7200:
            length_s = random.uniform(20, 200)
            change = random.uniform(-wander, wander)
            if abs(rate + change * length_s) > skew_ppm * 1e-6:
                change = -change if abs(rate - change * length_s) <= skew_ppm * 1e-6 else 0.0
            self._knots.append((at_s, moved_ns, rate, change))
            moved_ns += (rate * length_s + change * length_s**2 / 2) * S
            rate += change * length_s
            at_s += length_s

    def segment(self, tau_ns: int) -> int:
        return sum(at_ns <= tau_ns for at_ns, _ in self.steps)

    def stepped_ns(self, tau_ns: int) -> int:
        return sum(size_ns for at_ns, size_ns in self.steps if at_ns <= tau_ns)

    def offset(self, tau_ns: int) -> int:
        since_s = (tau_ns - START_NS) / S
        knot = next(knot for knot in reversed(self._knots) if knot[0] <= since_s)
        at_s, moved_ns, rate, change = knot
        for_s = since_s - at_s
        moved_ns += (rate * for_s + change * for_s**2 / 2) * S
        return self._offset_ns + round(moved_ns) + self.stepped_ns(tau_ns)

    def shows(self, tau_ns: int) -> int:
        return tau_ns - self.offset(tau_ns)


class Path:
    """Delays one way; `kind` is one of `PATHS`."""

    def __init__(self, random: Random, kind: str) -> None:
        self._random = random
        self._kind = kind
        self._floor_ns = random.choice((20 * US, 100 * US, random.randrange(5 * MS)))
        if kind == "asymmetric":
            self._floor_ns += random.randrange(100 * MS)
        self._jitter_ns = random.choice((20 * US, 200 * US, 2 * MS))
        self._burst_until_ns = 0
        self.loss = random.uniform(0.1, 0.5) if kind == "lossy" else 0.01

    def delay(self, tau_ns: int) -> int:
        random = self._random
        delay_ns = self._floor_ns + random.expovariate(1 / self._jitter_ns)
        if self._kind == "bursty":
            if tau_ns > self._burst_until_ns and random.random() < 0.1:
                self._burst_until_ns = tau_ns + random.randrange(100 * MS)
            if tau_ns <= self._burst_until_ns:
                delay_ns += random.expovariate(1 / (20 * MS))
        return int(delay_ns)


class Server:
    """A server that reports the right time, or a lie."""

    def __init__(self, random: Random, name: str, kind: str, lie: str = "") -> None:
        self.name = name
        self.lie = lie
        self._random = random
        self.there, self.back = Path(random, kind), Path(random, kind)
        size_ns = random.choice((30 * US, MS, 50 * MS, S, 3600 * S)) if lie == "shift" else 0
        if lie == "subtle":
            size_ns = random.randrange(500 * US)
        self._shift_ns = random.choice((-1, 1)) * size_ns

    def says(self, tau_ns: int) -> int:
        if self.lie == "drift":
            return tau_ns + (tau_ns - START_NS) // 20_000
        return tau_ns + self._shift_ns

    def exchange(self, clock: TrueClock, tau_ns: int) -> Sample | None:
        """Return the sample of one round that starts at `tau_ns`; None if a packet is lost."""
        random = self._random
        if random.random() < self.there.loss or random.random() < self.back.loss:
            return None
        heard_ns = tau_ns + self.there.delay(tau_ns)
        answered_ns = heard_ns + random.randrange(50 * US)
        back_ns = answered_ns + self.back.delay(answered_ns)
        lie_ns = random.randrange(-MS, MS) if self.lie == "random" else 0
        said_ns = self.says(heard_ns) + lie_ns
        return Sample(
            "s",
            clock.shows(tau_ns),
            said_ns,
            said_ns + answered_ns - heard_ns,
            clock.shows(back_ns),
            back_ns,
            server=self.name,
        )


@dataclass(slots=True)
class Plan:
    """A plan of one history."""

    kind: str = "even"
    skew_ppm: float = 200.0
    wander: float = WANDER
    servers: int = 1
    lie: str = ""
    steps: int = 0
    told: str = ""
    head_start: int = 0
    bursts: int = 5
    period_ns: int = 60 * S


@dataclass(slots=True)
class Outcome:
    """A count of the violations of the model, and of the thesis's bound at the same timestamps.

    Widths are those of the whole interval, a second after a burst and just before the next. The
    least round trip is there too.
    """

    checks: int = 0
    violations: int = 0
    thesis_violations: int = 0
    fresh_widths_ns: list[int] = field(default_factory=list)
    widths_ns: list[int] = field(default_factory=list)
    round_trips_ns: list[int] = field(default_factory=list)
    undiscovered: int = 0
    falsetickers: int = 0


def plan_of(random: Random) -> Plan:
    """Draw a plan that mixes all kinds."""
    servers = random.choice((1, 1, 3))
    stepping = random.random() < 0.3
    return Plan(
        kind=random.choice(PATHS),
        skew_ppm=random.choice((0.0, 1.0, 10.0, 50.0, 200.0)),
        wander=random.choice((0.0, WANDER)),
        servers=servers,
        lie=random.choice(LIES) if servers == 3 else "",
        steps=random.choice((1, 2)) if stepping else 0,
        told=random.choice(("mono", "segment", "")),
        bursts=random.randrange(2, 7),
    )


def history(random: Random, plan: Plan) -> tuple[TrueClock, list[Sample], list[int]]:
    """Return the clock, all samples as they arrive, and the end of each burst."""
    length_ns = plan.bursts * plan.period_ns
    clock = TrueClock(random, length_ns, plan.skew_ppm, plan.wander)
    for burst in random.sample(range(plan.bursts), min(plan.steps, plan.bursts)):
        # A small step cannot be seen in rounds, because a packet can be slow as well.
        least_ns = 2 * S if not plan.told else 2 * MS
        size_ns = random.choice((-1, 1)) * (least_ns + random.randrange(600 * S))
        at_ns = START_NS + burst * plan.period_ns + random.randrange(5 * S, 50 * S)
        clock.steps.append((at_ns, size_ns))
    clock.steps.sort()
    names = ("", "b", "c")[: plan.servers]
    liar = random.choice(names) if plan.lie else None
    servers = [Server(random, name, plan.kind, plan.lie * (name == liar)) for name in names]
    samples: list[Sample] = []
    ends: list[int] = []
    for burst in range(plan.bursts):
        at_ns = START_NS + burst * plan.period_ns
        for turn in range(plan.head_start + (4 if burst else 10)):
            for server in servers:
                if turn < plan.head_start and server.name != liar:
                    continue
                sample = server.exchange(clock, at_ns + random.randrange(MS))
                if sample is not None:
                    samples += told(sample, clock, plan) * random.choice((1, 1, 1, 2))
            at_ns += int(20 * MS * random.uniform(0.75, 1.25))
        ends.append(at_ns + S)
    samples.sort(key=lambda sample: sample.arrival_ns + random.randrange(30 * MS))
    return clock, samples, ends


def told(sample: Sample, clock: TrueClock, plan: Plan) -> list[Sample]:
    """Return the sample, with the source's report on its steps if the source sends one."""
    if plan.told == "segment":
        sample.segment = clock.segment(sample.arrival_ns)
    if plan.told == "mono":
        sample.mono_ns = 5 * S - clock.stepped_ns(sample.arrival_ns)
    return [sample]


class Trial:
    """One history, the models, and their outcome so far."""

    def __init__(self, seed: int, plan: Plan | None, config: ClockConfig) -> None:
        self.random = Random(seed)
        self.plan = plan or plan_of(self.random)
        self.clock, self.samples, self.ends = history(self.random, self.plan)
        self.model = MeasuredClock(config)
        self.thesis = ThesisClock(config)
        self.outcome = Outcome()
        self._told_how_many = config.servers >= self.plan.servers
        self._segment = 0
        self._jumps = 0
        self._unsure = False
        """The previous segment had too few rounds, so its end can go undetected."""
        self._reports: dict[str, set[int]] = {}

    def add(self, sample: Sample) -> None:
        self.model.add(sample)
        self.thesis.add(sample)
        segment = self.clock.segment(sample.arrival_ns)
        if segment != self._segment:
            self._unsure = self.plan.told == "" and not self.answered()
            self._jumps += 1
            self._segment = segment
            self._reports.clear()
        self._reports.setdefault(sample.server, set()).add(sample.t1_ns)

    def answered(self) -> bool:
        """Return whether each server has enough rounds in this segment to have an answer."""
        rounds = [len(heard) for heard in self._reports.values()]
        return len(rounds) == self.plan.servers and min(rounds) >= 3

    def settle(self, end_ns: int) -> None:
        """Check the widest interval, just before the next burst, and that a step was detected."""
        if not self.answered():
            return
        if self._unsure:
            self._unsure, self._jumps = False, self.model.jumps
        if self.clock.segment(end_ns) == self._segment and self._jumps != self.model.jumps:
            self.outcome.undiscovered += 1
        fresh_ns = self.check(end_ns, 0)
        width_ns = self.check(end_ns, self.plan.period_ns - 2 * S)
        if width_ns is not None and fresh_ns is not None:
            self.outcome.fresh_widths_ns.append(fresh_ns)
            self.outcome.widths_ns.append(width_ns)
            self.outcome.round_trips_ns.append(2 * self.thesis.cell(0).error_ns)

    def check(self, now_ns: int, after_ns: int) -> int | None:
        """Return the interval's width at a timestamp that much later; None if there is no claim to
        check.
        """
        clock, outcome = self.clock, self.outcome
        tau_ns = now_ns + after_ns
        segment = clock.segment(now_ns)
        if not segment == self._segment == clock.segment(tau_ns):
            return None
        if self._unsure or self._jumps != self.model.jumps:
            return None
        if self.plan.lie and not self._told_how_many and not self.answered():
            return None
        stamp_ns = clock.shows(tau_ns)
        cell = self.model.cell(stamp_ns)
        if cell.state == UNSYNCED:
            return None
        truth_ns = clock.offset(tau_ns)
        error_ns = cell.error_at(stamp_ns)
        outcome.checks += 1
        outcome.violations += abs(cell.offset_at(stamp_ns) - truth_ns) > error_ns
        told = self.thesis.cell(stamp_ns)
        outcome.thesis_violations += abs(told.offset_ns - truth_ns) > told.error_ns
        return 2 * error_ns


def run(seed: int, plan: Plan | None = None, config: ClockConfig = CONFIG) -> Outcome:
    trial = Trial(seed, plan, config)
    random = trial.random
    ends = iter([*trial.ends, 1 << 63])
    end_ns = next(ends)
    for sample in trial.samples:
        while sample.arrival_ns > end_ns:
            trial.settle(end_ns)
            end_ns = next(ends)
        trial.add(sample)
        if random.random() < 0.3:
            trial.check(sample.arrival_ns, 0)
            trial.check(sample.arrival_ns, -random.randrange(200 * S))
            trial.check(sample.arrival_ns, random.choice((60 * S, 600 * S, 3600 * S)))
    trial.settle(trial.ends[-1])
    trial.outcome.falsetickers = trial.model.falsetickers
    return trial.outcome
