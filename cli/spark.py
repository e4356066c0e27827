"""`inorder spark`: jobs of `spark_analytics` on the topics of a topology.

Spark is an extra (`make spark-setup`) and needs Java 17.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from agents.brokers import BrokersUnavailable
from cli.kafka_options import kafka_option, security
from cli.topology_file import Refused, brokers_option, load, topology_option
from infra import spark as infra_spark
from infra.maven import JarsUnavailable

if TYPE_CHECKING:
    from cli.spark_job import Asked

JOBS: Final = ("rates", "disorder", "clocks", "results", "truth", "archive")
TO: Final = ("parquet", "console", "kafka")


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
@click.option("--window", default="tumbling 10s", show_default=True, help="As in topology files.")
@click.option(
    "--key",
    multiple=True,
    default=("source",),
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
@click.option("--schema", metavar="DDL", help="Of JSON values: 'player INT, v DOUBLE'.")
@click.option("--results", multiple=True, metavar="TOPIC", help="For the job results.")
@click.option("--to", type=click.Choice(TO), default="parquet", show_default=True)
@click.option("--to-topic", metavar="TOPIC", help="With --to kafka; it ought to be compacted.")
@click.option("--master", metavar="URL", help="Of Spark; without: local, or as spark-submit says.")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark.")
def run(job: str, topology_path: str, brokers: str, kafka_path: str | None, **rest: Any) -> None:
    """Run JOB until SIGTERM; with --batch or --until-caught-up to the end of the topics."""
    topology = load(topology_path)
    access = security(kafka_path)
    absent = infra_spark.missing()
    if absent is not None:
        raise click.ClickException(absent)
    from cli.spark_job import Asked

    asked = Asked(job, topology, brokers, access, **rest)
    try:
        _run(asked)
    except (JarsUnavailable, BrokersUnavailable) as error:
        raise click.ClickException(str(error)) from None


def _run(asked: Asked) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from cli.spark_job import output, session, tables
    from spark_analytics.jobs import JobRefused
    from spark_analytics.payload import SchemaRefused
    from spark_analytics.running import (
        CheckpointRefused,
        JobFailed,
        Running,
        claim,
        first_line,
        run_bounded,
    )

    about = {} if asked.batch else asked.about()
    spark = session(asked)
    try:
        found = tables(asked, spark)
        if asked.batch:
            run_bounded(found, output(asked), asked.folder)
            return
        claim(spark, asked.checkpoints, about)
        running = Running(found, output(asked), asked.folder, asked.checkpoints, asked.interval)

        def stop(_: int, __: FrameType | None) -> None:
            running.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        running.wait()
    except (JobRefused, SchemaRefused, CheckpointRefused) as error:
        raise Refused(str(error)) from None
    except JobFailed as error:
        raise click.ClickException(str(error)) from None
    except PySparkException as error:
        raise click.ClickException(f"{asked.job}: {first_line(error)}") from None
    except (Py4JError, ConnectionError):
        raise click.ClickException(f"{asked.job}: the Java process of Spark has ended") from None
    finally:
        with suppress(Py4JError, ConnectionError):
            spark.stop()
