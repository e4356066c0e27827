"""`inorder spark`: jobs of `spark_analytics` on the topics of a topology.

Spark is an extra (`make spark-setup`) and needs Java 17.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from cli.as_json import json_option
from cli.files.summary import print_summary, warn
from cli.kafka_options import security
from cli.spark import jars
from cli.spark.around import open_session, plain_errors, require_spark
from cli.spark.live import command as live
from cli.spark.options import (
    KEYS,
    WINDOW,
    catalog_option,
    length_of,
    output_options,
    session_options,
    settings_of,
)
from cli.spark.views import command as views
from cli.topology_file import Refused, brokers_option, kafka_option, load, topology_option

if TYPE_CHECKING:
    from cli.spark.job import Asked
    from spark_analytics.tables.catalog import Format

JOBS: Final = ("events", "rates", "disorder", "clocks", "truth", "archive")
FORMATS: Final = ("parquet", "iceberg", "delta")
HOLES: Final = ("refuse", "pass")
LINES: Final = ("keep", "drop")
LATE: Final = ("apart", "include")
BROUGHT: Final = (
    "the last run had been killed while its rows came in, and is now at its end; it flushed all, so"
    " nothing more was read. Its account is _backfill.json"
)


@click.group("spark")
def command() -> None:
    """Run Spark on the ordered topic, the raw one and the results."""


@command.command("run")
@click.argument("job", type=click.Choice(JOBS))
@topology_option
@brokers_option
@kafka_option
@click.option("--out", required=True, metavar="DIR", help="For tables and checkpoints.")
@click.option("--batch", is_flag=True, help="Once over what there is, instead of going on.")
@click.option("--archive", metavar="DIR", help="With --batch: read what the job archive wrote.")
@click.option("--checkpoint", metavar="DIR", help="Default: checkpoints/JOB below --out.")
@click.option("--until-caught-up", is_flag=True, help="Go on from the checkpoint, then end.")
@click.option("--every", default="10s", show_default=True, help="Time between batches.")
@click.option(
    "--max-per-batch",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="Records that a batch takes of a topic.",
)
@click.option("--window", default=WINDOW, show_default=True, help="As in topology files.")
@click.option(
    "--key",
    multiple=True,
    default=KEYS,
    show_default=True,
)
@click.option(
    "--sum",
    multiple=True,
    metavar="COLUMN",
    help="Like payload.v",
)
@click.option(
    "--quantile",
    multiple=True,
    metavar="COLUMN",
)
@click.option("--table", multiple=True, metavar="NAME", help="Only this one of the job's.")
@click.option("--schema", metavar="DDL", help="Types of JSON values: 'player INT, v DOUBLE'.")
@click.option(
    "--late",
    type=click.Choice(LATE),
    default="apart",
    show_default=True,
    help="With --batch, include: windows count marked events where their time says.",
)
@output_options
@click.option("--http", metavar="HOST:PORT", help="Where Prometheus finds /metrics of the queries.")
@click.option("--jar", multiple=True, metavar="PATH", help="For Spark, like a JDBC driver's.")
@session_options
def run(job: str, topology_path: str, brokers: str, kafka_path: str | None, **rest: Any) -> None:
    """Run JOB until SIGTERM; with --batch or --until-caught-up to the end of the topics."""
    topology = load(topology_path)
    access = security(kafka_path)
    require_spark()
    from cli.spark.job import Asked

    asked = Asked(job=job, topology=topology, brokers=brokers, security=access, **rest)
    with plain_errors(job):
        _run(asked)


command.add_command(live)
command.add_command(views)


@command.command("compact")
@click.option("--archive", required=True, metavar="DIR", help="What the job archive has written.")
@session_options
@json_option("SPARK_COMPACT")
def compact(archive: str, master: str | None, conf: tuple[str, ...], as_json: bool) -> None:
    """Make one file of the many of each finished hour of an archive."""
    require_spark()
    from spark_analytics import archive as archives

    with (
        plain_errors("compact"),
        open_session("compact", (), settings_of(master, conf)) as spark,
    ):
        hours = archives.compact(spark, archive.rstrip("/"))
    if as_json:
        click.echo(json.dumps({"hours": hours}))
        return
    click.echo(f"{hours} hours rewritten", err=True)


@command.command("backfill")
@topology_option
@click.option(
    "--in",
    "inputs",
    envvar="INORDER_SPARK_BACKFILL_IN",
    multiple=True,
    required=True,
    metavar="PATH",
    help="Recorded events as for inorder replay, or a folder of the job archive; may be repeated.",
)
@click.option("--out", required=True, metavar="DIR", help="A new folder, for a table per kind.")
@click.option(
    "--format",
    "form",
    envvar="INORDER_SPARK_BACKFILL_FORMAT",
    type=click.Choice(FORMATS),
    default="parquet",
    show_default=True,
)
@click.option(
    "--tasks",
    type=click.IntRange(min=1),
    help="That order, side by side. Default: one for each group of streams, on one machine four"
    " for each core at most.",
)
@click.option(
    "--holes",
    type=click.Choice(HOLES),
    default="refuse",
    show_default=True,
    callback=lambda _, __, said: said == "pass",
    help="Offsets that are missing within an archive, or an input topic.",
)
@click.option(
    "--lines",
    envvar="INORDER_SPARK_BACKFILL_LINES",
    type=click.Choice(LINES),
    default="keep",
    show_default=True,
    callback=lambda _, __, chosen: chosen == "keep",
    help="The column `line`, the JSON of each row; all that it has is in the other columns.",
)
@click.option(
    "--to-end/--no-to-end",
    default=True,
    help="Flush at the end of input (default); else what is open waits for --resume.",
)
@click.option(
    "--rest",
    envvar="INORDER_SPARK_BACKFILL_REST",
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="With --no-to-end: a partition of an archive that is silent for so long holds no other.",
)
@click.option("--resume", is_flag=True, help="Add to DIR what is new, from where it stood.")
@catalog_option
@click.option(
    "--schema",
    metavar="DDL",
    help="For tables of Iceberg and Delta: types of JSON payloads, 'player INT, v DOUBLE'.",
)
@session_options
@json_option("SPARK_BACKFILL", "The summary as one line of JSON.")
def backfill(
    topology_path: str,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
    rest: str,
    **more: Any,
) -> None:
    """Put recorded history in order, distributed: what inorder replay says, as tables."""
    topology = load(topology_path)
    require_spark()
    from spark_analytics.archive import formats_of
    from spark_analytics.backfill.place import Place
    from spark_analytics.backfill.resuming import Resumed
    from spark_analytics.backfill.run import Wanted, run
    from spark_analytics.executors.setting import setting_of
    from spark_analytics.tables.catalog import FORMATS as LAKES
    from spark_analytics.tables.catalog import settings as lake_settings

    wanted = Wanted(**more, rest_ns=length_of(rest, "--rest"))
    if wanted.catalog is not None and wanted.form != "iceberg":
        raise Refused("--catalog is Iceberg's; add --format iceberg, or leave it out")
    if wanted.schema is not None and wanted.form == "parquet":
        raise Refused("--schema: payloads in Parquet are text; add --format iceberg, or delta")
    settings = settings_of(master, conf)
    needed: Sequence[str] = ()
    with plain_errors("backfill"):
        formats = [kind for kind in LAKES if kind in (wanted.form, *formats_of(wanted.inputs))]
        if formats:
            settings = {**lake_settings(*formats), **settings}
            lakes = [jar for kind in formats for jar in jars.lake_jars(kind)]
            needed = lakes + jars.catalog_jars(wanted.catalog)
        resumed = Resumed(wanted.out) if wanted.resume else None
        place = Place(wanted.out, adds=wanted.resume)
        try:
            with open_session("backfill", needed, settings) as spark:
                setting = setting_of(topology_path, topology)
                summary = run(spark, setting, topology, wanted, place, resumed, warn)
        finally:
            place.give_up()
    if summary is None:
        click.echo(BROUGHT, err=True)
        if as_json and resumed is not None:
            click.echo(json.dumps(resumed.account), err=True)
        return
    print_summary(summary, as_json=as_json)


@command.command("maintain")
@click.option("--out", required=True, metavar="DIR", help="What jobs have written to.")
@click.option(
    "--to",
    "kind",
    envvar="INORDER_SPARK_MAINTAIN_TO",
    type=click.Choice(jars.FORMATS),
    default="iceberg",
    show_default=True,
)
@catalog_option
@click.option("--keep", default="7d", show_default=True, help="How far back tables can be read.")
@click.option(
    "--orphans",
    default="3d",
    show_default=True,
    help="Files that no table names go when they are older; longer than any write takes.",
)
@session_options
@json_option("SPARK_MAINTAIN")
def maintain_command(
    out: str,
    kind: Format,
    catalog: str | None,
    keep: str,
    orphans: str,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compact the tables below --out, let go of old states, remove what killed jobs have left."""
    require_spark()
    from spark_analytics.tables.catalog import catalog_of
    from spark_analytics.tables.catalog import settings as lake_settings
    from spark_analytics.tables.maintain import maintain, require_long

    now = datetime.now(UTC)
    keep_since, orphans_since = now - _ago(keep, "--keep"), now - _ago(orphans, "--orphans")
    settings = {**lake_settings(kind), **settings_of(master, conf)}
    with plain_errors("maintain"):
        if kind == "delta":
            require_long(keep_since, settings)
        needed = [*jars.jars(), *jars.lake_jars(kind), *jars.catalog_jars(catalog)]
        where = catalog_of(catalog)
        with open_session("maintain", needed, settings) as spark:
            done = maintain(spark, kind, out.rstrip("/"), where, keep_since, orphans_since)
    if as_json:
        click.echo(json.dumps({"tables": done}))
        return
    for name, each in done.items():
        parts = ", ".join(f"{count:,} {what}" for what, count in each.items() if count)
        click.echo(f"{name}: {parts or 'nothing to do'}", err=True)


def _ago(text: str, option: str) -> timedelta:
    return timedelta(microseconds=length_of(text, option) // 1_000)


def _run(asked: Asked) -> None:
    from cli.spark.job import go_on, guard, ids_of, output, session, tables, topics_of
    from spark_analytics.jobs.running import run_bounded

    brokers = None if asked.archive else asked.brokers_now()
    with session(asked) as spark:
        topics = topics_of(asked, spark)
        found = tables(asked, topics)
        there = output(asked, found, spark)
        ids = ids_of(asked, brokers, sorted(topics.asked)) if brokers else {}
        if asked.batch:
            run_bounded(found, there, asked.folder)
            return
        watched = guard(asked, brokers, ids) if brokers else None
        go_on(asked, spark, found, there, asked.about(ids), watched)
