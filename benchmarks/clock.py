"""How wrong a measured clock is, what bound it claims, and whether the bound holds.

The clock model (`topology.clock`) beside the thesis's: least round trip, fixed bound.

* one burst: ten rounds of a clock without skew, as in reorder_drift_merge.md 2.2;
* until the next burst: clocks that drift and wander, just before the next sync (2.3);
* histories: thousands of clocks, paths, steps and lying servers
  (`tests.simulation.clock_histories`, so only where the tests are);
* real clocks: phones over UMTS and balloons with GPS (`benchmarks.traces`);
* cost of a round and of a cell.

*Outside* counts where the truth was not within offset +- bound: for an honest bound 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import mean, median
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

import click

from benchmarks.tables import Page, Table, count, share
from benchmarks.traces import TRACES, TraceAbsent, TraceRow
from topology.clock.measured import MeasuredClock
from topology.clock.sample import Sample
from topology.config import ClockConfig
from topology.published.clock import ThesisClock

US: Final = 1_000
MS: Final = 1_000_000
S: Final = 1_000_000_000
START_NS: Final = 1_750_000_000 * S
ANY_WIDTH: Final = 1 << 62
PERIOD_S: Final = 60
QUICK_HISTORIES: Final = 1_000
FULL_HISTORIES: Final = 10_000
Model = MeasuredClock | ThesisClock


class Judged(NamedTuple):
    """Error against the truth, and the bound claimed; ns."""

    error_ns: float
    bound_ns: float

    @property
    def outside(self) -> bool:
        return self.error_ns > self.bound_ns


def us(ns: float) -> str:
    return f"{ns / US:,.0f}".replace(",", " ") if ns >= 100 * US else f"{ns / US:.1f}"


def judged(model: Model, stamp_ns: int, truth_ns: int) -> Judged:
    cell = model.cell(stamp_ns)
    return Judged(abs(cell.offset_at(stamp_ns) - truth_ns), cell.error_at(stamp_ns))


def row(found: Sequence[Judged]) -> tuple[str, str, str]:
    outside = sum(one.outside for one in found)
    return (
        us(mean(one.error_ns for one in found)),
        us(mean(one.bound_ns for one in found)),
        share(outside, len(found)),
    )


# -- one burst -------------------------------------------------------------------------------------


def delay_ns(random: Random, spiky: bool) -> int:
    """Floor 0.1 ms and exp(0.2 ms); with spikes, exp(5 ms) more for one packet in five."""
    spike_ns = random.expovariate(1 / (5 * MS)) if spiky and random.random() < 0.2 else 0.0
    return round(100 * US + random.expovariate(1 / (200 * US)) + spike_ns)


def one_burst(seeds: int, spiky: bool) -> Table:
    """Ten rounds; the truth is 0."""
    config = ClockConfig(max_error_ns=ANY_WIDTH, max_skew_ppb=100)
    found: dict[str, list[Judged]] = {}
    for seed in range(seeds):
        random = Random(seed)
        model, thesis = MeasuredClock(config), ThesisClock(config)
        offsets: list[float] = []
        smoothed = 0.0
        last = 0
        for at in range(10):
            t1, there_ns, back_ns = (
                START_NS + at * 20 * MS,
                *(delay_ns(random, spiky) for _ in range(2)),
            )
            t2, last = t1 + there_ns, t1 + there_ns + back_ns
            sample = Sample("s", t1, t2, t2, last, last)
            model.add(sample)
            thesis.add(sample)
            offsets.append((there_ns - back_ns) / 2)
            smoothed = offsets[0] if at == 0 else (smoothed + offsets[-1]) / 2
        plain = {"last": offsets[-1], "mean": mean(offsets), "half old, half new": smoothed}
        for name, offset_ns in plain.items():
            found.setdefault(name, []).append(Judged(abs(offset_ns), float("inf")))
        found.setdefault("least round trip (thesis)", []).append(judged(thesis, last, 0))
        found.setdefault("intersection", []).append(judged(model, last, 0))
    title = "Ten rounds, 0.1 ms + exp(0.2 ms) each way"
    specified = {"last": "101", "mean": "36", "half old, half new": "60"}
    specified |= {"least round trip (thesis)": "23; bound 146", "intersection": "10; bound 120"}
    if spiky:
        title += ", exp(5 ms) more for 20 % of the packets"
        specified = {"mean": "504", "least round trip (thesis)": "31.6", "intersection": "12.8"}
    columns = ("estimate", "mean error us", "bound us", "outside %", "spec, us")
    table = Table(f"{title}: {count(seeds)} bursts", columns)
    for name, every in found.items():
        error, bound, outside = row(every)
        bounded = every[0].bound_ns != float("inf")
        shown = (bound, outside) if bounded else ("none", "-")
        table.add(name, error, *shown, specified.get(name, ""))
    return table


# -- until the next burst --------------------------------------------------------------------------


class Drift(NamedTuple):
    """A clock: mean skew, and the wander of its rate, which stays within 20 ppm of it."""

    name: str
    skew_ppm: float
    wander_ppm_per_min: float
    window_s: int
    specified: str


DRIFTS: Final = (
    Drift("10 ppm", 10, 0, 300, "603 / 180, 100 %; 14 / 158, 0"),
    Drift("50 ppm", 50, 0, 300, "3 002, 100 %; 14, 0"),
    Drift("200 ppm", 200, 0, 300, ""),
    Drift("10 ppm, wander to the limit", 10, 0.1, 300, ""),
    Drift("10 ppm, wander 10 x the limit", 10, 1.0, 300, "; 90, 0"),
    Drift("... window of 900 s", 10, 1.0, 900, "; 5 %"),
)


def minutes(drift: Drift, random: Random) -> Iterator[Callable[[float], float]]:
    """D over each period, by the seconds in it; its rate wanders evenly up to the limit."""
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


def before_the_next(drift: Drift, bursts: int, seed: int) -> tuple[list[Judged], list[Judged]]:
    """The model and the thesis, after five minutes to settle."""
    random = Random(seed)
    config = ClockConfig(max_error_ns=ANY_WIDTH, sync_window_ns=drift.window_s * S)
    model, thesis = MeasuredClock(config), ThesisClock(config)
    ours: list[Judged] = []
    theirs: list[Judged] = []
    of_minute = minutes(drift, random)
    for burst in range(bursts):
        offset, base_ns = next(of_minute), START_NS + burst * PERIOD_S * S
        for at in range(4 if burst else 10):
            begun, there, back = (
                at * 20 * MS,
                delay_ns(random, spiky=False),
                delay_ns(random, spiky=False),
            )
            heard, ended = begun + there, begun + there + back
            t1, t4 = (base_ns + x - round(offset(x / S)) for x in (begun, ended))
            sample = Sample("s", t1, base_ns + heard, base_ns + heard, t4, base_ns + ended)
            model.add(sample)
            thesis.add(sample)
        if burst >= 5:
            truth_ns = round(offset(PERIOD_S - 0.001))
            stamp_ns = base_ns + PERIOD_S * S - MS - truth_ns
            ours.append(judged(model, stamp_ns, truth_ns))
            theirs.append(judged(thesis, stamp_ns, truth_ns))
    return ours, theirs


def until_the_next(bursts: int) -> Table:
    columns = (
        "clock",
        "thesis: error us",
        "bound us",
        "outside %",
        "polygon: error us",
        "bound us",
        "outside %",
        "spec: thesis; polygon",
    )
    title = f"Just before the next sync: 4 rounds every {PERIOD_S} s, {count(bursts)} bursts"
    table = Table(title, columns)
    for drift in DRIFTS:
        ours, theirs = before_the_next(drift, bursts, seed=1)
        table.add(drift.name, *row(theirs), *row(ours), drift.specified)
    return table


# -- histories -------------------------------------------------------------------------------------


WIDTHS: Final[tuple[Callable[[Any], list[int]], ...]] = (
    lambda outcome: outcome.round_trips_ns,
    lambda outcome: outcome.fresh_widths_ns,
    lambda outcome: outcome.widths_ns,
)
"""Medians: T of the plain filter, the model's whole interval at the burst and before the next."""


