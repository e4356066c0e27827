"""What order by time costs without sequence numbers: every waiting strategy on one stream.

Each strategy orders the stream by time (`topology.reorder.time_buffer`) at several settings; for
each, the mean hold over all events and the share that came late (marked and passed on). A
strategy is better where its curve lies left of and below another; *ours there* is what "tail"
holds for the same share, between its own settings by interpolation of the logarithms.
Subjects: recorded traces,
and D1 to D3 of the thesis (a tenth as long; `--full` at their length), where MP-K-Slack and
AQ-K-Slack are the thesis's rivals. What REORDER reaches with sequence numbers, which none of
these has, is in `benchmarks.reorder`.

*Beyond max_wait*: events that come longer than that after their time, which "tail", bounded by it,
cannot save and does not count against its promise; here they count as late, as for all.

    python -m benchmarks frontier [--set D1] [--plots DIR]

"tail" is ours: its setting is the promised share of late events. Traces with clocks that are
wrong by years (lorawan_gateways) count events more than a day ahead as malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Final

import click

from benchmarks.baselines.tail_slack import TailSlack
from benchmarks.holding import Holding, event_of, run
from benchmarks.plots import Axes, Curve, decade, draw, shown
from benchmarks.tables import NS_PER_MS, Page, Table, count, ms, share
from benchmarks.traces import TRACES, TraceAbsent
from benchmarks.workloads import D1, D2, D3, Recipe, soccer
from benchmarks.workloads.laws import MS, S
from benchmarks.workloads.rows import Row
from topology.published.aq_k_slack import AQKSlack
from topology.published.event_driven import EventDriven
from topology.published.ldop import LDOP
from topology.published.mp_k_slack import MPKSlack
from topology.reorder.time_buffer import TimeBuffer
from topology.waiting.fixed import KSlack
from topology.waiting.policy import SlackPolicy

MESH: Final = "mesh_sensors/tdma_interference"
DAY_NS: Final = 86_400 * S
DELTAS: Final = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.3, 0.5)
COVERAGES: Final = (0.9, 0.98, 0.999)
OURS: Final = "tail"
ON: Final = 1.05
"""A curve that is within so many times of another lies on it."""

STYLES: Final = {OURS: "ro-", "fixed": "s--", "AQ-K-Slack": "^:", "LDOP": "v:"}


@dataclass(frozen=True, slots=True)
class Subject:
    """`waits_ms`: the grid of fixed K; `window_ns` that of AQ-K-Slack and LDOP."""

    name: str
    rows: Callable[[], Sequence[Row]]
    waits_ms: tuple[float, ...]
    window_ns: int
    max_wait_ns: int


@dataclass(frozen=True, slots=True)
class Point:
    strategy: str
    knob: str
    make: Callable[[], SlackPolicy]


def subjects(divisor: int) -> list[Subject]:
    short = (0, 0.1, 0.2, 0.5, 1, 2, 5, 20, 100, 500)
    long = (0, 10, 30, 100, 300, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000)
    hours = (0, 1 / 60, 1 / 6, 1, 3, 6, 12, 24, 48, 72, 120)
    days = tuple(hour * 3_600_000 for hour in hours)

    def of(recipe: Recipe) -> Callable[[], Sequence[Row]]:
        return lambda: soccer(recipe.shortened(divisor) if divisor > 1 else recipe).rows

    def trace(name: str) -> Callable[[], Sequence[Row]]:
        return lambda: [row.row() for row in TRACES[name]()]

    return [
        *(Subject(one.name, of(one), short, 100 * MS, 500 * MS) for one in (D1, D2, D3)),
        Subject(MESH, trace(MESH), long, 60 * S, 60 * S),
        Subject("jr_umts/d1", trace("jr_umts/d1"), long, 10 * S, 60 * S),
        Subject("lorawan_gateways", trace("lorawan_gateways"), long, 60 * S, 60 * S),
        Subject("usgs_quakes", trace("usgs_quakes"), days, 3_600 * S, 7 * DAY_NS),
    ]


def points(subject: Subject) -> Iterator[Point]:
    window_ns = subject.window_ns
    for wait_ms in subject.waits_ms:
        yield Point("fixed", spelled(wait_ms), partial(KSlack, int(wait_ms * MS)))
    yield Point("MP-K-Slack", "", MPKSlack)
    for coverage in COVERAGES:
        yield Point("AQ-K-Slack", f"{coverage:g}", partial(AQKSlack, window_ns, coverage))
    for factor in (1, 4):
        yield Point("LDOP", f"{factor}", partial(LDOP, window_ns, factor * 1_000_000))
    yield Point("event-driven", "", EventDriven)
    for delta in DELTAS:
        make = partial(TailSlack, delta, max_wait_ns=subject.max_wait_ns)
        yield Point(OURS, f"{delta:g}", make)


def spelled(wait_ms: float) -> str:
    for unit, of_ms in (("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if wait_ms and wait_ms % of_ms == 0:
            return f"{wait_ms / of_ms:g} {unit}"
    return f"{wait_ms:g} ms"


def measure(subject: Subject, rows: Sequence[Row]) -> list[tuple[Point, Holding]]:
    make = event_of()
    return [
        (point, run(TimeBuffer(point.make(), max_ahead_ns=DAY_NS), rows, make))
        for point in points(subject)
    ]


Measured = Sequence[tuple[Point, Holding]]


def late_percent(found: Holding) -> float:
    return 100 * found.late / max(1, found.released)


class Ours:
    """The curve of "tail": for a share of late events, what it holds."""

    def __init__(self, measured: Measured) -> None:
        self._curve = sorted(
            (late_percent(found), found.mean_ns)
            for point, found in measured
            if point.strategy == OURS
        )

    def at(self, late: float) -> float | None:
        """None: it was never so seldom late."""
        best_ns: float | None = None
        for percent, hold_ns in self._curve:
            if percent <= late and (best_ns is None or hold_ns < best_ns):
                best_ns = hold_ns
        for (low, slow_ns), (high, quick_ns) in pairwise(self._curve):
            if 0 < low <= late < high and 0 < quick_ns < slow_ns:
                part = log(late / low) / log(high / low)
                between_ns = exp(log(slow_ns) + part * log(quick_ns / slow_ns))
                best_ns = min(between_ns, best_ns) if best_ns is not None else between_ns
        return best_ns


def table_of(subject: Subject, rows: Sequence[Row], measured: Measured) -> Table:
    columns = ("strategy", "late %", "descents left", "mean hold ms", "p99 ms", "ours there ms")
    table = Table(f"{subject.name}: {count(len(rows))} events, ordered by time", columns)
    ours = Ours(measured)
    for point, found in measured:
        there_ns = ours.at(late_percent(found)) if point.strategy != OURS else None
        table.add(
            f"{point.strategy} {point.knob}".strip(),
            share(found.late, found.released),
            count(found.descents),
            ms(found.mean_ns),
            ms(found.quantile_ns(0.99)),
            ms(there_ns) if there_ns is not None else "" if point.strategy == OURS else "-",
        )
    table.note = f"{judged(measured)}; beyond max_wait: {count(beyond(subject, rows))}"
    return table


def beyond(subject: Subject, rows: Sequence[Row]) -> int:
    most_ns = subject.max_wait_ns
    return sum(most_ns < row.arrival_ns - row.ts_ns for row in rows)


def judged(measured: Measured) -> str:
    """Where another strategy holds for less at the same share of late events, or is late
    more seldom than ours ever is."""
    ours = Ours(measured)
    ahead = []
    for point, found in measured:
        if point.strategy == OURS:
            continue
        there_ns = ours.at(late_percent(found))
        if there_ns is None or there_ns > ON * found.mean_ns:
            ahead.append(f"{point.strategy} {point.knob}".strip())
    return f"left of or below ours: {', '.join(ahead) or 'none'}"


def plot(subject: Subject, measured: Measured, folder: Path) -> Path:
    curves: dict[str, list[tuple[float, float, str]]] = {}
    for point, found in measured:
        label = point.knob if point.strategy == OURS else ""
        held_ms = found.mean_ns / NS_PER_MS
        curves.setdefault(point.strategy, []).append((held_ms, late_percent(found), label))
    every = [each for curve in curves.values() for each in curve]
    axes = Axes(
        f"{subject.name}; labels: promised share",
        "mean hold over all events, ms",
        "late events, %",
        x_linear_below=decade(x for x, _, _ in every),
        y_linear_below=decade(y for _, y, _ in every),
    )
    drawn = [
        Curve("fixed, best in hindsight" if name == "fixed" else name, curve, STYLES.get(name, "D"))
        for name, curve in curves.items()
    ]
    return draw(axes, drawn, folder / f"frontier-{subject.name.split('/')[0]}.png")


@click.command("frontier")
@click.option("--full", is_flag=True, help="D1 to D3 at their length.")
@click.option("--set", "names", multiple=True, help="Only subjects whose name holds this.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False))
def command(full: bool, names: tuple[str, ...], markdown: Path | None, plots: Path | None) -> None:
    """Late events against hold, for every waiting strategy."""
    page = Page(markdown)
    for subject in subjects(1 if full else 10):
        if names and not any(name in subject.name for name in names):
            continue
        try:
            rows = subject.rows()
        except TraceAbsent as absent:
            page.say(f"left out: {absent}")
            continue
        measured = measure(subject, rows)
        page.table(table_of(subject, rows, measured))
        if plots is not None:
            shown(page, plots, partial(plot, subject, measured, plots))
