"""Start the Spark session of a job, with the settings that it needs.

Under `spark-submit` the cluster's settings win: the master is LOCAL only if no other is set. The
time zone is UTC, so that printed times and hours mean the same everywhere.

On one machine (`local[…]`) state and shuffles have one partition per core unless the setting is
given. (Spark's default of 200 is meant for clusters.) Python functions run in the driver's
own interpreter there. On a cluster they run in that of `spark.pyspark.python` or PYSPARK_PYTHON.

A master `sc://HOST:PORT`, or SPARK_REMOTE in the environment, is a Spark Connect server. The server
determines its jars and the settings that are fixed at its start; the rest is set here. All
functions on DataFrames work there, and so do bounded jobs. Code that calls Java, or that Spark
calls back in this process, refuses to run there (`require_java`).
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
    # Java interprets a method beyond 8,000 bytes instead of compiling it. Without this setting the
    # rows of `decode` pass through such a method. With it, Spark splits the code into smaller
    # steps.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Sending Java the Python line of each expression triples the cost of writing one. Spark shows
    # the line only in errors that data do not cause.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Options of sources contain certificates and passwords.
    "spark.sql.redaction.options.regex": "(?i)url|jaas|password|keystore|ssl[.]key",
    # Few other readers support Spark's own 96-bit timestamps.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # RocksDB keeps state outside of the heap, and a batch writes only its changes, not the whole
    # state.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A batch without new data still closes windows.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
PARTS: Final = "spark.sql.shuffle.partitions"
PYTHON: Final = "spark.pyspark.python"
MASTER: Final = "spark.master"
LOCAL: Final = "local[*,4]"
"""A master with all cores of this machine, and four attempts per task.

With Spark's own `local[*]`, one dying Python process ends hours of work.
"""

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
"""The Java classes and methods that build expressions."""


def new_session(
    name: str, jars: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session, or return the running one.

    `jars` are the paths of the Kafka connector's jars; `settings` override `SETTINGS`.
    """
    wanted = {**SETTINGS, **(settings or {})}
    remote = wanted.get(MASTER, os.environ.get(REMOTE, ""))
    if remote.startswith(CONNECT):
        return _connect(name, remote, wanted)
    builder = SparkSession.builder.appName(name)
    if not is_submitted() and MASTER not in {**wanted, **_read_defaults()}:
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
    # Spark reads `spark.pyspark.python` only under spark-submit. Otherwise it takes the first
    # python3 that it finds.
    own = sys.executable if is_local else context.pythonExec
    said = wanted.get(PYTHON) or os.environ.get("PYSPARK_PYTHON")
    context.pythonExec = said or context.getConf().get(PYTHON, own) or own
    return session


def _read_defaults() -> dict[str, str]:
    """Return the settings of `spark-defaults.conf`.

    Spark does not report whether a master comes from there.
    """
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    pairs = (re.match(r"\s*([\w.]+)\s*[=:\s]\s*(.*)", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def _resolve(context: SparkContext) -> None:
    """Resolve `NAMES` once, for all expressions of the session.

    Otherwise Python asks Java for each name of each expression, thousands of times in a job. For a
    class without its package, Java first searches all jars in vain.
    """
    for name, methods in NAMES.items():
        for method in methods or ("",):
            at: Any = context._jvm
            for part in (name, *filter(None, method.split("."))):
                found = getattr(at, part)
                setattr(at, part, found)
                at = found


def is_connected(spark: SparkSession) -> bool:
    """Return whether the session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def require_java(spark: SparkSession, what: str) -> None:
    """Raise JobRefused under Spark Connect, with `what`, which needs Spark's own process."""
    if is_connected(spark):
        raise JobRefused(
            f"{what} needs Spark in this process, but Spark Connect runs it elsewhere; leave out"
            " --master sc:// and SPARK_REMOTE, or use spark-submit"
        )


def _connect(name: str, remote: str, wanted: Mapping[str, str]) -> SparkSession:
    session = SparkSession.builder.appName(name).remote(remote).getOrCreate()
    for key, value in wanted.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session
