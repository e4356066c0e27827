"""How much order each timeout rule buys, and for how much waiting.

Each set goes through REORDER alone, in the process, once for every point of every
rule: `miss` from 10^-4 to 5 * 10^-2, `fixed` over a grid, `thesis` and `rfc` as printed,
by the arrival clock and by the events' own. What the columns mean is in
`benchmarks.holding`. The same rows and arrivals for all, so figures of one table compare.

    python -m benchmarks reorder            recipes ten times shorter, no table to compare
    python -m benchmarks reorder --full     at their length, beside the specification's

A rule is better where it leaves less disorder for the same hold, or as much for less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click

from benchmarks.holding import Holding, event_of, injected, run
from benchmarks.plots import Axes, Curve, draw, shown
from benchmarks.subjects import GROUPS, Subject, subjects
from benchmarks.tables import NS_PER_MS, Page, Table, count, ms, share
from benchmarks.traces import TraceAbsent
from benchmarks.workloads.laws import MS
from benchmarks.workloads.rows import Row
from topology.config import ReorderConfig
from topology.published.reorder import PacedReorder
from topology.reorder.operator import Reorder

MISS_PPM: Final = (100, 300, 1_000, 3_000, 10_000, 30_000, 50_000)
QUICK_DIVISOR: Final = 10
RULES: Final = ("miss", "fixed", "thesis", "rfc")
STYLES: Final = {"miss": "o-", "fixed": "s--", "thesis": "^", "rfc": "v"}
COLUMNS: Final = (
    "rule",
    "left",
    "accuracy %",
    "late",
    "late %",
    "aside",
    "gaps",
    "never came",
    "mean ms",
    "p50 ms",
    "p99 ms",
    "max ms",
)

SPECIFICATION: Final = {
    "D1": {
        "fixed 500 ms": (5, 7.66),
        "thesis, event clock": (12_387, 0.011),
        "miss 1e-2": (202, 0.031),
        "miss 1e-3": (12, 0.032),
        "miss 3e-4": (5, 0.032),
    },
    "D2": {
        "fixed 500 ms": (19, 7.75),
        "thesis, event clock": (23_711, 0.024),
        "miss 1e-2": (364, 0.78),
        "miss 1e-3": (43, 1.25),
        "miss 3e-4": (34, 1.37),
    },
    "D3": {
        "fixed 500 ms": (17, 398.5),
        "thesis, event clock": (53_188, 0.029),
        "miss 1e-2": (31, 394.9),
        "miss 1e-3": (17, 398.5),
        "miss 3e-4": (17, 398.5),
    },
    "D1 - 0.1 %": {
        "fixed 500 ms": (5, 436.5),
        "thesis, event clock": (12_331, 0.012),
        "miss 1e-2": (199, 3.83),
        "miss 1e-3": (12, 3.84),
    },
    "D1 - 1 %": {
        "fixed 500 ms": (5, 484.8),
        "thesis, event clock": (11_836, 0.015),
        "miss 1e-2": (206, 3.84),
        "miss 1e-3": (13, 3.93),
    },
}
"""Descents left and mean hold in ms, from the throw-away runs of reorder_drift_merge.md
1.3: targets, measured with another program on the same recipes."""


@dataclass(frozen=True, slots=True)
class Point:
    """One setting of one rule."""

    rule: str
    knob: str
    config: ReorderConfig
    made: Callable[[str, ReorderConfig], Reorder] = Reorder

    @property
    def name(self) -> str:
        return f"{self.rule}, {self.knob}" if "clock" in self.knob else f"{self.rule} {self.knob}"


@dataclass(frozen=True, slots=True)
class Measured:
    point: Point
    holding: Holding


def points(subject: Subject, rules: Sequence[str], dense: bool) -> Iterator[Point]:
    """Every setting to try; half as many where it is to go quickly."""
    step = 1 if dense else 2
    for rule in rules:
        if rule == "miss":
            for ppm in MISS_PPM[::step]:
                config = ReorderConfig(rule="miss", miss_target_ppm=ppm, max_wait_ns=subject.cap_ns)
                yield Point(rule, spelled(ppm), config)
        elif rule == "fixed":
            for wait_ns in subject.waits_ns[::step]:
                config = ReorderConfig(rule="fixed", max_wait_ns=wait_ns)
                yield Point(rule, f"{wait_ns // MS:,} ms".replace(",", " "), config)
        else:
            for clock in ("arrival", "event"):
                config = ReorderConfig(max_wait_ns=subject.cap_ns)
                is_rfc, by_event_clock = rule == "rfc", clock == "event"
                made = partial(PacedReorder, is_rfc=is_rfc, by_event_clock=by_event_clock)
                yield Point(rule, f"{clock} clock", config, made)


def spelled(ppm: int) -> str:
    """1 000 is `1e-3`."""
    return f"{ppm / 1e6:.0e}".replace("e-0", "e-")


def measure(subject: Subject, rows: Sequence[Row], wanted: Iterable[Point]) -> list[Measured]:
    make = event_of(subject.epoch)
    return [
        Measured(point, run(point.made("default", point.config), rows, make)) for point in wanted
    ]


def table_of(subject: Subject, rows: Sequence[Row], measured: Sequence[Measured]) -> Table:
    before = injected(rows)
    title = f"{subject.name}: {count(len(rows))} events, {count(before)} descents injected"
    table = Table(title, COLUMNS)
    for one in measured:
        found = one.holding
        table.add(
            one.point.name,
            count(found.descents),
            f"{100 * found.accuracy(before):.2f}",
            count(found.late),
            share(found.late, found.released),
            count(found.aside),
            count(found.gaps),
            count(found.never_came),
            ms(found.mean_ns),
            ms(found.quantile_ns(0.5)),
            ms(found.quantile_ns(0.99)),
            ms(found.quantile_ns(1)),
        )
    return table


def compared(subject: Subject, measured: Sequence[Measured]) -> Table | None:
    """Beside the specification's figures, where it has some."""
    known = SPECIFICATION.get(subject.name)
    if known is None:
        return None
    table = Table(
        f"{subject.name} beside reorder_drift_merge.md 1.3",
        ("rule", "left", "left, spec", "mean ms", "mean ms, spec"),
    )
    by_name = {one.point.name: one.holding for one in measured}
    for name, (left, mean_ms) in known.items():
        found = by_name.get(name)
        if found is not None:
            table.add(name, count(found.descents), count(left), ms(found.mean_ns), str(mean_ms))
    return table


