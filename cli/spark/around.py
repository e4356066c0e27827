"""What every command of Spark has around its work: a session, errors as one line, signals."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from agents.kafka.brokers import BrokersUnavailable
from cli.local.maven import JarsUnavailable
from cli.spark import jars
from cli.topology_file import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cli.spark.job import Asked
    from spark_analytics.outputs import Lasting
    from spark_analytics.work import Table


def require_spark() -> None:
    absent = jars.missing()
    if absent is not None:
        raise Refused(absent)


def go_on(
    asked: Asked,
    spark: SparkSession,
    found: Sequence[Table],
    there: Lasting,
    about: dict[str, Any],
    watched: Callable[[], None] | None,
) -> None:
    """Queries on the checkpoint, until they end or a signal comes."""
    from cli.spark.serving import served
    from spark_analytics.running import Running, claim

    written = [part.name for table in found for part in table.written()]
    left = [name for name in written if there.holds(spark, name)]
    claim(spark, asked.checkpoints, about, left)
    running = Running(found, there, asked.folder, asked.checkpoints, asked.interval, watched)
    with signals(running.stop), served(asked.http, lambda: running.watch.figures):
        running.wait()


@contextmanager
def told_plainly(job: str) -> Iterator[None]:
    """Errors as one line, each of its kind."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    from agents.stage.arrangement import ArrangementError
    from agents.stage.master_keys import KeysRefused
    from cli.recording.file import InputError, Unreadable
    from spark_analytics.backfill.marked import StateUnreadable
    from spark_analytics.backfill.place import PlaceRefused
    from spark_analytics.payload import SchemaRefused
    from spark_analytics.running import CheckpointRefused, JobFailed
    from spark_analytics.tables.catalog import TablesRefused
    from spark_analytics.told import first_line, raised
    from spark_analytics.work import JobRefused
    from topology.flow.answers import AnswerChanged

    def kind_of(error: BaseException) -> type[click.ClickException]:
        """States and keys are read where they are needed, so a task may have refused them."""
        found = raised(error)
        is_refused = found is not None and found.kind in refused_in_tasks
        return Refused if is_refused else click.ClickException

    refused_in_tasks = {
        f"{each.__module__}.{each.__name__}"
        for each in (AnswerChanged, ArrangementError, KeysRefused, StateUnreadable)
    }
    try:
        yield
    except (
        JobRefused,
        SchemaRefused,
        CheckpointRefused,
        TablesRefused,
        StateUnreadable,
        PlaceRefused,
        AnswerChanged,
        FileNotFoundError,
    ) as error:
        raise Refused(str(error)) from None
    except InputError as error:
        raise Unreadable(str(error)) from None
    except JarsUnavailable as error:
        raise Refused(str(error)) from None
    except BrokersUnavailable as error:
        raise click.ClickException(str(error)) from None
    except JobFailed as error:
        raise kind_of(error.__cause__ or error)(str(error)) from None
    except (PySparkException, Py4JJavaError) as error:
        raise kind_of(error)(f"{job}: {first_line(error)}") from None
    except (Py4JError, ConnectionError):
        raise click.ClickException(f"{job}: the Java process of Spark has ended") from None


@contextmanager
def open_session(made: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """Ended at the end, unless this process had one before."""
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    was_there = SparkSession.getActiveSession() is not None
    spark = made()
    try:
        yield spark
    finally:
        if not was_there:
            with suppress(Py4JError, ConnectionError):
                spark.stop()


@contextmanager
def signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call `stop`, as long as this lasts."""
    before = {
        number: signal.signal(number, lambda *_: stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
