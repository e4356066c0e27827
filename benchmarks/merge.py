"""How long the merge holds events, and how many come too late for it.

Sources that are each in sequence go through MERGE alone: unlike base delays at one rate,
and rates of 1000, 200, 20 and 2 Hz mixed. `delay` waits for a source as long as
its events travel, `thesis` as long as it usually pauses between two events. The
jitter of these workloads is a choice of ours, so the figures of reorder_drift_merge.md
3.2, printed beside, show the same comparison on other draws and not a target digit by
digit.

The sources are told to the merge (`expected_sources`). Without that it cannot wait for a
source it has never heard of: whatever the fast ones have sent before the slow ones speak
for the first time is gone by then, which the last column counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from benchmarks.holding import Holding, event_of, run
from benchmarks.plots import Axes, Curve, draw, shown
from benchmarks.tables import NS_PER_MS, Page, Table, count, ms, share
from benchmarks.workloads import mixed_rates, unlike_delays
from benchmarks.workloads.rows import Row, Workload
from topology.config import MergeConfig
from topology.merge.operator import Merge
from topology.published.merge import PacedMerge

QUICK_SECONDS: Final = 5
FULL_SECONDS: Final = 60
SETTINGS: Final = (
    ("thesis", PacedMerge, MergeConfig()),
    ("delay 0.95", Merge, MergeConfig(miss_target_ppm=50_000)),
    ("delay 0.99", Merge, MergeConfig(miss_target_ppm=10_000)),
    ("delay 0.999", Merge, MergeConfig(miss_target_ppm=1_000)),
    ("delay 0.9999", Merge, MergeConfig(miss_target_ppm=100)),
)
SPECIFICATION: Final = {
    ("unlike_delays", 5): ("9.3 / 0.54", "7.4 / 0.35", "10.0 / 0.10"),
    ("unlike_delays", 20): ("25.6 / 0.11", "22.8 / 0.12", "25.6 / 0.045"),
    ("mixed_rates", 4): ("147 / 0.41", "16 / 0.11", "41 / 0.06"),
    ("mixed_rates", 20): ("723 / 0.041", "58 / 0.019", "75 / 0.018"),
}
SPECIFIED: Final = ("thesis", "delay 0.99", "delay 0.999")
"""Mean hold in ms / late in per cent."""

COLUMNS: Final = (
    "wait",
    "mean ms",
    "p50 ms",
    "p99 ms",
    "max ms",
    "late",
    "late %",
    "spec: ms / %",
    "late, untold",
)
Recipe = Callable[..., Workload]
Found = dict[str, tuple[Holding, int]]
RECIPES: Final[dict[str, Recipe]] = {"unlike_delays": unlike_delays, "mixed_rates": mixed_rates}


def measure(rows: Sequence[Row], made: type[Merge], config: MergeConfig) -> tuple[Holding, int]:
    """With the sources told, and how many come late where they are not."""
    names = tuple(sorted({row.source for row in rows}))
    with_sources = config.model_copy(update={"expected_sources": names})
    without = run(made("default", config), rows, event_of())
    return run(made("default", with_sources), rows, event_of()), without.late


def table_of(name: str, sources: int, rows: Sequence[Row], found: Found) -> Table:
    table = Table(f"{name}, {sources} sources: {count(len(rows))} events", COLUMNS)
    known = dict(zip(SPECIFIED, SPECIFICATION[name, sources], strict=True))
    for setting, (holding, without) in found.items():
        table.add(
            setting,
            ms(holding.mean_ns),
            ms(holding.quantile_ns(0.5)),
            ms(holding.quantile_ns(0.99)),
            ms(holding.quantile_ns(1)),
            count(holding.late),
            share(holding.late, holding.released),
            known.get(setting, ""),
            count(without),
        )
    return table


def plot(found: dict[tuple[str, int], Found], folder: Path) -> Path:
    curves = []
    for (name, sources), of_setting in found.items():
        points = [
            (
                holding.mean_ns / NS_PER_MS,
                100 * holding.late / max(1, holding.released),
                setting.removeprefix("delay "),
            )
            for setting, (holding, _) in of_setting.items()
        ]
        curves.append(Curve(f"{name} x{sources}: delay", points[1:], "o-"))
        curves.append(Curve(f"{name} x{sources}: thesis", points[:1], "^"))
    axes = Axes("merge: wait by delay, and as printed", "mean hold, ms", "late events, %", 1)
    return draw(axes, curves, folder / "merge.png")


@click.command("merge")
@click.option("--full", is_flag=True, help="A minute of each stream instead of five seconds.")
@click.option("--seconds", type=click.IntRange(1), help="So many seconds of each stream.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False))
def command(full: bool, seconds: int | None, markdown: Path | None, plots: Path | None) -> None:
    """Hold and late events of the merge, by delay and by the printed rule."""
    page = Page(markdown)
    length_s = seconds or (FULL_SECONDS if full else QUICK_SECONDS)
    found: dict[tuple[str, int], Found] = {}
    for name, sources in SPECIFICATION:
        rows = RECIPES[name](sources, seconds=length_s).rows
        found[name, sources] = {
            what: measure(rows, made, config) for what, made, config in SETTINGS
        }
        page.table(table_of(name, sources, rows, found[name, sources]))
    if plots is not None:
        shown(page, plots, partial(plot, found, plots))
