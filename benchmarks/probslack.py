"""How early windows close for the accuracy that was promised: ProbSlack's streams.

The streams are those of `benchmarks.workloads.windows`, 100 000 events each, windows of f ms
that tumble; what the columns mean is in `benchmarks.closing`. Waits are means over the
seeds; error, worst prefix and worst stretch the largest of them. The same streams for all.

* `kinds`: every kind at f = 30, delta = 0.1, windows closed as early as the promise
  allows (as in the paper, waits below 0), and never before their end (the service's way).
* `delta` (figure 8) and `frequency` (figure 7): BB over delta and over f, the latter in
  both ways.
* `all`: every kind and f, over delta (figure 6 has 0.3): one table and one picture for each
  of error, wait, its share of event-driven's, and the way to the Oracle.
* `ordered`: the K-Slack family and the tail quantile, which look at events and not at windows.

    python -m benchmarks probslack          30 000 events, 1 seed
    python -m benchmarks probslack --full   100 000 events, 10 seeds; `all` takes `--seeds`
                                            times 25 minutes, the rest an hour

Decisions are taken at instants, all arrivals of which count. BL-AD closes at the mean delay
to the ns, so up to 1 ms before one that looks at whole ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Final

import click

from benchmarks.closing import (
    EVENT_DRIVEN,
    HEEDLESS,
    ORACLE,
    ORDERED,
    OURS,
    STRATEGIES,
    Closed,
    Make,
    by_oracle,
    judged,
    run,
)
from benchmarks.plots import Axes, Curve, draw, shown
from benchmarks.tables import Page, Table, share
from benchmarks.workloads.laws import MS
from benchmarks.workloads.windows import CHANGING, STATIC, Stream, stream

TABLES: Final = ("kinds", "delta", "frequency", "all", "ordered")
KINDS: Final = (*STATIC, *CHANGING)
DELTAS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SPARSE_DELTAS: Final = (0.1, 0.3, 0.5, 0.9)
FREQUENCIES_MS: Final = (5, 10, 15, 20, 25, 30, 35, 40)
QUICK_EVENTS: Final = 30_000
FULL_EVENTS: Final = 100_000
FULL_SEEDS: Final = 10
NO_WAIT_NS: Final = 1_000
KEPT_RUNS: Final = 64
"""For strategies that do not look at delta: one run serves all of them."""

STYLES: Final = {OURS: "ro-", EVENT_DRIVEN: "s--", ORACLE: "k:", "promised": "k-"}
COLUMNS: Final = (
    "",
    "error %",
    "worst prefix - delta, %",
    "worst 1000 %",
    "wait ms",
    "least to most",
    "of event-driven",
    "way to Oracle %",
    "never early: error %",
    "wait ms",
    "of event-driven",
    "way to Oracle %",
)


class Bench:
    """Streams are drawn once; `seeds` times all that is asked."""

    def __init__(self, events: int, seeds: int) -> None:
        self.events = events
        self.seeds = seeds
        self._streams = cache(self._draw)
        self._heedless = lru_cache(KEPT_RUNS)(self._closings)
        self._known: dict[tuple[object, ...], list[Closed]] = {}

    def _draw(self, kind: str, seed: int) -> Stream:
        return stream(kind, seed, self.events)

    def of(
        self, name: str, make: Make, kind: str, f_ms: int, delta: float, *, early: bool
    ) -> list[Closed]:
        """One for each seed."""
        key = (name, kind, f_ms, delta, early)
        if key not in self._known:
            seeds = range(1, self.seeds + 1)
            closings = self._heedless if name in HEEDLESS else self._closings
            about = 0 if name in HEEDLESS else delta
            self._known[key] = [
                judged(
                    self._streams(kind, seed),
                    closings(make, kind, seed, f_ms, about, early),
                    f_ms * MS,
                    delta,
                )
                for seed in seeds
            ]
        return self._known[key]

    def _closings(
        self, make: Make, kind: str, seed: int, f_ms: int, delta: float, early: bool
    ) -> dict[int, int]:
        return run(self._streams(kind, seed), make(delta), f_ms * MS, early=early)

    def table(self, kind: str, f_ms: int, delta: float, *, early: bool) -> dict[str, list[Closed]]:
        """All strategies and the Oracle, with their way to it."""
        found = {
            name: self.of(name, make, kind, f_ms, delta, early=early)
            for name, make in STRATEGIES.items()
        }
        best = [
            by_oracle(self._streams(kind, seed), f_ms * MS, delta, one.windows, early=early)
            for seed, one in enumerate(found[EVENT_DRIVEN], start=1)
        ]
        found[ORACLE] = best
        worst = found[EVENT_DRIVEN]
        return {
            name: [
                replace(one, way=(ed.wait_ns - one.wait_ns) / (ed.wait_ns - top.wait_ns))
                for one, ed, top in zip(of_seed, worst, best, strict=True)
            ]
            for name, of_seed in found.items()
        }


# -- cells -----------------------------------------------------------------------------------------


def mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)


def wait(found: Sequence[Closed]) -> str:
    return f"{mean(one.wait_ns for one in found) / MS:.2f}"


def ratio(found: Sequence[Closed], event_driven: Sequence[Closed]) -> str:
    """How many times quicker than event-driven; waits of 0 and below have no ratio."""
    waited = mean(one.wait_ns for one in found)
    if waited < NO_WAIT_NS:
        return "none"
    return f"1/{mean(one.wait_ns for one in event_driven) / waited:.1f}"


def way(found: Sequence[Closed]) -> str:
    """Valid where the promise held from 1/delta on."""
    if max(one.settled for one in found) > 0:
        return "violated"
    return f"{100 * mean(one.way for one in found):.1f}"


def worst(found: Sequence[Closed]) -> str:
    return f"{100 * max(one.worst for one in found):+.2f}"


def error(found: Sequence[Closed]) -> str:
    return share(max(one.error for one in found), 1)


# -- tables ----------------------------------------------------------------------------------------


def kinds(page: Page, bench: Bench, wanted: Sequence[str], plots: Path | None) -> None:
    for kind in wanted:
        early = bench.table(kind, 30, 0.1, early=True)
        late = bench.table(kind, 30, 0.1, early=False)
        title = f"{kind}: f = 30 ms, delta = 0.1, {bench.events} events, {bench.seeds} seeds"
        table = Table(title, COLUMNS)
        for name, found in early.items():
            waits_ms = [one.wait_ns / MS for one in found]
            never = late[name]
            table.add(
                name,
                error(found),
                worst(found),
                f"{100 * max(one.worst_stretch for one in found):.1f}",
                wait(found),
                f"{min(waits_ms):.2f} to {max(waits_ms):.2f}",
                ratio(found, early[EVENT_DRIVEN]),
                way(found),
                error(never),
                wait(never),
                ratio(never, late[EVENT_DRIVEN]),
                way(never),
            )
        page.table(table)
        if plots is not None:
            axes = Axes(title, "mean wait, ms", "error, %", plain=True)
            plotted(page, scatter(early), axes, plots / f"probslack-{kind}.png")


def scatter(found: dict[str, list[Closed]]) -> list[Curve]:
    return [
        Curve(
            name,
            [(one.wait_ns / MS, 100 * one.error, "") for one in of_seed],
            "ro" if name == OURS else "k*" if name == ORACLE else ".",
        )
        for name, of_seed in found.items()
    ]


def sweep(
    page: Page, bench: Bench, kind: str, what: str, plots: Path | None, *, early: bool = True
) -> None:
    """One kind over delta or over f."""
    over_delta = what == "delta"
    points = [(30, delta) for delta in DELTAS] if over_delta else [(f, 0.1) for f in FREQUENCIES_MS]
    xs = [delta if over_delta else float(f) for f, delta in points]
    title = f"{kind} over {what}, {'f = 30 ms' if over_delta else 'delta = 0.1'}"
    if not early:
        title += ", never early"
    found = [bench.table(kind, f_ms, delta, early=early) for f_ms, delta in points]
    shown = {name: [one[name] for one in found] for name in (*STRATEGIES, ORACLE)}
    measured_over(page, f"{title}, {counted(bench)}", xs, shown)
    if plots is None:
        return
    x = "delta" if over_delta else "f, ms"
    deltas = [delta for _, delta in points]
    name = f"probslack-{what}" if early else f"probslack-{what}-late"
    pictures(page, title, x, xs, deltas, shown, plots, name, ("error", "wait"))


def everywhere(
    page: Page,
    bench: Bench,
    plots: Path | None,
    kinds_: Sequence[str] = tuple(STATIC),
    frequencies_ms: Sequence[int] = FREQUENCIES_MS,
    deltas: Sequence[float] = SPARSE_DELTAS,
) -> None:
    """Figure 6 (delta 0.3): the paper has ProbSlack 13.7 % error on average, 20 at most, 7.6
    times quicker than event-driven and 2.1 times than average delay."""
    cells: dict[str, list[list[Closed]]] = {
        name: [[] for _ in deltas] for name in (*STRATEGIES, ORACLE)
    }
    title = f"{', '.join(kinds_)} and f = {frequencies_ms[0]} to {frequencies_ms[-1]} ms"
    ours = Table(
        f"{title}: ours, way to the Oracle % (wait ms), {counted(bench)}",
        ("kind, delta", *(str(f_ms) for f_ms in frequencies_ms)),
    )
    for kind in kinds_:
        rows = [[f"{kind}, {delta:g}"] for delta in deltas]
        for f_ms in frequencies_ms:
            for at, delta in enumerate(deltas):
                found = bench.table(kind, f_ms, delta, early=True)
                for name, of_seeds in found.items():
                    cells[name][at] += of_seeds
                rows[at].append(f"{way(found[OURS])} ({wait(found[OURS])})")
        for row in rows:
            ours.add(*row)
    page.table(ours)
    measured_over(page, f"{title}, {counted(bench)}", deltas, cells)
    if plots is not None:
        what = ("error", "wait", "share", "way")
        pictures(page, title, "delta", deltas, deltas, cells, plots, "probslack-all", what)


def counted(bench: Bench) -> str:
    return f"{bench.events} events, {bench.seeds} seed{'s' * (bench.seeds > 1)}"


Shown = dict[str, list[list[Closed]]]
"""By strategy, for each x the runs."""


def measured_over(page: Page, title: str, xs: Sequence[float], shown: Shown) -> None:
    worst_ = shown[EVENT_DRIVEN]
    for measure, cell in (
        ("mean error %", lambda one, _: f"{100 * mean(each.error for each in one):.1f}"),
        ("largest error %, in brackets if above delta at a prefix", lambda one, _: bracketed(one)),
        ("largest of worst prefix - delta, %", lambda one, _: worst(one)),
        ("mean wait ms", lambda one, _: wait(one)),
        ("wait as a share of event-driven's", ratio),
        ("way to the Oracle %", lambda one, _: way(one)),
    ):
        table = Table(f"{title}: {measure}", ("", *(f"{x:g}" for x in xs)))
        for name, rows in shown.items():
            table.add(name, *(cell(one, ed) for one, ed in zip(rows, worst_, strict=True)))
        page.table(table)


def pictures(
    page: Page,
    title: str,
    x: str,
    xs: Sequence[float],
    deltas: Sequence[float],
    shown: Shown,
    plots: Path,
    name: str,
    wanted: Sequence[str],
) -> None:
    """One for each measure; the error is that of the worst prefix from 1 / delta on."""
    waits = {
        who: [mean(c.wait_ns for c in one) / MS for one in rows] for who, rows in shown.items()
    }
    errors = {
        who: [100 * (max(c.settled for c in one) + d) for one, d in zip(rows, deltas, strict=True)]
        for who, rows in shown.items()
        if who != ORACLE
    }
    errors["promised"] = [100 * delta for delta in deltas]
    slowest = waits[EVENT_DRIVEN]
    shares = {
        who: [own / ed for own, ed in zip(row, slowest, strict=True)] for who, row in waits.items()
    }
    ways = {
        who: [100 * mean(c.way for c in one) for one in rows]
        for who, rows in shown.items()
        if max(c.settled for one in rows for c in one) <= 0
    }
    measures = {
        "error": ("error at the worst prefix from 1/delta on, %", errors),
        "wait": ("mean wait, ms", waits),
        "share": ("wait as a share of event-driven's", shares),
        "way": ("way to the Oracle, %, of those that keep delta", ways),
    }
    for measure in wanted:
        y, values = measures[measure]
        curves = [
            Curve(who, [(at, value, "") for at, value in zip(xs, row, strict=True)], style(who))
            for who, row in values.items()
        ]
        plotted(page, curves, Axes(title, x, y, plain=True), plots / f"{name}-{measure}.png")


def style(name: str) -> str:
    return STYLES.get(name, ".-")


def bracketed(found: Sequence[Closed]) -> str:
    return error(found) if max(one.settled for one in found) <= 0 else f"({error(found)})"


def ordered(page: Page, bench: Bench) -> None:
    table = Table("BB: the K-Slack family, f = 30 ms, delta = 0.1", ("", "error %", "wait ms"))
    for name, make in {EVENT_DRIVEN: STRATEGIES[EVENT_DRIVEN], **ORDERED}.items():
        found = bench.of(name, make, "BB", 30, 0.1, early=True)
        table.add(name, error(found), wait(found))
    page.table(table)


def plotted(page: Page, curves: Sequence[Curve], axes: Axes, path: Path) -> None:
    shown(page, path.parent, partial(draw, axes, curves, path))


@click.command("probslack")
@click.option("--full", is_flag=True, help="100 000 events and ten seeds.")
@click.option("--table", "tables", multiple=True, type=click.Choice(TABLES))
@click.option("--kind", "wanted", multiple=True, type=click.Choice((*KINDS, "buses")))
@click.option("--events", type=click.IntRange(100))
@click.option("--seeds", type=click.IntRange(1))
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False))
def command(
    full: bool,
    tables: tuple[str, ...],
    wanted: tuple[str, ...],
    events: int | None,
    seeds: int | None,
    markdown: Path | None,
    plots: Path | None,
) -> None:
    """Error and wait of closing windows by every waiting strategy."""
    page = Page(markdown)
    bench = Bench(
        events or (FULL_EVENTS if full else QUICK_EVENTS), seeds or (FULL_SEEDS if full else 1)
    )
    chosen = tables or (TABLES if full else ("kinds", "ordered"))
    if "kinds" in chosen:
        kinds(page, bench, wanted or KINDS, plots)
    if "delta" in chosen:
        sweep(page, bench, "BB", "delta", plots)
    if "frequency" in chosen:
        sweep(page, bench, "BB", "frequency", plots)
        sweep(page, bench, "BB", "frequency", plots, early=False)
    if "all" in chosen:
        everywhere(page, bench, plots)
    if "ordered" in chosen:
        ordered(page, bench)
