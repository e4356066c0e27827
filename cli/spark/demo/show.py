"""`inorder spark demo`: the demo's topics analysed by Spark, live and then as a whole.

A real Kafka, the demo's producers with their delays, holes, copies and wrong clocks, the
sync server, the real worker; beside them three streaming jobs. When all has come out, Spark
reads the topics as a whole, and what it counted is held against what was injected. Exit 0 if
all of it agrees. Takes about two minutes; the plots stay in the folder that is told.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console, RenderableType
from rich.live import Live as LiveTable

import cli.local.kafka
import cli.spark.jars
from cli.demo.clocks import WrongClock, syncing, told, wrong_clocks
from cli.demo.patience import Patience
from cli.demo.recording import played, recorded
from cli.demo.show import LEAD_NS, LOOK_S, Publisher
from cli.demo.stage import DemoFailed, Ground
from cli.demo.trouble import Injected, with_trouble
from cli.demo.watching import Watcher
from cli.local.maven import JarsUnavailable
from cli.local.process import NotReady
from cli.spark.demo import tables
from cli.spark.demo.ground import ground, topology
from cli.topology_file import Refused
from inorder.failure import ProducerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cli.spark.demo.live import Live

OUT: Final = "build/spark-demo"
TELL_EVERY_S: Final = 5.0
WIDTH_CHARS: Final = 120
"""The width of a page nobody looks at."""

SETTINGS: Final = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # The demo lives for two minutes: the first compiler will do.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@click.command("demo")
@click.option("--speed", type=click.FloatRange(0.1, 200), default=4.0, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the trouble.")
@click.option("--out", default=OUT, show_default=True, metavar="DIR", help="For the plots.")
def command(speed: float, seed: int, out: str) -> None:
    """Analyse the demo's topics live with Spark (two minutes; needs Java 17)."""
    absent = cli.spark.jars.missing() or cli.local.kafka.missing() or _no_plots()
    if absent is not None:
        raise Refused(absent)
    from spark_analytics.running import JobFailed

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_CHARS)
    try:
        agrees = _run(console, speed, seed, Path(out))
    except (DemoFailed, JobFailed, ProducerError, NotReady, JarsUnavailable) as failed:
        raise click.ClickException(str(failed)) from failed
    sys.exit(0 if agrees else 1)


def _no_plots() -> str | None:
    if find_spec("matplotlib") is None:
        return (
            "matplotlib not found; run make spark-setup, or pip install -r requirements-spark.lock"
        )
    return None


def _run(console: Console, speed: float, seed: int, out: Path) -> bool:
    from cli.spark.demo.analysis import analyse
    from cli.spark.demo.plots import draw

    with tempfile.TemporaryDirectory(prefix="inorder-spark-demo-") as name:
        folder = Path(name)
        console.print("starting Spark, a Kafka and the worker …")
        with _session(folder) as spark, ground(folder) as here:
            course = _play(console, spark, here, folder, speed, seed)
            console.print("all is out; Spark reads the topics as a whole …")
            found = analyse(spark, here.brokers, topology())
            windows = _windows(spark, here, course.live)
    for table in (
        tables.disorder(found),
        tables.clocks(found, course.clocks),
        tables.latency(found),
    ):
        console.print(table)
    outcome = course.watcher.outcome
    account = tables.Account.of(course.injected, outcome, course.clocks, found, windows)
    console.print(account.shown())
    console.print(f"clocks: {told(course.clocks)}")
    for path in draw(found, course.clocks, out):
        console.print(f"plotted {path}")
    console.print("all of it agrees" if account.agrees else "! IT DOES NOT AGREE: see the account")
    return account.agrees


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    from spark_analytics.session import new_session

    own = {
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    spark = new_session("inorder demo", cli.spark.jars.jars(), {**SETTINGS, **own})
    try:
        yield spark
    finally:
        spark.stop()


# -- while it runs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """What was played, and what came of it."""

    clocks: Mapping[str, WrongClock]
    injected: Injected
    watcher: Watcher
    live: Live


def _play(
    console: Console, spark: SparkSession, here: Ground, folder: Path, speed: float, seed: int
) -> Course:
    """Publish, and tell what the streaming jobs say, until all has come out."""
    from cli.spark.demo.live import Live

    live = Live(spark, here.brokers, topology(), folder / "checkpoints")
    clocks = wrong_clocks(time.time_ns())
    watcher = Watcher(here.brokers, clocks)
    try:
        with syncing(here.brokers, clocks, console.print):
            events = played(recorded(), time.time_ns() + LEAD_NS, speed)
            postings, injected = with_trouble(events, seed)
            publisher = Publisher(here.brokers, postings, clocks)
            course = Course(clocks, injected, watcher, live)
            publisher.start()
            _watch(console, publisher, course)
            publisher.join()
    finally:
        watcher.close()
        live.stop()
    if publisher.failure is not None:
        raise publisher.failure
    return course


def _watch(console: Console, publisher: Publisher, course: Course) -> None:
    """Until all is out and Spark has closed a window, and as long as anything still goes on."""
    from cli.spark.demo.live import RATES

    patience: Patience | None = None
    total = course.injected.total
    outcome = course.watcher.outcome
    screen = LiveTable(console=console, refresh_per_second=2) if console.is_terminal else None
    told_s = time.monotonic()
    if screen is not None:
        screen.start()
    try:
        while not course.live.has_failed:
            course.watcher.look(LOOK_S)
            now_s = time.monotonic()
            if now_s - told_s >= (1.0 if screen is not None else TELL_EVERY_S):
                told_s = now_s
                (screen.update if screen is not None else console.print)(_so_far(course))
            if publisher.done.is_set():
                patience = patience or Patience(console.print)
                rows = course.live.kept.rows(RATES)
                is_out = outcome.out >= total.sent - total.lost
                is_in = outcome.raw >= course.injected.postings
                if is_out and is_in and rows:
                    break
                if not patience.lasts((outcome.raw, outcome.out), "events and Spark's windows"):
                    break
            if publisher.failure is not None:
                break
        while course.watcher.look(1.0):
            pass
    finally:
        if screen is not None:
            screen.stop()


def _so_far(course: Course) -> RenderableType:
    from cli.spark.demo.live import so_far
    from spark_analytics.exposed import in_a_line

    outcome = course.watcher.outcome
    spark = in_a_line(course.live.figures)
    counts = f"in {outcome.raw:,} records, out {outcome.out:,} events; Spark: {spark}"
    sources = so_far(course.live.kept)
    if not sources:
        return f"{counts}; Spark has closed no window yet"
    return tables.closed(f"{counts}; in the windows that Spark has closed:", sources)


def _windows(spark: SparkSession, here: Ground, live: Live) -> tuple[int, int]:
    """How many windows of source and time the stream closed, and how many of these a run
    over the whole topic has alike."""
    from cli.spark.demo.live import RATES, tables_of
    from spark_analytics.topics import KafkaTopics

    topics = KafkaTopics(spark, here.brokers, streaming=False)
    (table,) = (t for t in tables_of(topics, topology()) if t.name == RATES)
    streamed = {tuple(row) for row in live.kept.rows(RATES)}
    return len(streamed), len(streamed & {tuple(row) for row in table.rows.collect()})
