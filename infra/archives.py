"""Writes archives of Java classes (`cli.local.classes`) with which brokers and Spark start faster.

Each archive is written once, by a Java process that has run a small workload. This takes ten
seconds for a broker, and about a minute for Spark.

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
from cli.local.lock import exclusive
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
    archive = classes.archive(folder)
    with exclusive(archive.with_suffix(".lock"), TIMEOUT_S):
        if archive.exists():
            return
        part = archive.with_suffix(".part")
        before = os.environ.get(OPTIONS, "")
        os.environ[OPTIONS] = f"{before} {SHORT_LIVED} {classes.writing(part)}".strip()
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


def spark_folder() -> Path:
    """Return the folder with the archive of Spark and of `spark_jars`."""
    return cli.spark.jars.folder().with_name(f"spark-{cli.spark.jars.release()}-classes")


def spark_jars() -> list[str]:
    """Return the paths of all jars that Spark may need here, fetched if absent."""
    lakes = (jar for kind in cli.spark.jars.FORMATS for jar in cli.spark.jars.lake_jars(kind))
    return [*cli.spark.jars.jars(), *cli.spark.jars.postgres_jars(), *lakes]


def class_path() -> dict[str, str]:
    """Return the setting with which Java has `spark_jars` from its start.

    An archive contains only classes of jars that are on the class path at the start.
    """
    return {"spark.driver.extraClassPath": ":".join(spark_jars())}


def run_spark(scratch: Path) -> None:
    """Run a batch, streams, tables of a lake and a Python function on a few rows."""
    from pyspark.sql.functions import window

    from spark_analytics.session import new_session
    from spark_analytics.tables.catalog import FORMATS, settings
    from spark_analytics.tables.lake import Mark, open_lake
    from spark_analytics.tables.shapes import SHAPES

    own = {"spark.master": "local[1]", "spark.sql.codegen.wholeStage": "false"}
    spark = new_session("archive", settings={**own, **class_path(), **settings(*FORMATS)})
    rows, marks = str(scratch / "rows"), str(scratch / "marks")
    words = spark.createDataFrame([("a", 0, "[1]")], "id STRING, revision LONG, said STRING")
    words = words.selectExpr(
        "*",
        "id AS query",
        "timestamp_seconds(revision) AS start_time",
        "from_json(said, 'ARRAY<LONG>') AS numbers",
    )
    words.mapInArrow(lambda batches: batches, words.schema).write.parquet(rows)
    spark.read.parquet(rows).groupBy("id").count().orderBy("id").collect()
    source = spark.readStream.schema(words.schema).parquet(rows)
    timed = source.withWatermark("start_time", "1 second")
    counted = timed.groupBy(window("start_time", "1 second")).count()
    stream = counted.writeStream.foreachBatch(lambda rows, _: print(rows.count()))
    stream.option("checkpointLocation", marks).trigger(availableNow=True).start().awaitTermination()
    for kind in FORMATS:
        lake = open_lake(spark, kind, str(scratch / kind), "archive")
        for batch in range(2):
            lake.append("words", words, SHAPES["windows_current"], Mark("q", batch))
            lake.merge("current", words, SHAPES["windows_current"])
        lake.read("current").orderBy("id").collect()
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(TIMEOUT_S)


def main() -> None:
    if jars.missing() is None:
        make(jars.folder(), run_broker)
    if cli.spark.jars.missing() is None:
        make(spark_folder(), run_spark)


if __name__ == "__main__":
    main()
