"""Fold window, match and join records to the current results.

The input is records of `results.*`. The key of a record is the id of a result. Its value is JSON
with `id`, `query`, `op`, `revision`, `final`, `confidence`, interval, events and values.

Control records carry no result. They have a header `kind` (`frontier`, `overflow`), a value of the
kind `overflow`, or no value. A record without a value is not a control record if its header `op` is
`retract`: it retracts the result whose id is its key. The topic of a query with `upsert` has such
records. `overflows` returns the control records of queries that exceeded their bound.

Every row has `line`, the JSON of the record, so fields without a column are not lost.

`latest` keeps the record of the highest revision of each id; after a retract `current` is false.
Records may be repeated and out of order: duplicates of a revision are equal, and an older revision
never replaces a newer one. `current` returns the results that are not retracted.

On a stream, fold each batch with `latest`, and write it to a table in which a newer revision
replaces an older one (`spark_analytics.tables.output`). This needs no state in Spark. `latest` on
the stream itself keeps every id as state, so it is for bounded topics.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from inorder.contract import RETRACT, RETRACTION_FLAG, RETRACTION_INTEGERS, RETRACTION_TEXTS
from spark_analytics.decode import RECORD, Decoded
from spark_analytics.once import compute_once

EVENT: Final = (
    "STRUCT<alias: STRING, stream: STRING, source: STRING, epoch: BIGINT, seq: BIGINT,"
    " ref_time: BIGINT>"
)
FIELDS: Final = (
    "kind STRING, id STRING, query STRING, op STRING, revision BIGINT, final BOOLEAN,"
    " confidence STRING, start BIGINT, `end` BIGINT, at BIGINT, stream STRING,"
    " `values` STRING, low STRING, high STRING,"
    " expected STRING, probability DOUBLE, `count` BIGINT,"
    " ranges STRING, joined STRING"
)
SCHEMA: Final = f"{FIELDS}, key STRING, events ARRAY<{EVENT}>"
"""The columns of a result; those that a kind does not have are null.

A window has no events. `stream` and `probability` belong to joins, and `count`, `ranges` and
`joined` to sets of matches. `values`, `low`, `high`, `expected`, `ranges`, `joined` and a
structured `key` stay JSON text, since they differ per query.
"""

OVERFLOW_SCHEMA: Final = "stream STRING, query STRING, event STRING, shown BIGINT, at BIGINT"
LINE: Final = "line"

OPS: Final = ("emit", "update", RETRACT)
OVERFLOW: Final = "overflow"
KIND_HEADER: Final = "kind"
SPOILT: Final = "_spoilt"
RANKS: Final = ("revision", "partition", "offset", "position")


def decode(records: DataFrame, schema: str = SCHEMA) -> Decoded:
    """Decode records of results topics to typed rows, control records, and bad rows.

    A control record keeps its value and its `kind`, which is empty for a record without value or
    header. `schema` may replace SCHEMA by FIELDS with other columns.
    """
    records = records.withColumn("value", F.coalesce("value", _retraction()))
    wide = f"{schema}, {SPOILT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": SPOILT}
    read = F.from_json(F.col("value").cast("string"), wide, options)
    rows = records.withColumn("_r", compute_once(read))
    rows = rows.withColumn("_kind", _kind())
    silent = F.col("value").isNull() | F.col("_kind").isNotNull()
    fault = (
        F.when(silent, None)
        .when(F.col(f"_r.{SPOILT}").isNotNull() | F.col("_r").isNull(), "result_unreadable")
        .when(F.col("_r.id").isNull() | (F.col("_r.id") == ""), "id_missing")
        .when(F.col("_r.revision").isNull() | (F.col("_r.revision") < 0), "revision_missing")
        .when(~F.coalesce(F.col("_r.op").isin(*OPS), F.lit(False)), "op_unknown")
    )
    rows = rows.withColumn("reason", compute_once(fault))
    sound = rows.where(F.col("reason").isNull())
    detail = F.concat(
        F.lit("the value is `"), _excerpt_column(), F.lit("`; write a results record")
    )
    kind = F.coalesce("_kind", F.lit("")).alias("kind")
    return Decoded(
        sound.where(~silent).select(*RECORD[:4], "_r.*", _line()).drop(SPOILT),
        sound.where(silent).select(*RECORD, kind),
        rows.where(F.col("reason").isNotNull()).select(
            *RECORD[:4], "reason", detail.alias("detail")
        ),
    )


def _headers(name: str) -> tuple[Column, Column]:
    """Return the headers of that name, and the text of the first; null if there is none."""
    headers = F.filter("headers", lambda header: header["key"] == F.lit(name))
    return headers, F.try_validate_utf8(F.get(headers, F.lit(0))["value"].cast("string"))


def _retraction() -> Column:
    """Return the JSON of a record that retracts a result by headers (`inorder.contract`).

    The result is null for any other record.
    """
    fields = [F.lit(RETRACT).alias("kind"), F.col("key").cast("string").alias("id")]
    fields += [_headers(name)[1].alias(name) for name in RETRACTION_TEXTS]
    fields += [_headers(name)[1].try_cast("long").alias(name) for name in RETRACTION_INTEGERS]
    fields.append((_headers(RETRACTION_FLAG)[1] == "true").alias(RETRACTION_FLAG))
    json = F.to_json(F.struct(*fields)).cast("binary")
    return F.when(F.col("value").isNull() & (_headers("op")[1] == RETRACT), json)


def _kind() -> Column:
    """Return the kind of a control record, from its header or else its value; null for others."""
    headers, text = _headers(KIND_HEADER)
    there = F.coalesce(F.size(headers), F.lit(-1)) > 0
    return F.when(there, F.coalesce(text, F.lit(""))).when(
        F.col("_r.kind") == OVERFLOW, F.lit(OVERFLOW)
    )


def overflows(control: DataFrame) -> DataFrame:
    """Return the control records of queries that had more results for an event than their bound.

    Only `shown` of the results were emitted.
    """
    said = F.from_json(F.col("value").cast("string"), OVERFLOW_SCHEMA)
    rows = control.where(F.col("kind") == OVERFLOW).withColumn("_o", said)
    return rows.select(*RECORD[:4], "_o.*", _line())


def latest(results: DataFrame) -> DataFrame:
    """Return the record of the highest revision of each id, with a flag `current`.

    `results` are those of `decode`, or a table of a backfill.
    """
    fields = [name for name in results.columns if name != "id"]
    ranks = [name for name in RANKS if name in results.columns]
    newest = F.max_by(F.struct(*fields), F.struct(*ranks))
    folded = results.groupBy("id").agg(newest.alias("_newest"))
    return folded.select("id", "_newest.*").withColumn("current", F.col("op") != RETRACT)


def current(results: DataFrame) -> DataFrame:
    """Return the results that are not retracted."""
    return latest(results).where(F.col("current")).drop("current")


def _line() -> Column:
    return F.col("value").cast("string").alias(LINE)


def _excerpt_column() -> Column:
    return F.substring(F.col("value").cast("string"), 1, 80)
