"""Write the output of a batch as the tables of a backfill, one for each kind of line.

Each row of the query is an output line. Its columns are `table`, `stream`, `position`, the JSON
`line`, and `nested`, a JSON object of the line's nested values, each as JSON text. Spark reads the
typed columns of the tables (`spark_analytics.backfill.kinds`) from the line.

A further table, `overtaken`, has the records that arrived before a time to which the operators had
already run. `arrival_ns` is their arrival, and `at_ns` the arrival that is used instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import orjson
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.backfill import kinds
from spark_analytics.backfill.kinds import FLAG, INSTANT, LINE, LONG, POSITION, REAL, TABLES, TEXT
from spark_analytics.instants import to_timestamp
from spark_analytics.jobs.work import Part
from topology.records.json_lines import JsonObject, encode_line

OVERTAKEN: Final = "overtaken"
TABLE: Final = "table"
NESTED: Final = "nested"
OUTPUT: Final = "`table` STRING, stream STRING, position LONG, line STRING, nested STRING"
KEYS: Final = ("stream", POSITION)

_TYPES: Final = {TEXT: "STRING", LONG: "LONG", FLAG: "BOOLEAN", REAL: "DOUBLE", INSTANT: "LONG"}
_COLUMNS: Final = {
    **TABLES,
    OVERTAKEN: [
        kinds.Column("stream", TEXT, "stream"),
        kinds.Column("source", TEXT, "source"),
        kinds.Column("seq", LONG, "seq"),
        kinds.Column("arrival_ns", LONG, "arrival"),
        kinds.Column("at_ns", LONG, "at"),
    ],
}
_NESTED: Final = {
    table: [column.key for column in columns if column.is_nested]
    for table, columns in _COLUMNS.items()
}


def nested_of(table: str, line: JsonObject) -> str | None:
    """Return the column `nested` for a line; None if its table has no nested columns."""
    names = _NESTED[table]
    if not names:
        return None
    found = {name: line[name] for name in names if line.get(name) is not None}
    return orjson.dumps({name: encode_line(said).decode() for name, said in found.items()}).decode()


def parts() -> list[Part]:
    """Return the tables to write from a query whose rows are output lines."""
    return [Part(table, KEYS, select_table(table)) for table in _COLUMNS]


def select_table(table: str) -> Callable[[DataFrame], DataFrame]:
    """Return a function that selects the lines of one table, and returns its typed rows."""

    def pick(rows: DataFrame) -> DataFrame:
        columns = _COLUMNS[table]
        plain = {c.key: _TYPES[c.type] for c in columns if not c.is_nested}
        said = F.from_json(LINE, ", ".join(f"`{key}` {kind}" for key, kind in plain.items()))
        read = rows.where(F.col(TABLE) == table).withColumn("_said", said)
        if _NESTED[table]:
            texts = ", ".join(f"`{key}` STRING" for key in _NESTED[table])
            read = read.withColumn("_nested", F.from_json(NESTED, texts))
        return read.select(*(_column(each) for each in columns), POSITION, LINE)

    return pick


def _column(column: kinds.Column) -> Column:
    if column.is_nested:
        return F.col("_nested").getField(column.key).alias(column.name)
    said = F.col("_said").getField(column.key)
    if column.type == INSTANT:
        said = to_timestamp(said)
    return said.alias(column.name)
