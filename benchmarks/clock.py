"""Measure the error of a measured clock, its claimed bound, and whether the bound is true.

The clock model (`topology.order.clock`) is compared with the thesis's: smallest round trip, fixed
bound.

* burst: ten rounds of a clock without skew, as in reorder_drift_merge.md 2.2;
* drift: clocks that drift and wander, just before the next sync (2.3);
* histories: thousands of clocks, paths, steps and false servers
  (`tests.simulation.clock_histories`, so only if the tests are installed);
* phones: real clocks over UMTS (`benchmarks.traces`).

*outside* counts the cases in which the truth was not within offset +- bound: 0 for a true bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from statistics import mean, median
from typing import Any, Final, NamedTuple

from benchmarks import harness
from benchmarks.harness import Asked, Columns, Tables, compare_entries, make_table
from benchmarks.published.clock import ThesisClock
from benchmarks.tables import Table, count, format_share, format_us
from benchmarks.traces import TRACES, TraceRow
from topology.base.sample import Sample
from topology.config import ClockConfig
from topology.order.clock.measured import MeasuredClock

MS: Final = 1_000_000
S: Final = 1_000_000_000
START_NS: Final = 1_750_000_000 * S
ANY_WIDTH: Final = 1 << 62
PERIOD_S: Final = 60
Model = MeasuredClock | ThesisClock
Make = Callable[[ClockConfig], Model]
MODELS: Final[dict[str, Make]] = {"thesis": ThesisClock, "polygon": MeasuredClock}


class Judged(NamedTuple):
    """The error of the offset against the truth, and the claimed bound, in ns."""

    error_ns: float
    bound_ns: float

    @property
    def outside(self) -> bool:
        return self.error_ns > self.bound_ns


def judge(model: Model, stamp_ns: int, truth_ns: int) -> Judged:
    cell = model.cell(stamp_ns)
    return Judged(abs(cell.offset_at(stamp_ns) - truth_ns), cell.error_at(stamp_ns))


COLUMNS: Final[Columns] = {
    "mean error us": lambda found, _: format_us(mean(one.error_ns for one in found)),
    "bound us": lambda found, _: format_us(mean(one.bound_ns for one in found)),
    "outside %": lambda found, _: format_share(sum(one.outside for one in found), len(found)),
}


def draw_sample(begun_ns: int, random: Random, *, spiky: bool = False) -> Sample:
    """Return a round of a correct clock.

    Each way takes at least 0.1 ms, and exp(0.2 ms) on top. With spikes, one packet in five takes
    exp(5 ms) more.
    """

    def way_ns() -> int:
        spike_ns = random.expovariate(1 / (5 * MS)) if spiky and random.random() < 0.2 else 0.0
        return round(100_000 + random.expovariate(1 / 200_000) + spike_ns)

    heard_ns = begun_ns + way_ns()
    ended_ns = heard_ns + way_ns()
    return Sample("s", begun_ns, heard_ns, heard_ns, ended_ns, ended_ns)


def measure_bursts(bursts: int, *, spiky: bool) -> Table:
    """Measure bursts of ten rounds with a true offset of 0."""
    config = ClockConfig(max_error_ns=ANY_WIDTH, max_skew_ppb=100)
    found: dict[str, list[Judged]] = {}
    for seed in range(bursts):
        random = Random(seed)
        samples = [draw_sample(START_NS + at * 20 * MS, random, spiky=spiky) for at in range(10)]
        offsets = [(one.t2_ns - one.t1_ns - one.t4_ns + one.t3_ns) / 2 for one in samples]
        plain = {"last": offsets[-1], "mean": mean(offsets)}
        for name, offset_ns in plain.items():
            found.setdefault(name, []).append(Judged(abs(offset_ns), float("inf")))
        for name, make in MODELS.items():
            model = make(config)
            for sample in samples:
                model.add(sample)
            found.setdefault(name, []).append(judge(model, samples[-1].t4_ns, 0))
    title = "ten rounds, 0.1 ms + exp(0.2 ms) each way"
    more = ", exp(5 ms) more for 20 % of the packets" if spiky else ""
    return make_table(f"{title}{more}: {count(bursts)} bursts", found, COLUMNS)


class Drift(NamedTuple):
    """A clock: its mean skew, and the wander of its rate, which stays within 20 ppm of the mean."""

    name: str
    skew_ppm: float
    wander_ppm_per_min: float
    window_s: int = 300


DRIFTS: Final = (
    Drift("10 ppm", 10, 0),
    Drift("50 ppm", 50, 0),
    Drift("200 ppm", 200, 0),
    Drift("10 ppm, wander to the limit", 10, 0.1),
    Drift("10 ppm, wander 10 x the limit", 10, 1.0),
    Drift("... window of 900 s", 10, 1.0, 900),
)


def iter_offsets(drift: Drift, random: Random) -> Iterator[Callable[[float], float]]:
    """Yield, for each period, the offset as a function of the seconds in it; the rate wanders."""
    offset, rate = 0.0, drift.skew_ppm * 1e-6
    limit = drift.wander_ppm_per_min * 1e-6 / 60
    while True:
        change = random.uniform(-limit, limit)
        if abs(rate + change * PERIOD_S - drift.skew_ppm * 1e-6) > 20e-6:
            change = -change

        def at(x: float, base: float = offset, r: float = rate, c: float = change) -> float:
            return (base + r * x + c * x * x / 2) * S

        yield at
        offset += rate * PERIOD_S + change * PERIOD_S**2 / 2
        rate += change * PERIOD_S


def judge_before_sync(
    make: Callable[[ClockConfig], Model], drift: Drift, bursts: int
) -> list[Judged]:
    """Judge a model just before each next sync, after five minutes in which it settles."""
    random = Random(1)
    model = make(ClockConfig(max_error_ns=ANY_WIDTH, sync_window_ns=drift.window_s * S))
    found: list[Judged] = []
    of_minute = iter_offsets(drift, random)
    for burst in range(bursts):
        offset, base_ns = next(of_minute), START_NS + burst * PERIOD_S * S
        for at in range(4 if burst else 10):
            true = draw_sample(base_ns + at * 20 * MS, random)
            t1_ns, t4_ns = (
                ns - round(offset((ns - base_ns) / S)) for ns in (true.t1_ns, true.t4_ns)
            )
            model.add(Sample("s", t1_ns, true.t2_ns, true.t3_ns, t4_ns, true.arrival_ns))
        if burst >= 5:
            truth_ns = round(offset(PERIOD_S - 0.001))
            stamp_ns = base_ns + PERIOD_S * S - MS - truth_ns
            found.append(judge(model, stamp_ns, truth_ns))
    return found


def measure_before_sync(bursts: int) -> Table:
    entries = {
        f"{drift.name}: {name}": partial(judge_before_sync, make, drift, bursts)
        for drift in DRIFTS
        for name, make in MODELS.items()
    }
    title = f"just before the next sync: 4 rounds every {PERIOD_S} s, {count(bursts)} bursts"
    return compare_entries(title, entries, COLUMNS)


def _count_checks(outcomes: Sequence[Any]) -> int:
    return sum(one.checks for one in outcomes)


def _median_ms(widths_ns: str) -> Callable[[Any, Any], str]:
    return lambda outcomes, _: (
        f"{median(ns for one in outcomes for ns in getattr(one, widths_ns)) / MS:.2f}"
    )


HISTORY: Final[Columns] = {
    "histories": lambda outcomes, _: count(len(outcomes)),
    "checks": lambda outcomes, _: count(_count_checks(outcomes)),
    "outside": lambda outcomes, _: count(sum(one.violations for one in outcomes)),
    "thesis: outside %": lambda outcomes, _: format_share(
        sum(one.thesis_violations for one in outcomes), _count_checks(outcomes)
    ),
    "least round trip ms": _median_ms("round_trips_ns"),
    "width then ms": _median_ms("fresh_widths_ns"),
    "before the next ms": _median_ms("widths_ns"),
}


def measure_histories(seeds: int) -> Table:
    from tests.simulation.clock_histories import plan_of, run

    by_kind: dict[str, list[Any]] = {"all": []}
    for seed in range(seeds):
        plan = plan_of(Random(seed))
        name = plan.kind + ", one of three servers lies" * (plan.servers > 1)
        by_kind.setdefault(name, []).append(run(seed))
        by_kind["all"].append(by_kind[name][-1])
    return make_table(f"{count(seeds)} simulated histories", by_kind, HISTORY)


def judge_phone(rows: Sequence[TraceRow], model: Model) -> list[Judged]:
    """Judge a model against the recorded offset: NTP's estimate, constant for ten minutes."""
    found = []
    for at, one in enumerate(rows):
        offset_ns = int(one.payload["ntp_offset_ms"]) * MS
        t1, t2, t3, t4 = (int(one.payload[f"t{i}_ms"]) * MS for i in (1, 2, 3, 4))
        stamp_ns = t4 - offset_ns
        model.add(Sample(one.source, t1 - offset_ns, t2, t3, stamp_ns, one.arrival_ns))
        if at >= 10:
            found.append(judge(model, stamp_ns, offset_ns))
    return found


def measure_phones(every: int) -> Table:
    config = ClockConfig(granularity_ns=MS, max_error_ns=ANY_WIDTH)
    found: dict[str, list[Judged]] = {}
    for session in ("d1", "d2", "d4"):
        by_phone: dict[str, list[TraceRow]] = {}
        for one in TRACES[f"jr_umts/{session}"]():
            by_phone.setdefault(one.source, []).append(one)
        for phone_, rows in sorted(by_phone.items()):
            for name, make in MODELS.items():
                judgements = judge_phone(rows[::every], make(config))
                found[f"{session}, {phone_}: {name}"] = judgements
                found.setdefault(f"all: {name}", []).extend(judgements)
    return make_table("phones over UMTS, against the recorded NTP offset", found, COLUMNS)


def tables(asked: Asked) -> Tables:
    """Measure the clock model beside the thesis's: error, bound, and whether the bound is true."""
    full = asked.full
    for spiky in (False, True):
        yield "burst", partial(measure_bursts, 4_000 if full else 200, spiky=spiky)
    yield "drift", partial(measure_before_sync, 2_000 if full else 100)
    yield "histories", partial(measure_histories, 10_000 if full else 100)
    yield "phones", partial(measure_phones, 1 if full else 8)


command = harness.command(tables)
