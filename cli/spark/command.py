"""`inorder spark` runs jobs of `spark_analytics` on the topics of a topology.

Spark is an extra (`make spark-setup`) and needs Java 17.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from cli.as_json import json_option
from cli.command_group import CommandGroup
from cli.files.summary import print_summary
from cli.kafka_options import security
from cli.spark.around import open_session, report_plain_errors, require_spark
from cli.spark.live import command as live
from cli.spark.options import (
    KEYS,
    WINDOW,
    catalog_option,
    format_option,
    out_option,
    require_iceberg,
    schema_option,
    session_options,
    settings_of,
    stream_options,
)
from cli.spark.views import command as views
from cli.topology_file import Refused, load, topology_option, warn

if TYPE_CHECKING:
    from cli.spark.job import Asked

JOBS: Final = ("events", "rates", "disorder", "clocks", "truth", "archive")
HOLES: Final = ("refuse", "pass")
BAR: Final = "spark.ui.showConsoleProgress"
BROUGHT: Final = (
    "the last run was killed while its rows were being written, and is now complete; it had flushed"
    " everything, so nothing more was read. Its summary is _backfill.json"
)


@click.group("spark", cls=CommandGroup)
def command() -> None:
    """Run Spark on the ordered topic, the raw one and the results."""


@command.command("run")
@click.argument("job", type=click.Choice(JOBS))
@stream_options("RUN", every="10s", max_per_batch=500_000)
@click.option("--batch", is_flag=True, help="Read the existing records once, and end.")
@click.option(
    "--archive", metavar="DIR", help="With --batch: read the folder that the job archive wrote."
)
@click.option("--window", default=WINDOW, help="Window, as in topology files.")
@click.option(
    "--key",
    multiple=True,
    default=KEYS,
    help="Column to group by.",
)
@click.option(
    "--sum",
    multiple=True,
    metavar="COLUMN",
    help="Column to add up, such as payload.v.",
)
@click.option(
    "--quantile",
    multiple=True,
    metavar="COLUMN",
    help="Column to compute quantiles of.",
)
@click.option("--table", multiple=True, metavar="NAME", help="Write this table of the job only.")
@schema_option
@session_options
def run(job: str, topology_path: str, brokers: str, kafka_path: str | None, **rest: Any) -> None:
    """Run JOB until SIGTERM, or with --batch or --until-caught-up to the end of the topics."""
    topology = load(topology_path)
    access = security(kafka_path)
    require_spark()
    from cli.spark.job import Asked

    asked = Asked(job=job, topology=topology, brokers=brokers, security=access, **rest)
    with report_plain_errors(job):
        _run(asked)


command.add_command(live)
command.add_command(views)


@command.command("backfill")
@topology_option
@click.option(
    "--in",
    "inputs",
    envvar="INORDER_SPARK_BACKFILL_IN",
    multiple=True,
    required=True,
    metavar="PATH",
    help="Recorded events as for inorder replay, or a folder of the job archive (repeatable).",
)
@out_option
@format_option("BACKFILL")
@click.option(
    "--holes",
    type=click.Choice(HOLES),
    default="refuse",
    callback=lambda _, __, said: said == "pass",
    help="Whether offsets may be missing within an archive or a topic.",
)
@click.option(
    "--to-end/--no-to-end",
    default=True,
    help="Flush everything at the end of the input (default); otherwise --resume continues.",
)
@click.option("--resume", is_flag=True, help="Continue an earlier run, and add what is new to DIR.")
@catalog_option
@schema_option
@session_options
@json_option("SPARK_BACKFILL")
def backfill(
    topology_path: str,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
    **more: Any,
) -> None:
    """Run a topology over recorded history, distributed; write tables."""
    topology = load(topology_path)
    require_spark()
    from spark_analytics.archive import formats_of
    from spark_analytics.backfill.place import Place
    from spark_analytics.backfill.resuming import Resumed
    from spark_analytics.backfill.run import Options, run
    from spark_analytics.executors.setting import setting_of
    from spark_analytics.tables.catalog import FORMATS as LAKES

    options = Options(**more)
    require_iceberg(options.catalog, options.form)
    if options.schema is not None and options.form == "parquet":
        raise Refused("--schema: payloads in Parquet are text; add --format iceberg, or delta")
    settings = {BAR: str(sys.stderr.isatty()).lower(), **settings_of(master, conf)}
    with report_plain_errors("backfill"):
        lakes = [kind for kind in LAKES if kind in (options.form, *formats_of(options.inputs))]
        resumed = Resumed(options.out) if options.resume else None
        place = Place(options.out, adds=options.resume)
        try:
            with open_session("backfill", (), settings, lakes, options.catalog) as spark:
                setting = setting_of(topology_path, topology)
                summary = run(spark, setting, topology, options, place, resumed, warn)
        finally:
            place.discard()
    if summary is None:
        click.echo(BROUGHT, err=True)
        if as_json and resumed is not None:
            click.echo(json.dumps(resumed.account), err=True)
        return
    print_summary(summary, as_json=as_json)


def _run(asked: Asked) -> None:
    from cli.spark.job import (
        ids_of,
        make_output,
        make_tables,
        make_topic_check,
        open_job_session,
        run_queries,
        topics_of,
    )
    from spark_analytics.jobs.running import run_bounded

    brokers = None if asked.archive else asked.connect_brokers()
    with open_job_session(asked) as spark:
        topics = topics_of(asked, spark)
        found = make_tables(asked, topics)
        there = make_output(asked, found, spark)
        ids = ids_of(asked, brokers, sorted(topics.asked)) if brokers else {}
        if asked.batch:
            run_bounded(found, there, asked.folder)
            return
        watched = make_topic_check(asked, brokers, ids) if brokers else None
        run_queries(asked, spark, found, there, asked.about(ids), watched)
