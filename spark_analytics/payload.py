"""Parse payloads from JSON into a struct `payload`, by a schema that the user gives.

The schema is DDL (`player INT, v DOUBLE`) or a `StructType`. Keys outside the schema are left out,
and missing keys are null. The row of a value that is not a JSON object, or
that has other types than the schema, gets the fault `payload_unreadable`. A record without a value
has a null payload, which is not a fault.
"""

from __future__ import annotations

from typing import Final

from pyspark.errors import ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from spark_analytics.once import compute_once

SPOILT: Final = "_spoilt"


class SchemaRefused(ValueError):
    """The error of a schema that cannot be used; the message says what to write instead."""


def schema_of(text: str) -> StructType:
    """Parse a schema from DDL; raise SchemaRefused if it cannot be used."""
    try:
        found = DataType.fromDDL(text)
    except ParseException as error:
        first = (str(error).strip().splitlines() or ["?"])[0]
        raise SchemaRefused(f"{text!r}: {first}; write it like `player INT, v DOUBLE`") from error
    if not isinstance(found, StructType):
        raise SchemaRefused(
            f"{text!r} is not a list of fields; write one like `player INT, v DOUBLE`"
        )
    twice = _find_doubled(found)
    if twice is not None:
        raise SchemaRefused(
            f"{text!r}: names {twice} twice (case is ignored); name each field once"
        )
    return found


def _find_doubled(found: DataType) -> str | None:
    """Return the name of a field that a struct has twice, at any depth, or None.

    Names are equal if Spark considers them equal.
    """
    if isinstance(found, ArrayType):
        return _find_doubled(found.elementType)
    if isinstance(found, MapType):
        return _find_doubled(found.keyType) or _find_doubled(found.valueType)
    if not isinstance(found, StructType):
        return None
    names: set[str] = set()
    for field in found:
        name = field.name.lower()
        if name in names:
            return field.name
        names.add(name)
        within = _find_doubled(field.dataType)
        if within is not None:
            return f"{field.name}.{within}"
    return None


def with_payload(rows: DataFrame, schema: StructType) -> DataFrame:
    """Replace `value` by `payload` in decoded rows, and set `fault` where it is unreadable."""
    if SPOILT in schema.fieldNames():
        raise SchemaRefused(f"a field must not be called {SPOILT}; rename it")
    wide = StructType([*schema.fields, StructField(SPOILT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": SPOILT}
    text = F.col("value").cast("string")
    rows = rows.withColumn("_read", compute_once(F.from_json(text, wide, options)))
    whole = F.struct(*(F.col("_read")[name].alias(name) for name in schema.fieldNames()))
    is_event = F.col("kind") == ""
    there = F.col("value").isNotNull()
    spoilt = is_event & there & (F.col("_read").isNull() | F.col(f"_read.{SPOILT}").isNotNull())
    first = F.col("fault").isNull() & spoilt
    detail = F.lit(
        f"the value is not JSON of the type {schema.simpleString()}; write such values, or correct"
        " --schema"
    )
    return rows.withColumns(
        {
            "payload": F.when(is_event & there & ~spoilt, whole),
            "detail": F.when(first, detail).otherwise(F.col("detail")),
            "fault": F.when(first, F.lit("payload_unreadable")).otherwise(F.col("fault")),
        }
    ).drop("_read", "value")
