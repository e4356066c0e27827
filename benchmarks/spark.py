"""Spark on the raw and on the ordered topic: what is lost, and how fast the jobs are.

Needs pyspark and Java (`make spark-setup`), and a broker from Maven jars; without them it
says so and measures nothing. Figures are wall times on local[2]; the broker and the noise of
the machine share the two cores, so read the ratios within a table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

import cli.spark.jars
from benchmarks.tables import Page
from infra.kafka import missing, new_broker

QUICK_SECONDS: Final = 5
FULL_SECONDS: Final = 20
RATE: Final = 10_000
"""Events of the crowd in a second, of which a batch has as many."""

SLOWER: Final = 10
AHEAD: Final = {"s03": 5_000_000_000}
CLOCK_DELAY_MS: Final = 6_000
"""A second more than the clock is ahead."""

PARTS: Final = ("crowd", "slow", "clock", "throughput", "live", "history")


@click.command("spark")
@click.option("--full", is_flag=True, help=f"{FULL_SECONDS} s of each stream.")
@click.option("--seconds", type=click.IntRange(3, 100), help="So many of each stream.")
@click.option("--only", multiple=True, type=click.Choice(PARTS))
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
def command(full: bool, seconds: int | None, only: tuple[str, ...], markdown: Path | None) -> None:
    """Watermarks on the raw and the ordered topic; rows per second of each job."""
    page = Page(markdown)
    absent = cli.spark.jars.missing() or missing()
    if absent:
        page.say(f"left out: {absent}")
        return
    length_s = seconds or (FULL_SECONDS if full else QUICK_SECONDS)
    parts = only or PARTS
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if {*parts} - {"history"}:
            with new_broker(folder / "kafka") as broker:
                _measure(page, folder, broker.bootstrap, length_s, parts)
        if "history" in parts:
            from benchmarks.spark_jobs import history

            page.table(history.measure(folder, length_s * RATE, page.say))
            page.table(history.measure_slope(folder, length_s * RATE, page.say))
            page.table(history.measure_bytes(folder, length_s * RATE))


def _measure(page: Page, folder: Path, bootstrap: str, length_s: int, parts: Sequence[str]) -> None:
    from benchmarks.spark_jobs import live, throughput
    from benchmarks.spark_jobs.course import Recipe, prepare, session
    from benchmarks.spark_jobs.watermarks import measure

    events = length_s * RATE
    crowd = Recipe("crowd", events)
    slow = Recipe("crowd, ten times slower", events // SLOWER, SLOWER, "5s")
    clock = Recipe("crowd, one clock of 20 is 5 s ahead", events, ahead_ns=AHEAD)
    with session(folder) as spark:
        if {"crowd", "throughput", "live"} & set(parts):
            course = prepare(folder, bootstrap, crowd)
        if "crowd" in parts:
            page.table(measure(spark, course, RATE, (0, 500), 500))
        if "slow" in parts:
            stretched = prepare(folder, bootstrap, slow)
            page.table(measure(spark, stretched, RATE // SLOWER, (0, 500, 2_000, 5_000), 5_000))
        if "clock" in parts:
            wrong = prepare(folder, bootstrap, clock)
            page.table(measure(spark, wrong, RATE, (500,), CLOCK_DELAY_MS))
        if "live" in parts:
            for table in live.measure(spark, course, page.say):
                page.table(table)
        if "throughput" in parts:
            for table in throughput.measure(spark, course, page.say):
                page.table(table)
