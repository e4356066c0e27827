"""Answer q5, q7, q8 and q11 with Spark: `spark_windows.py WAIT_MS BATCH_MS RECORDS QUERY`.

pyspark must be installed in the environment. This is Structured Streaming with its watermark, in
append mode. A micro-batch has the records that arrived in BATCH_MS, as with a trigger of that
interval. Each batch is a file, and Spark reads one at a time. Answers have the arrival of the last
record of the batch that emitted them.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

SCHEMA: Final = (
    "arrival_us LONG, source STRING, seq LONG, time_us LONG, type STRING, key LONG, by LONG,"
    " price LONG"
)
BEHIND_US: Final = 60_000_000
"""The time from the end of the records to one more record, which closes the open windows."""
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}


def write_batches(path: str, batch_us: int, query: str, folder: Path) -> list[int]:
    """Write a file for each batch, and return the arrival of the last record in each."""
    ends = []
    with Path(path).open(newline="") as file:
        rows = csv.reader(file)
        next(rows)
        for number, (_, batch) in enumerate(groupby(rows, lambda row: int(row[0]) // batch_us)):
            lines = list(batch)
            _write(folder, number, lines)
            ends.append(int(lines[-1][0]))
    kind = "person" if query == "q8" else "bid"
    behind = [str(ends[-1]), "end", "0", str(ends[-1] + BEHIND_US), kind, "0", "0", "0"]
    _write(folder, len(ends), [behind])
    return [*ends, ends[-1]]


def _write(folder: Path, number: int, lines: list[list[str]]) -> None:
    into = folder / f"{number:06}.csv"
    into.write_text("".join(",".join(line) + "\n" for line in lines))
    os.utime(into, (1_700_000_000 + number, 1_700_000_000 + number))


def count(kind: str) -> Column:
    return F.count_if(F.col("type") == kind)


def answers(rows: DataFrame, query: str) -> DataFrame:
    """Return the answers as rows with the columns start, key and value."""
    price, n = F.col("price"), F.col("n")
    bids = rows.where("type = 'bid'")
    if query == "q7":
        highest = bids.groupBy(F.window("time", "1 second")).agg(F.max(price).alias("n"))
        return highest.select(_us("window.start"), F.lit(""), n.cast("string"))
    if query == "q11":
        session = F.session_window("time", "500 milliseconds")
        found = bids.groupBy(session, "by").agg(F.count("*").alias("n"))
        return found.select(_us("session_window.start"), F.col("by").cast("string"), n)
    if query == "q8":
        person = F.when(F.col("type") == "auction", F.col("by")).otherwise(F.col("key"))
        both = rows.where("type <> 'bid'").groupBy(F.window("time", "2 seconds"), person.alias("p"))
        found = both.agg(count("person").alias("new"), count("auction").alias("n"))
        kept = found.where("new > 0 AND n > 0")
        return kept.select(_us("window.start"), F.col("p").cast("string"), n)
    window = F.window("time", "2 seconds", "500 milliseconds")
    counts = bids.groupBy(window, "key").agg(F.count("*").alias("n"))
    of_window = counts.groupBy(F.col("window"))
    hot = of_window.agg(
        F.max_by("key", F.struct("n", -F.col("key"))).alias("key"), F.max(n).alias("n")
    )
    return hot.select(_us("window.start"), F.lit(""), F.concat_ws(":", "key", "n"))


def _us(field: str) -> Column:
    return F.unix_micros(field)


def main() -> None:
    wait_ms, batch_ms, path, query = sys.argv[1:5]
    with tempfile.TemporaryDirectory() as name:
        folder, checkpoint = Path(name) / "in", Path(name) / "checkpoint"
        folder.mkdir()
        ends = write_batches(path, int(batch_ms) * 1_000, query, folder)
        builder = SparkSession.builder.master("local[1]")
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        records = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).csv(str(folder))
        timed = records.withColumn("time", F.timestamp_micros("time_us"))
        timed = timed.withWatermark("time", f"{wait_ms} milliseconds")
        once = timed.dropDuplicatesWithinWatermark(["source", "seq"])

        def answer(batch: DataFrame, number: int) -> None:
            at_us = ends[min(number, len(ends) - 1)]
            for row in batch.collect():
                print(at_us, *row, sep=",")

        found = answers(once, query).writeStream.foreachBatch(answer)
        found.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        found.start().awaitTermination()
        java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        spark.stop()
        java.stdin.close()
        java.wait()  # The cost of Java then counts as this process's.


if __name__ == "__main__":
    main()
