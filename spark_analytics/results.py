"""Window and match records folded to what stands.

In: records of `results.*` (DESIGN: JSON with `id`, `query`, `op`, `revision`, `final`,
`confidence`, interval, events, values; the key is the id). A record without a value is a
control record (`frontier`) or a tombstone and says nothing here.

`latest` keeps, of each id, the record of the highest revision; a retract takes the result
back, so it has `standing` false. Records may come again and out of order: copies of a
revision say the same, an older one never replaces a newer. `standing` is what is left.

On a stream, fold each batch with `latest` and write by id where a newer revision wins
(`outputs`): that needs no state in Spark. `latest` on the stream itself keeps every id as
state and is for bounded topics.

`histories` tells of each id how it came to its end: how many updates and retracts, how long
from the first word to the final one (arrival clock). `by_query` sums that up.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.decode import RECORD, Decoded

SCHEMA: Final = (
    "id STRING, query STRING, op STRING, revision BIGINT, final BOOLEAN, confidence STRING,"
    " key STRING, start BIGINT, `end` BIGINT, at BIGINT,"
    " events ARRAY<STRUCT<alias: STRING, source: STRING, epoch: BIGINT, seq: BIGINT,"
    " ref_time: BIGINT>>,"
    " `values` STRING, low STRING, high STRING"
)
"""`values`, `low`, `high` and a structured `key` stay JSON text: each query has its own."""

OPS: Final = ("emit", "update", "retract")
SPOILT: Final = "_spoilt"


def decoded(records: DataFrame) -> Decoded:
    """Records of results topics as typed rows, those that say nothing, and bad ones."""
    wide = f"{SCHEMA}, {SPOILT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": SPOILT}
    rows = records.withColumn("_r", F.from_json(F.col("value").cast("string"), wide, options))
    silent = F.col("value").isNull()
    fault = (
        F.when(silent, None)
        .when(F.col(f"_r.{SPOILT}").isNotNull() | F.col("_r").isNull(), "result_unreadable")
        .when(F.col("_r.id").isNull() | (F.col("_r.id") == ""), "id_missing")
        .when(F.col("_r.revision").isNull() | (F.col("_r.revision") < 0), "revision_missing")
        .when(~F.coalesce(F.col("_r.op").isin(*OPS), F.lit(False)), "op_unknown")
    )
    rows = rows.withColumn("reason", fault)
    sound = rows.where(F.col("reason").isNull())
    detail = F.concat(F.lit("the value is `"), _shown(), F.lit("`; write a results record"))
    return Decoded(
        sound.where(~silent).select(*RECORD[:4], "_r.*").drop(SPOILT),
        sound.where(silent).select(*RECORD[:5]),
        rows.where(F.col("reason").isNotNull()).select(
            *RECORD[:4], "reason", detail.alias("detail")
        ),
    )


def latest(results: DataFrame) -> DataFrame:
    """Of each id the record of the highest revision, and whether it stands."""
    fields = [name for name in results.columns if name != "id"]
    newest = F.max_by(F.struct(*fields), F.struct("revision", "partition", "offset"))
    folded = results.groupBy("id").agg(newest.alias("_newest"))
    return folded.select("id", "_newest.*").withColumn("standing", F.col("op") != "retract")


def standing(results: DataFrame) -> DataFrame:
    """The results that have not been taken back."""
    return latest(results).where(F.col("standing")).drop("standing")


def histories(results: DataFrame) -> DataFrame:
    """Of each id of a bounded DataFrame: its course, copies of a revision counted once."""
    once = results.dropDuplicates(["id", "revision"])
    told = F.when(F.col("final"), F.col("at"))
    return once.groupBy("query", "id").agg(
        F.count(F.lit(1)).alias("revisions"),
        F.count_if(F.col("op") == "update").alias("updates"),
        F.count_if(F.col("op") == "retract").alias("retracts"),
        F.min("at").alias("first_at_ns"),
        F.min(told).alias("final_at_ns"),
        (F.min(told) - F.min("at")).alias("to_final_ns"),
        F.max_by("confidence", "revision").alias("confidence"),
        (F.max_by("op", "revision") != "retract").alias("standing"),
    )


def by_query(course: DataFrame) -> DataFrame:
    """`histories` summed up: confirmed against uncertain, corrections, time to final."""
    ranks = F.array(F.lit(0.5), F.lit(0.99))
    stands = F.col("standing")
    return course.groupBy("query").agg(
        F.count_if(stands).alias("standing"),
        F.count_if(stands & (F.col("confidence") == "confirmed")).alias("confirmed"),
        F.count_if(stands & (F.col("confidence") == "uncertain")).alias("uncertain"),
        F.count_if(~stands).alias("retracted"),
        F.sum("updates").alias("updates"),
        F.sum("retracts").alias("retracts"),
        F.count_if(F.col("final_at_ns").isNull()).alias("not_final"),
        F.percentile_approx("to_final_ns", ranks, 10_000).alias("to_final_ns"),
    )


def _shown() -> Column:
    return F.substring(F.col("value").cast("string"), 1, 80)
