"""The Spark session of a job, and how its wishes are spelled.

Under `spark-submit` the cluster's settings win: the master is LOCAL only where nobody names one.
The time zone is UTC, so that printed times and hours mean the same everywhere. On one machine
(`local[…]`) state and shuffles have as many parts as there are cores, unless somebody says
otherwise: Spark's 200 are for clusters. There Python functions run in the very interpreter that
the driver runs in; elsewhere in what `spark.pyspark.python` or PYSPARK_PYTHON says.

A master `sc://HOST:PORT`, or SPARK_REMOTE in the environment, is a server of Spark Connect: jars
and what else a session has from its start are the server's to know, the other settings are made.
All functions on DataFrames work there, and so do jobs with an end; what reaches into Java, or has
Spark call back into this process, says so (`require_java`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_analytics.jobs.work import JobRefused
from spark_analytics.submitted import is_submitted

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # Inferring constraints from the rows of `decode` takes the planner ten seconds a batch.
    "spark.sql.constraintPropagation.enabled": "false",
    # Java leaves a method beyond 8,000 bytes to its interpreter. Without this the rows of `decode`
    # go through one that is; Spark splits it where it may not join all steps in one.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Sending Java the Python line of each expression triples the cost of writing one; Spark
    # would show the line only in errors that data do not cause.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Options of sources hold certificates and passwords.
    "spark.sql.redaction.options.regex": "(?i)url|jaas|password|keystore|ssl[.]key",
    # Spark's own 96 bits are known to few other readers.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Outside of the heap, and a batch writes what it changed, not all there is.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A batch that brings nothing new still closes windows.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
PARTS: Final = "spark.sql.shuffle.partitions"
PYTHON: Final = "spark.pyspark.python"
MASTER: Final = "spark.master"
LOCAL: Final = "local[*,4]"
"""All cores of this machine; a task is tried four times. Spark's own `local[*]` ends hours of work
when one Python process dies."""

CONNECT: Final = "sc://"
REMOTE: Final = "SPARK_REMOTE"
FUNCTIONS: Final = "org.apache.spark.sql.functions"
NAMES: Final[Mapping[str, Sequence[str]]] = {
    FUNCTIONS: ("col", "lit", "when", "expr", "coalesce", "struct"),
    "functions": ("col", "lit"),
    "PythonUtils": ("toSeq", "toArray"),
    "py4j": ("reflection.TypeUtil.isInstanceOf",),
    "PythonSQLUtils": (),
    "org.apache.spark.util.Utils": (),
    "org.apache.spark.sql.classic.SparkSession": ("getActiveSession", "setActiveSession"),
}
"""Java's classes and their methods by which expressions are written."""


def new_session(
    name: str, jars: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> SparkSession:
    """`jars` are paths of the Kafka connector's; `settings` go on top of `SETTINGS`."""
    wanted = {**SETTINGS, **(settings or {})}
    remote = wanted.get(MASTER, os.environ.get(REMOTE, ""))
    if remote.startswith(CONNECT):
        return _connected(name, remote, wanted)
    builder = SparkSession.builder.appName(name)
    if not is_submitted() and MASTER not in {**wanted, **_defaults()}:
        wanted[MASTER] = LOCAL
    if jars:
        wanted["spark.jars"] = ",".join(jars)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    context = session.sparkContext
    context.setLogLevel("ERROR")
    _resolve(context)
    is_local = str(context.master).startswith("local")
    is_said = PARTS in wanted or context.getConf().contains(PARTS)
    if is_local and not is_said:
        session.conf.set(PARTS, str(context.defaultParallelism))
    # Spark reads the setting only under spark-submit, and else takes the first python3 it finds.
    own = sys.executable if is_local else context.pythonExec
    said = wanted.get(PYTHON) or os.environ.get("PYSPARK_PYTHON")
    context.pythonExec = said or context.getConf().get(PYTHON, own) or own
    return session


def _defaults() -> dict[str, str]:
    """What `spark-defaults.conf` sets: Spark tells nobody whether a master comes from there."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    pairs = (re.match(r"\s*([\w.]+)\s*[=:\s]\s*(.*)", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def _resolve(context: SparkContext) -> None:
    """Resolves `NAMES` once. Python asks Java for each name of each expression, thousands for a
    job, and for a class without its package Java looks through all jars in vain first."""
    for name, methods in NAMES.items():
        for method in methods or ("",):
            at: Any = context._jvm
            for part in (name, *filter(None, method.split("."))):
                found = getattr(at, part)
                setattr(at, part, found)
                at = found


def is_connected(spark: SparkSession) -> bool:
    """It is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def require_java(spark: SparkSession, what: str) -> None:
    """JobRefused by Spark Connect: `what` needs Spark's own process."""
    if is_connected(spark):
        raise JobRefused(
            f"{what} needs Spark in this process, which Spark Connect is not; leave --master sc://"
            " and SPARK_REMOTE out, or start it by spark-submit"
        )


def _connected(name: str, remote: str, wanted: Mapping[str, str]) -> SparkSession:
    session = SparkSession.builder.appName(name).remote(remote).getOrCreate()
    for key, value in wanted.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session