def plot(subject: Subject, measured: Sequence[Measured], folder: Path) -> Path:
    curves = []
    for rule in RULES:
        of_rule = [one for one in measured if one.point.rule == rule]
        curve = [
            (
                one.holding.mean_ns / NS_PER_MS,
                100 * one.holding.late / max(1, one.holding.released),
                one.point.knob.replace(" clock", ""),
            )
            for one in of_rule
        ]
        curves.append(Curve(rule, curve, STYLES[rule]))
    axes = Axes(subject.name, "mean hold over all events, ms", "late events, %")
    name = subject.name.replace("/", "-").replace(" ", "").replace("%", "pct")
    return draw(axes, curves, folder / f"reorder-{name}.png")


@click.command("reorder")
@click.option("--full", is_flag=True, help="Recipes at their length, every point.")
@click.option("--set", "names", multiple=True, help="Only sets whose name holds this.")
@click.option("--group", "groups", multiple=True, type=click.Choice(GROUPS))
@click.option("--rule", "rules", multiple=True, type=click.Choice(RULES))
@click.option("--divisor", type=click.IntRange(1), help="Recipes so many times shorter.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False))
def command(
    full: bool,
    names: tuple[str, ...],
    groups: tuple[str, ...],
    rules: tuple[str, ...],
    divisor: int | None,
    markdown: Path | None,
    plots: Path | None,
) -> None:
    """Accuracy against hold for every timeout rule."""
    page = Page(markdown)
    shorter = divisor or (1 if full else QUICK_DIVISOR)
    for subject in subjects(shorter):
        if groups and subject.group not in groups:
            continue
        if names and not any(name in subject.name for name in names):
            continue
        try:
            rows = subject.rows()
        except TraceAbsent as absent:
            page.say(f"left out: {absent}")
            continue
        measured = measure(subject, rows, points(subject, rules or RULES, dense=full))
        page.table(table_of(subject, rows, measured))
        beside = compared(subject, measured) if shorter == 1 else None
        if beside is not None:
            page.table(beside)
        if plots is not None:
            plotted(page, subject, measured, plots)


def plotted(page: Page, subject: Subject, measured: Sequence[Measured], folder: Path) -> None:
    shown(page, folder, partial(plot, subject, measured, folder))
