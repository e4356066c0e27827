"""The thesis's runs, with ours beside them.

Two tables of what waiting costs: `rivals` (`benchmarks.rivals`) and `aggregates`
(`benchmarks.aggregates`). Three of sources whose clocks are wrong, all through the fused
stage (reorder, clock, merge), in the process, late events passed on as in the thesis; what
counts there are true times (`benchmarks.truth`):

* `offsets`, table 5.10: two sources send D3, the second's clock is ahead by 0 to 1 h. Once
  with stamps in whole ms, as the thesis's prototype has them, so that what falls into one
  millisecond is a tie and no descent (ours leave source by source, so that at most one
  descent falls on a millisecond; with ties in turn it would be many); once in ns. There
  are 30 000 events a second, so a clock known to 10 us swaps neighbours of different
  sources all the time, and the question is what lies *beyond* the error bounds.
* `sources`, tables 5.8 and 5.9: one to twenty sources send D3, source i 3 i ms later; with
  right clocks, and with clocks up to an hour and 100 ppm off that are synced. In ns.
* `skew`: six sources at 20 Hz for hours, right at the start, then fast and slow by turns.

Clocks: *trust* takes the source at its word (the thesis's "no sync"), *estimate* goes by
the arrivals; *polygon* and *thesis* are the models of a synced clock. The rounds are those
of `benchmarks.workloads.clocks`, every 60 s; *polygon, as client* has them at the pauses
of `inorder.sync`. D3's events arrive the instant they happen, unless delayed.

    python -m benchmarks thesis             D1 to D3 10 to 200 times shorter, minutes of skew
    python -m benchmarks thesis --full      the whole of it: an hour and a half

D3 lasts 67 s. A second of it is left in the short form, all of which waits while a source
that is a minute ahead is waited for: those rows say something in the long form only.
A source that nobody hears of is waited for as long as its delays call for (MERGE's default,
at most 500 ms), or until it is idle (2 s). After the last event ten seconds pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks.aggregates import show_aggregates
from benchmarks.rivals import THESIS_SOURCES, show_rivals, show_rivals_of_sources
from benchmarks.synced import (
    AS_CLIENT_DOES,
    METHODS,
    POLYGON,
    SYNCED,
    TRUST,
    run,
    sources_of,
    span_of,
)
from benchmarks.tables import Page, Table, count, ms
from benchmarks.truth import Truth
from benchmarks.workloads import D3, soccer
from benchmarks.workloads.clocks import HEAD_START_NS, Dial, steady, unlike_dials
from benchmarks.workloads.laws import MS, S
from benchmarks.workloads.rows import Row

TABLES: Final = ("rivals", "aggregates", "offsets", "sources", "skew")
OFFSETS_NS: Final = (0, 1 * MS, 5 * MS, 10 * MS, 60 * S, 3_600 * S)
SOURCES: Final = (1, 2, 5, 10, 20)
SKEWS_PPM: Final = (0, 1, 10, 50, 100, 200)
SKEWED: Final = 6
SKEWED_HZ: Final = 20
SETTLED_NS: Final = 60 * S
"""By then a second burst of rounds has come, and the rate of the clock is known."""

RIVALS_DIVISOR: Final = 10
AGGREGATES_SEEDS: Final = 3
OFFSETS_DIVISOR: Final = 60
SOURCES_DIVISOR: Final = 200
QUICK_SECONDS: Final = 180
FULL_SECONDS: Final = 7_200

THESIS_LEFT: Final = {
    "no sync: trust": (52, 502_560, 505_235, 539_849, 441_979, 18_001),
    "sync: thesis": (52, 78, 75, 72, 74, 73),
}
"""Table 5.10, by `OFFSETS_NS`, of 166 424 descents injected; its recording, our recipe."""

# -- offsets ---------------------------------------------------------------------------------------

Offsets = dict[tuple[str, int], Truth]
"""By method and offset."""


def measure_offsets(single: Sequence[Row], step_ns: int, offsets_ns: Sequence[int]) -> Offsets:
    span = span_of(single, 2)
    found: Offsets = {}
    for method in METHODS:
        for offset_ns in offsets_ns:
            dials = {"0": Dial(step_ns=step_ns), "1": Dial(offset_ns, step_ns=step_ns)}
            found[method.name, offset_ns] = run(sources_of(single, 2), span, dials, method)
    return found


def offsets_in_ms(found: Offsets, title: str) -> Table:
    columns = (
        "clock",
        "off by",
        "left",
        "left, thesis",
        "behind",
        "worst ms",
        "beyond",
        "late",
        "mean ms",
        "p99 ms",
    )
    table = Table(title, columns)
    for (method, offset_ns), truth in found.items():
        known = THESIS_LEFT.get(method)
        table.add(
            method,
            spelled(offset_ns),
            count(truth.left),
            count(known[OFFSETS_NS.index(offset_ns)]) if known else "",
            count(truth.behind),
            ms(truth.worst_ns),
            count(truth.beyond),
            count(truth.late),
            ms(truth.hold_ns),
            ms(truth.hold_quantile_ns(0.99)),
        )
    return table


PRECISE: Final = (
    "left",
    "by 1 ms",
    "behind",
    "worst ms",
    "beyond",
    "broken",
    "off us",
    "bound us",
    "late",
    "mean ms",
    "p99 ms",
)


def precisely(truth: Truth) -> list[str]:
    """The cells of `PRECISE`."""
    return [
        count(truth.left),
        count(truth.left_by_ms),
        count(truth.behind),
        ms(truth.worst_ns),
        count(truth.beyond),
        count(truth.broken),
        microseconds(truth.off_ns),
        microseconds(truth.bound_ns),
        count(truth.late),
        ms(truth.hold_ns),
        ms(truth.hold_quantile_ns(0.99)),
    ]


def offsets_in_ns(found: Offsets, title: str) -> Table:
    table = Table(title, ("clock", "off by", *PRECISE))
    for (method, offset_ns), truth in found.items():
        table.add(method, spelled(offset_ns), *precisely(truth))
    return table


def goal(found: Offsets, method: str) -> str:
    """What drift does where there is sync: nothing, but that a model rounds its answers to
    a nanosecond or two, each drift at other places, which turns a few of the pairs that
    are no further apart."""
    ahead = [truth for (name, offset_ns), truth in found.items() if name == method and offset_ns]
    lefts, behinds = [truth.left for truth in ahead], [truth.behind for truth in ahead]
    at_zero = found[method, 0]
    return (
        f"{method}: with a drift {count(min(lefts))} to {count(max(lefts))} left,"
        f" {count(min(behinds))} to {count(max(behinds))} behind;"
        f" at drift 0 {count(at_zero.left)} and {count(at_zero.behind)}"
    )


def show_offsets(page: Page, divisor: int) -> None:
    recipe = D3 if divisor == 1 else D3.shortened(divisor)
    single = soccer(recipe).rows
    what = f"two sources, {count(2 * recipe.n)} events, {count(2 * recipe.descents)} descents"
    for unit, step_ns in (("whole ms", MS), ("ns", 1)):
        found = measure_offsets(single, step_ns, OFFSETS_NS)
        title = f"table 5.10, stamps in {unit}: {what}"
        page.table(offsets_in_ns(found, title) if step_ns == 1 else offsets_in_ms(found, title))
        page.say("\n".join(goal(found, method.name) for method in SYNCED) + "\n")


# -- sources ---------------------------------------------------------------------------------------


def show_sources(page: Page, divisor: int, numbers: Sequence[int] = SOURCES) -> None:
    recipe = D3 if divisor == 1 else D3.shortened(divisor)
    single = soccer(recipe).rows
    columns = (
        "sources, clocks",
        "accuracy %",
        *PRECISE,
        "thesis: accuracy %",
        "thesis: ms",
    )
    each = f"{count(recipe.n)} events and {count(recipe.descents)} descents"
    table = Table(f"tables 5.8, 5.9, stamps in ns: each source {each}", columns)
    for sources in numbers:
        accuracy, latency_ms = THESIS_SOURCES[sources][0]
        span = span_of(single, sources)
        names = [str(source) for source in range(sources)]
        right = dict.fromkeys(names, Dial())
        wrong = unlike_dials(names, span.first_ns - HEAD_START_NS)
        for clocks, dials, method in (
            ("right", right, TRUST),
            ("off, synced", wrong, POLYGON),
            ("off, as client", wrong, AS_CLIENT_DOES),
        ):
            truth = run(sources_of(single, sources), span, dials, method)
            table.add(
                f"{sources}, {clocks}",
                f"{100 - 100 * truth.left_by_ms / (sources * recipe.descents):.2f}",
                *precisely(truth),
                f"{accuracy:.2f}",
                f"{latency_ms:.0f}",
            )
    table.note = "accuracy: descents of 1 ms or more against those injected"
    page.table(table)


# -- skew ------------------------------------------------------------------------------------------


def show_skew(page: Page, seconds: int, skews_ppm: Sequence[int] = SKEWS_PPM) -> None:
    rows = steady(SKEWED, SKEWED_HZ, seconds).rows
    span = span_of(rows)
    settled_ns = span.first_ns + SETTLED_NS
    length = f"{SKEWED} sources at {SKEWED_HZ} Hz for {seconds / 3600:.2g} h"
    title = f"skew, stamps in ns: {length}, {count(len(rows))} events"
    table = Table(title, ("clock", "ppm", "left after 1 min", *PRECISE))
    for method in METHODS:
        for ppm in skews_ppm:
            truth = run(rows, span, skewed(ppm, span.first_ns), method, settled_ns)
            table.add(method.name, str(ppm), count(truth.left_settled), *precisely(truth))
    page.table(table)


def skewed(ppm: int, start_ns: int) -> dict[str, Dial]:
    """By turns fast and slow."""
    return {
        f"s{source}": Dial(0, ppm * 1_000 * (-1) ** source, start_ns) for source in range(SKEWED)
    }


def spelled(offset_ns: int) -> str:
    for unit, ns in (("h", 3_600 * S), ("min", 60 * S)):
        if offset_ns and offset_ns % ns == 0:
            return f"{offset_ns // ns} {unit}"
    return f"{offset_ns // MS} ms" if offset_ns else "0"


def microseconds(ns: float) -> str:
    us = ns / 1e3
    return count(us) if us >= 100 else f"{us:.1f}"


@click.command("thesis")
@click.option("--full", is_flag=True, help="D3 at its length, two hours of skew.")
@click.option("--table", "tables", multiple=True, type=click.Choice(TABLES))
@click.option("--divisor", type=click.IntRange(1), help="D3 so many times shorter.")
@click.option("--seconds", type=click.IntRange(1), help="So much of the skew.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False))
def command(
    full: bool,
    tables: tuple[str, ...],
    divisor: int | None,
    seconds: int | None,
    markdown: Path | None,
    plots: Path | None,
) -> None:
    """What waiting costs beside K-Slack, and what is left where clocks are wrong."""
    page = Page(markdown)
    wanted = tables or TABLES
    if "rivals" in wanted:
        show_rivals(page, divisor or (1 if full else RIVALS_DIVISOR), plots)
        show_rivals_of_sources(
            page, divisor or (1 if full else RIVALS_DIVISOR), SOURCES if full else SOURCES[:3]
        )
    if "aggregates" in wanted:
        show_aggregates(
            page, divisor or (1 if full else RIVALS_DIVISOR), AGGREGATES_SEEDS if full else 1
        )
    if "offsets" in wanted:
        show_offsets(page, divisor or (1 if full else OFFSETS_DIVISOR))
    if "sources" in wanted:
        show_sources(page, divisor or (1 if full else SOURCES_DIVISOR))
    if "skew" in wanted:
        show_skew(page, seconds or (FULL_SECONDS if full else QUICK_SECONDS))
