"""Provides the parts that Spark commands share: a session, errors as one line, and signals."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from agents.kafka.brokers import BrokersUnavailable
from cli.local.maven import JarsUnavailable
from cli.recordings import readable
from cli.spark import jars
from cli.topology_file import Refused, failing, refusing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analytics.tables.catalog import Format


def require_spark() -> None:
    absent = jars.missing()
    if absent is not None:
        raise Refused(absent)


@contextmanager
def report_plain_errors(job: str) -> Iterator[None]:
    """Turn an error of the body into one line, with the exit code of its kind."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    from agents.master_keys import KeysRefused
    from agents.stage.arrangement import ArrangementError
    from spark_analytics.backfill.place import PlaceRefused
    from spark_analytics.jobs.errors import find_raised, first_line
    from spark_analytics.jobs.running import CheckpointRefused, JobFailed
    from spark_analytics.jobs.work import JobRefused
    from spark_analytics.payload import SchemaRefused
    from spark_analytics.tables.catalog import TablesRefused
    from topology.records.marked import StateUnreadable

    def kind_of(error: BaseException) -> type[click.ClickException]:
        """Return the exception class that decides the exit code for an error.

        The error may come from a task, which reads states and keys.
        """
        found = find_raised(error)
        names = {f"{each.__module__}.{each.__name__}" for each in in_tasks}
        return Refused if found is not None and found.kind in names else click.ClickException

    in_tasks = (ArrangementError, KeysRefused, StateUnreadable)
    refused = (JobRefused, SchemaRefused, CheckpointRefused, TablesRefused, PlaceRefused)
    at_the_start = (*in_tasks, JarsUnavailable, FileNotFoundError)
    try:
        with readable(), refusing(*refused, *at_the_start), failing(BrokersUnavailable):
            yield
    except JobFailed as error:
        raise kind_of(error.__cause__ or error)(str(error)) from None
    except (PySparkException, Py4JJavaError) as error:
        raise kind_of(error)(f"{job}: {first_line(error)}") from None
    except (Py4JError, ConnectionError):
        raise click.ClickException(f"{job}: the Java process of Spark has ended") from None


@contextmanager
def open_session(
    name: str,
    needed: Sequence[str],
    settings: Mapping[str, str],
    lakes: Collection[Format],
    catalog: str | None,
) -> Iterator[SparkSession]:
    """Yield a session for tables in the formats `lakes`, and in a catalog if one is given.

    The session ends with the body, unless this process had one before.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    from spark_analytics.session import new_session
    from spark_analytics.tables.catalog import settings as lake_settings

    needed = [*needed, *(jar for kind in lakes for jar in jars.fetch_lake_jars(kind))]
    needed += jars.catalog_jars(catalog)
    if lakes:
        settings = {**lake_settings(*lakes), **settings}
    was_there = SparkSession.getActiveSession() is not None
    spark = new_session(f"inorder {name}", needed, settings)
    try:
        yield spark
    finally:
        if not was_there:
            with suppress(Py4JError, ConnectionError):
                spark.stop()


@contextmanager
def handle_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT during the body."""
    before = {
        number: signal.signal(number, lambda *_: stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