def histories(seeds: int) -> Table | None:
    """None where the tests are not."""
    try:
        from tests.simulation.clock_histories import plan_of, run
    except ModuleNotFoundError:
        return None
    by_kind: dict[str, list[Any]] = {}
    for seed in range(seeds):
        plan = plan_of(Random(seed))
        name = plan.kind
        if plan.servers > 1:
            name += ", one of three servers lies"
        by_kind.setdefault(name, []).append(run(seed))
    columns = (
        "path",
        "histories",
        "checks",
        "outside",
        "thesis: outside %",
        "least round trip ms",
        "width then ms",
        "before the next ms",
    )
    table = Table(f"{count(seeds)} simulated histories", columns)
    every = [outcome for outcomes in by_kind.values() for outcome in outcomes]
    for name, outcomes in [*sorted(by_kind.items()), ("all", every)]:
        checks = sum(outcome.checks for outcome in outcomes)
        table.add(
            name,
            count(len(outcomes)),
            count(checks),
            count(sum(outcome.violations for outcome in outcomes)),
            share(sum(outcome.thesis_violations for outcome in outcomes), checks),
            *(
                f"{median(ns for one in outcomes for ns in width(one)) / MS:.2f}"
                for width in WIDTHS
            ),
        )
    return table


# -- real clocks -----------------------------------------------------------------------------------


