"""Tables in a database, by its JDBC driver, whose jar is among the session's.

A table `windows-pitch` of the job `rates` is `rates_windows_pitch` there, with a column
`batch`; it is made where it is absent, with Spark's types for that database. A column that
JDBC has no type for becomes JSON text.

A batch is written by Spark into `staged_<table>`, which takes as long as it takes and may be
cut short at any row, and from there moved by the driver in one transaction of plain SQL:
rows of that number away, the staged ones in. So readers see whole batches only, and a batch
that is repeated after a crash replaces itself. Rows that a repeated task has staged twice
are taken once: no two rows of a table are the same.

Spark repeats at most the batch at which it ended, so only the first that a process writes of
a table looks for rows of its number; the others cost nothing that grows with the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.jobs.outputs import BATCH, MICROSECONDS
from spark_analytics.session import require_java

POSTGRES: Final = "org.postgresql.Driver"
MAX_NAME_CHARS: Final = 56
"""With `staged_` in front it fits the 63 that PostgreSQL looks at."""


class NameRefused(ValueError):
    """A table cannot be called so in a database; the message says why."""


def table_name(prefix: str, table: str) -> str:
    """Letters, digits and _, in lower case, as databases fold names."""
    name = re.sub(r"[^a-z0-9_]", "_", f"{prefix}_{table}".lower())
    if len(name) > MAX_NAME_CHARS:
        raise NameRefused(f"{name}: longer than {MAX_NAME_CHARS}; give the stream a shorter name")
    return name


class Jdbc:
    """`prefix` begins each table's name; `properties` are the driver's (`user`,
    `password`)."""

    def __init__(
        self,
        url: str,
        prefix: str,
        properties: Mapping[str, str] | None = None,
        driver: str = POSTGRES,
    ) -> None:
        self._url = url
        self._prefix = prefix
        self._driver = driver
        self._properties = dict(properties or {})
        self._begun: set[str] = set()

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        name = table_name(self._prefix, table)
        flat = flattened(rows).withColumn(BATCH, F.lit(batch).cast("long"))
        spark_side = {**self._properties, "driver": self._driver}
        staging = flat.coalesce(1).write.mode("overwrite").option("truncate", "true")
        staging.jdbc(self._url, f"staged_{name}", properties=spark_side)
        if table not in self._begun:
            none = flat.sparkSession.createDataFrame([], flat.schema)
            none.write.mode("append").jdbc(self._url, name, properties=spark_side)
        self._take_over(flat, name, batch, perhaps_again=table not in self._begun)
        self._begun.add(table)

    def holds(self, spark: SparkSession, table: str) -> bool:
        name = table_name(self._prefix, table)
        with self._connection(spark) as connection:
            found = connection.getMetaData().getTables(None, None, "%", None)
            while found.next():
                if found.getString("TABLE_NAME").lower() == name:
                    return True
        return False

    def _take_over(self, flat: DataFrame, name: str, batch: int, *, perhaps_again: bool) -> None:
        with self._connection(flat.sparkSession) as connection:
            quote = connection.getMetaData().getIdentifierQuoteString()
            columns = ", ".join(f"{quote}{column}{quote}" for column in flat.columns)
            connection.setAutoCommit(False)
            statement = connection.createStatement()
            if perhaps_again:
                statement.executeUpdate(f"DELETE FROM {name} WHERE {quote}{BATCH}{quote} = {batch}")
            statement.executeUpdate(
                f"INSERT INTO {name} ({columns}) SELECT DISTINCT {columns} FROM staged_{name}"
            )
            statement.executeUpdate(f"DELETE FROM staged_{name}")
            connection.commit()

    @contextmanager
    def _connection(self, spark: SparkSession) -> Iterator[Any]:
        """Without a commit, its end takes all back."""
        require_java(spark, "--to jdbc")
        java: Any = spark._jvm
        driver = java
        for part in self._driver.split("."):
            driver = getattr(driver, part)
        properties = java.java.util.Properties()
        for key, value in self._properties.items():
            properties.setProperty(key, value)
        connection = driver().connect(self._url, properties)
        try:
            yield connection
        finally:
            connection.close()


def flattened(rows: DataFrame) -> DataFrame:
    """Structs, arrays and maps as JSON text."""

    def column(name: str, kind: str) -> Column:
        if kind.startswith(("struct", "array", "map")):
            return F.to_json(name, {"timestampFormat": MICROSECONDS}).alias(name)
        return F.col(name)

    return rows.select(*(column(name, kind) for name, kind in rows.dtypes))
