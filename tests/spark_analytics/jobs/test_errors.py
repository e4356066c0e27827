"""Examples: which part of an error from Spark is reported. No session is needed."""

from __future__ import annotations

import click
import pytest

from cli.spark.around import report_plain_errors
from cli.topology_file import Refused
from spark_analytics.jobs.errors import MAX_CHARS, Raised, find_raised, first_line
from spark_analytics.jobs.running import JobFailed

FRAMES = "".join(
    f'  File "/opt/spark/python/lib/pyspark.zip/pyspark/{name}.py", line {number}, in {name}\n'
    f"    at = {name}(split_index, iterator)\n"
    "         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    for number, name in enumerate(("worker", "process", "dump_stream", "init_stream", "batched"))
)
TRACE = f"Traceback (most recent call last):\n{FRAMES}"
JAVA = (
    "\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:581)\n"
    "\tat org.apache.spark.sql.execution.python.ArrowOutput.read(ArrowOutput.scala:118)\n"
    "\n\nDriver stacktrace:\n"
)
WAIT = (
    "1,000,001 lines wait for raw/1, which is read more slowly than the other partitions; raise"
    " --max-waiting, and the memory"
)
TOO_MANY = f"{TRACE}spark_analytics.live.group.TooManyWait: {WAIT}\n"
UNREADABLE = "the state is of format 0, this version writes 1; run the backfill again"
STATE = "topology.records.marked.StateUnreadable"
IN_WORKER = (
    "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
)
IN_STAGE = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed"
    " 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 3) (host executor driver):"
    " org.apache.spark.api.python.PythonException: "
)


@pytest.mark.parametrize(
    "text",
    [
        f"{IN_WORKER}{TOO_MANY}",
        f"{IN_WORKER}{TOO_MANY}\n\nJVM stacktrace:\norg.apache.spark.SparkException: {TRACE}",
        f"{IN_STAGE}{TOO_MANY}{JAVA}",
    ],
)
def test_python_error_is_unwrapped(text: str) -> None:
    assert len(FRAMES) > MAX_CHARS
    assert first_line(RuntimeError(text)) == WAIT


def test_cause_of_error_is_left_out() -> None:
    later = "During handling of the above exception, another exception occurred:"
    text = f"{IN_STAGE}{TRACE}KeyError: 'raw'\n\n{later}\n\n{TRACE}{STATE}: two\nlines\n{JAVA}"
    assert find_raised(RuntimeError(text)) == Raised(STATE, "two lines")


def test_foreign_error_shows_its_class() -> None:
    assert first_line(RuntimeError(f"{TRACE}KeyError: 'raw'\n")) == "KeyError: 'raw'"
    assert first_line(RuntimeError(f"{TRACE}MemoryError\n")) == "MemoryError"
    assert first_line(RuntimeError(f"{TRACE}cli.other.Silent\n")) == "cli.other.Silent"


def test_java_stack_is_left_out() -> None:
    assert first_line(RuntimeError(f"the disk\n is full\n{JAVA}")) == "the disk is full"
    assert find_raised(RuntimeError("the disk is full")) is None
    assert first_line(RuntimeError(f"gone: {TRACE}")).startswith("gone: Traceback")


class RaisedByJava(Exception):
    """A Java error as py4j raises it."""

    def __init__(self, java: str) -> None:
        super().__init__("An error occurred while calling o1.collect")
        self.java_exception = java


def test_java_error_is_unwrapped() -> None:
    assert first_line(RaisedByJava(f"{IN_STAGE}{TOO_MANY}{JAVA}")) == WAIT


def unreadables() -> list[Exception]:
    from pyspark.errors import PythonException

    from topology.records.marked import StateUnreadable

    text = f"{IN_WORKER}{TRACE}{STATE}: {UNREADABLE}\n"
    failed = JobFailed(f"live: {UNREADABLE}")
    failed.__cause__ = RuntimeError(text)
    return [StateUnreadable(UNREADABLE), PythonException(text), failed]


@pytest.mark.parametrize("number", range(3))
def test_state_of_other_version_is_refused(number: int) -> None:
    with pytest.raises(Refused, match=UNREADABLE), report_plain_errors("backfill"):
        raise unreadables()[number]


def test_too_many_lines_fail_the_job() -> None:
    from pyspark.errors import PythonException

    with pytest.raises(click.ClickException) as raised_error, report_plain_errors("live"):
        raise PythonException(f"{IN_WORKER}{TOO_MANY}")
    assert raised_error.value.message == f"live: {WAIT}"
    assert not isinstance(raised_error.value, Refused)