def by_source(name: str) -> dict[str, list[TraceRow]]:
    found: dict[str, list[TraceRow]] = {}
    for one in TRACES[name]():
        found.setdefault(one.source, []).append(one)
    return found


def phone(rows: Sequence[TraceRow], model: Model) -> list[Judged]:
    """Against the offset recorded, which is NTP's guess and fixed for ten minutes."""
    found = []
    for at, one in enumerate(rows):
        offset_ns = int(one.payload["ntp_offset_ms"]) * MS
        t1, t2, t3, t4 = (int(one.payload[f"t{i}_ms"]) * MS for i in (1, 2, 3, 4))
        stamp_ns = t4 - offset_ns
        model.add(Sample(one.source, t1 - offset_ns, t2, t3, stamp_ns, one.arrival_ns))
        if at >= 10:
            found.append(judged(model, stamp_ns, offset_ns))
    return found


def phones(every: int) -> Table:
    columns = (
        "session: phone",
        "offset ms",
        "thesis: error ms",
        "bound ms",
        "outside %",
        "polygon: error ms",
        "bound ms",
        "outside %",
    )
    table = Table("Phones over UMTS (jr_umts), against the recorded NTP offset", columns)
    config = ClockConfig(granularity_ns=MS, max_error_ns=ANY_WIDTH)
    for session in ("d1", "d2", "d4"):
        for name, rows in sorted(by_source(f"jr_umts/{session}").items()):
            cells = [f"{session}: {name}", rows[0].payload["ntp_offset_ms"]]
            for model in (ThesisClock(config), MeasuredClock(config)):
                found = phone(rows[::every], model)
                cells.append(f"{mean(one.error_ns for one in found) / MS:.1f}")
                cells.append(f"{mean(one.bound_ns for one in found) / MS:.1f}")
                cells.append(share(sum(one.outside for one in found), len(found)))
            table.add(*cells)
    return table


