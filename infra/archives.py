"""Writes archives of Java classes (`cli.local.classes`) with which brokers and Spark start faster.

Each archive is written once, by a Java process that has run a small workload. This takes ten
seconds.

    python -m infra.archives
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cli.spark.jars
from cli.local import classes
from cli.local.kafka import KafkaBroker, jars
from cli.local.lock import lock_file
from cli.local.poll import wait_until

TIMEOUT_S = 300.0
OPTIONS = "JAVA_TOOL_OPTIONS"
SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""JVM option for the C1 compiler alone, which is enough for a process of some seconds."""


def make(folder: Path, run: Callable[[Path], None]) -> None:
    """Write the archive of the jars in `folder` if there is none.

    `run` is called with a working folder, starts Java processes and waits for their end. The last
    of them writes the archive.
    """
    archive = classes.archive_path(folder)
    with lock_file(archive.with_suffix(".lock"), TIMEOUT_S):
        if archive.exists():
            return
        part = archive.with_suffix(".part")
        before = os.environ.get(OPTIONS, "")
        os.environ[OPTIONS] = f"{before} {SHORT_LIVED} {classes.write_options(part)}".strip()
        try:
            with TemporaryDirectory() as scratch:
                run(Path(scratch))
        finally:
            os.environ[OPTIONS] = before
        if part.exists():  # Some Java versions cannot write an archive, which is no fault.
            part.replace(archive)


def run_broker(scratch: Path) -> None:
    broker = KafkaBroker(scratch / "kafka")
    with broker:
        broker.create_topic("a", partitions=2)
        (node,) = broker.nodes
        node.terminate()
        wait_until(lambda: not node.is_alive(), TIMEOUT_S, "the end of the broker")


def run_spark(scratch: Path) -> None:
    """Run a batch and a stream, both with a shuffle."""
    from spark_analytics.session import new_session

    spark = new_session("archive", settings={"spark.master": "local[1]"})
    rows, marks = str(scratch / "rows"), str(scratch / "marks")
    spark.range(9).selectExpr("id", "id % 3 AS k").write.parquet(rows)
    spark.read.parquet(rows).groupBy("k").count().orderBy("k").collect()
    found = spark.readStream.schema("id LONG, k LONG").parquet(rows).groupBy("k").count()
    stream = found.writeStream.outputMode("complete").format("memory").queryName("counted")
    stream.option("checkpointLocation", marks).trigger(availableNow=True).start().awaitTermination()
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(TIMEOUT_S)


def main() -> None:
    if jars.missing() is None:
        make(jars.folder(), run_broker)
    if cli.spark.jars.missing() is None:
        make(cli.spark.jars.folder(), run_spark)


if __name__ == "__main__":
    main()