def balloons(every: int) -> Table:
    """A row of both clocks is a round without travel, good to a second. Every 15th is one;
    readings in between are held against what is known."""
    columns = ("balloon", "rows", "offset s", "bound s", "reading - offset s", "largest", "false")
    table = Table("Balloon loggers against GPS (balloon_clocks), both to the second", columns)
    config = ClockConfig(granularity_ns=S, max_error_ns=ANY_WIDTH)
    for name, rows in sorted(by_source("balloon_clocks").items()):
        model = MeasuredClock(config)
        residuals_s: list[float] = []
        bounds_s: list[float] = []
        offset_s = 0.0
        for at, one in enumerate(rows):
            gps_ns = int(one.payload["gps_s"]) * S
            if at % 15 == 0:
                model.add(Sample(name, one.ts_ns, gps_ns, gps_ns, one.ts_ns, one.arrival_ns))
            elif at > 60 and at % every == 0:
                cell = model.cell(one.ts_ns)
                offset_s = cell.offset_at(one.ts_ns) / S
                residuals_s.append(abs((gps_ns - one.ts_ns) / S - offset_s))
                bounds_s.append(cell.error_at(one.ts_ns) / S)
        table.add(
            name,
            count(len(rows)),
            f"{offset_s:.2f}",
            f"{mean(bounds_s):.2f}",
            f"{mean(residuals_s):.2f}",
            f"{max(residuals_s):.2f}",
            count(model.falsetickers + model.segment),
        )
    return table


# -- cost ------------------------------------------------------------------------------------------


def cost(sources: int) -> Table:
    """Microseconds, the median: a round, the first cell after one, and the next cells."""
    table = Table("Cost, us", ("schedule", "bounds", "add", "first cell", "next cell"))
    plans = (
        ("one burst of 10", 10, 1, 60 * S),
        ("10, then 4 a minute", 4, 12, 60 * S),
        ("a round every two seconds", 1, 240, 2 * S),
    )
    for name, rounds, bursts, period_ns in plans:
        adds: list[float] = []
        firsts: list[float] = []
        nexts: list[float] = []
        bounds = 0
        for seed in range(sources):
            random = Random(seed)
            model = MeasuredClock(ClockConfig(max_error_ns=ANY_WIDTH))
            for burst in range(bursts):
                base_ns = START_NS + burst * period_ns
                for at in range(rounds if burst else 10):
                    t1 = base_ns + at * 20 * MS
                    t2 = t1 + delay_ns(random, spiky=False)
                    t4 = t2 + delay_ns(random, spiky=False)
                    sample = Sample("s", t1, t2, t2, t4, t4)
                    adds.append(timed(lambda model=model, it=sample: model.add(it)))  # type: ignore[misc]
                firsts.append(timed(lambda model=model, at=base_ns: model.cell(at + S)))  # type: ignore[misc]
                nexts.append(timed(lambda model=model, at=base_ns: model.cell(at + 2 * S)))  # type: ignore[misc]
            *_, ((_, _, (((_, _, _, uppers, lowers), *_), _)),) = model.snapshot()
            bounds = max(bounds, len(uppers[0]) + len(lowers[0]))
        table.add(name, f"<= {bounds}", *(f"{median(it):.1f}" for it in (adds, firsts, nexts)))
    return table


def timed(call: Callable[[], object]) -> float:
    begun_ns = perf_counter_ns()
    call()
    return (perf_counter_ns() - begun_ns) / US


@click.command("clock")
@click.option("--full", is_flag=True, help="10 000 histories and every round of the traces.")
@click.option("--histories", "wanted", type=click.IntRange(1), help="So many histories.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
def command(full: bool, wanted: int | None, markdown: Path | None) -> None:
    """The clock model against the thesis's: error, bound, and whether it holds."""
    page = Page(markdown)
    seeds = wanted or (FULL_HISTORIES if full else QUICK_HISTORIES)
    for spiky in (False, True):
        page.table(one_burst(min(4_000, 4 * seeds) if full else min(500, seeds), spiky))
    page.table(until_the_next(min(2_000, 2 * seeds) if full else min(300, seeds)))
    simulated = histories(seeds)
    if simulated is None:
        page.say("histories: left out, they are simulated by the tests, which are not here")
    else:
        page.table(simulated)
    try:
        page.table(phones(1 if full else 8))
        page.table(balloons(1 if full else 10))
    except TraceAbsent as absent:
        page.say(f"real clocks: left out, {absent}")
    page.table(cost(50 if full else min(5, seeds)))
