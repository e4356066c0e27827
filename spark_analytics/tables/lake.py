"""Create, append to, merge into, replace and read the Iceberg or Delta tables under one folder.

Each append, MERGE or replacement is one commit of the table's format, so readers see all of it or
nothing. A process that dies during a write leaves only files that no table refers to.

**Append.** The commit of a stream's batch contains the number of the batch (`Mark`), and a batch
that the table already has is skipped. Delta keeps the number in its log. Iceberg keeps the number
in the snapshot's summary. Because snapshots expire, a second commit copies it to a property of the
table. After a restart Spark repeats at most the last batch. A process therefore looks for the
number in an Iceberg table only before its first append.

**MERGE.** A row replaces the row with its key if it is higher in the column `newer`, and rows with
new keys are added. If several new rows have one key, the highest counts. A MERGE may therefore be
repeated, and older revisions that arrive after newer ones change nothing.

A table belongs to the `owner` in its properties. A table of another owner, or with other columns,
is refused before anything is written. A missing column, or a missing field of a struct, is added.

An append writes its rows once, shuffled by partition and sorted. A MERGE reads the keys of those
files whose partitions and bounds may contain a new key (`bounds`). It writes the rows that changed
(Iceberg, by position deletes) or the files that contain them (Delta).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_analytics.jobs.errors import first_line
from spark_analytics.jobs.outputs import persist
from spark_analytics.tables.bounds import bounds, quote
from spark_analytics.tables.catalog import (
    Catalog,
    Format,
    TablesRefused,
    declare_catalog,
    require_extension,
    split_path,
)
from spark_analytics.tables.shapes import Shape

OWNER: Final = "inorder.owner"
QUERY: Final = "inorder-query"
BATCH: Final = "inorder-batch"
DAY: Final = "day"
VIEW: Final = "_inorder_merged"


class Column(NamedTuple):
    """The type of a column.

    Attributes:
        kind: The type to compare; `struct` for any struct, whose fields are compared separately.
        ddl: The type as DDL.
    """

    kind: str
    ddl: str


class Mark(NamedTuple):
    """The identity of a batch: its query and number."""

    query: str
    batch: int


class Lake(ABC):
    """The Iceberg or Delta tables in the folder `place`.

    Methods raise TablesRefused for a table of another owner or with other columns, and for a
    catalog that cannot be reached.
    """

    kind: ClassVar[Format]
    day: ClassVar[str | None] = None
    """The column for partitions by day, if the format needs a separate one."""

    def __init__(self, spark: SparkSession, place: str, owner: str) -> None:
        require_extension(spark, self.kind)
        self.spark = spark
        self.place = place.rstrip("/")
        self.owner = owner
        self._known: set[str] = set()
        """The tables that this object has created or checked."""

        self._begun: set[tuple[str, str]] = set()
        """The pairs of a table and a query for which this object has written a batch."""

    @abstractmethod
    def name(self, table: str) -> str:
        """Return the name of the table in SQL."""

    @abstractmethod
    def exists(self, table: str) -> bool: ...

    @abstractmethod
    def properties(self, table: str) -> dict[str, str]: ...

    def drop(self, table: str) -> None:
        """Drop the table from its catalog, if there is one; the caller removes the folder."""
        self._known.discard(table)

    @abstractmethod
    def _create(self, table: str, schema: StructType, shape: Shape) -> None: ...

    @abstractmethod
    def _has_batch(self, table: str, mark: Mark) -> bool:
        """Return whether the table already contains the batch."""

    @abstractmethod
    def _append(self, table: str, rows: DataFrame, shape: Shape, mark: Mark) -> None: ...

    @abstractmethod
    def _replace(self, table: str, rows: DataFrame, shape: Shape) -> None: ...

    def read(self, table: str) -> DataFrame:
        """Return the current rows of the table."""
        return self.spark.read.table(self.name(table))

    def append(self, table: str, rows: DataFrame, shape: Shape, mark: Mark) -> None:
        """Add the rows to the table in one commit, unless it already contains the batch."""
        shape = self.make(table, rows.schema, shape)
        if (table, mark.query) not in self._begun:
            if self._has_batch(table, mark):
                return
            self._begun.add((table, mark.query))
        self._append(table, self._with_day(rows, shape), shape, mark)

    def require(self, table: str, schema: StructType) -> None:
        """Check that an existing table has this owner, and add the columns that it lacks.

        Existing rows have null in the new columns.

        Raises:
            TablesRefused: The table belongs to another owner, or has other columns.
        """
        theirs = self.properties(table).get(OWNER)
        if theirs != self.owner:
            whose = "does not belong" if theirs is None else f"belongs to {theirs}, not"
            raise TablesRefused(f"{self.place}/{table} {whose} to {self.owner}; name another --out")
        there = self._columns(self.read(table).schema)
        mine = self._columns(schema)
        known = {name: column.kind for name, column in there.items()}
        wanted = {name: column.kind for name, column in mine.items()}
        other = [name for name in known if known[name] != wanted.get(name)]
        if not other:
            self._add_columns(table, {name: mine[name] for name in mine if name not in there})
        else:
            differences = "; ".join(
                f"{name.replace('`', '')}: {known[name]} there, {wanted.get(name, 'absent')} now"
                for name in other
            )
            raise TablesRefused(
                f"{self.place}/{table} has other columns ({differences}); use the options that it"
                " was made with (--schema, --key and the like), or name another --out"
            )
        self._known.add(table)

    def replace(self, table: str, rows: DataFrame, shape: Shape) -> None:
        """Replace all rows of the table, as one commit."""
        shape = self.make(table, rows.schema, shape)
        self._replace(table, self._with_day(rows, shape), shape)

    def merge(self, table: str, rows: DataFrame, shape: Shape) -> None:
        """Add rows, or replace rows of the same key that are lower in `shape.newer`."""
        shape = self.make(table, rows.schema, shape)
        if shape.newer is None or not shape.keys:
            raise TablesRefused(
                f"{table}: there is no key or no column that decides which row is current"
            )
        rest = [name for name in rows.columns if name not in shape.keys]
        highest = F.max_by(F.struct(*rest), F.struct(shape.newer)).alias("_highest")
        single = rows.groupBy(*shape.keys).agg(highest).select(*shape.keys, "_highest.*")
        with persist(self._with_day(single.select(*rows.columns), shape)) as kept:
            if not kept.isEmpty():
                self._merge(table, kept, shape)

    def _merge(self, table: str, rows: DataFrame, shape: Shape) -> None:
        newer = quote(str(shape.newer))
        same = [f"t.{quote(key)} <=> s.{quote(key)}" for key in shape.keys]
        same += bounds(rows, shape, self.day)
        columns = ", ".join(map(quote, rows.columns))
        values = ", ".join(f"s.{quote(name)}" for name in rows.columns)
        changes = ", ".join(f"t.{quote(name)} = s.{quote(name)}" for name in rows.columns)
        rows.createOrReplaceTempView(VIEW)
        # A batch of a stream has its own session, and only that session knows the view.
        rows.sparkSession.sql(
            f"MERGE INTO {self.name(table)} t USING {VIEW} s ON {' AND '.join(same)}"
            f" WHEN MATCHED AND struct(s.{newer}) > struct(t.{newer}) THEN UPDATE SET {changes}"
            f" WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})"
        )

    def _with_day(self, rows: DataFrame, shape: Shape) -> DataFrame:
        """Return the rows with any further columns that the format needs for partitions."""
        return rows

    def make(self, table: str, schema: StructType, shape: Shape) -> Shape:
        """Create or check the table, and return `shape` restricted to the columns of `schema`."""
        found = shape.within(schema)
        if table in self._known:
            return found
        if self.exists(table):
            self.require(table, schema)
        else:
            self._create(table, schema, found)
            self._known.add(table)
        return found

    def _add_columns(self, table: str, columns: Mapping[str, Column]) -> None:
        within = tuple(f"{name}." for name in columns)
        new = (name for name in columns if not name.startswith(within))
        whole = [f"{name} {columns[name].ddl}" for name in new]
        if whole:
            self.spark.sql(f"ALTER TABLE {self.name(table)} ADD COLUMNS ({', '.join(whole)})")

    def _columns(self, schema: StructType) -> dict[str, Column]:
        """Return the columns by quoted name; a struct and its fields are separate, in any order."""
        return dict(_columns(schema, ""))


def _columns(schema: StructType, above: str) -> Iterator[tuple[str, Column]]:
    for field in schema.fields:
        name, ddl = f"{above}{quote(field.name)}", field.dataType.simpleString()
        if isinstance(field.dataType, StructType):
            yield name, Column("struct", ddl)
            yield from _columns(field.dataType, f"{name}.")
        else:
            yield name, Column(ddl, ddl)


class IcebergLake(Lake):
    """The tables of a catalog whose warehouse is the parent of the folder `place`."""

    kind = "iceberg"

    def __init__(
        self,
        spark: SparkSession,
        place: str,
        owner: str,
        catalog: Catalog | None = None,
    ) -> None:
        super().__init__(spark, place, owner)
        above, self._namespace = split_path(place)
        catalog = catalog or Catalog()
        self.catalog = declare_catalog(spark, catalog, above)
        try:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.{quote(self._namespace)}")
        except (PySparkException, Py4JError) as error:
            raise TablesRefused(
                f"the catalog at {catalog.uri or above} cannot be used ({first_line(error)});"
                " check that it runs and accepts this user, or correct --catalog"
            ) from None

    def name(self, table: str) -> str:
        return f"{self.catalog}.{quote(self._namespace)}.{quote(table)}"

    def exists(self, table: str) -> bool:
        try:
            return self.spark.catalog.tableExists(self.name(table))
        except (PySparkException, Py4JError) as error:
            raise TablesRefused(
                f"{self.place}/{table} is in the catalog, but cannot be read"
                f" ({first_line(error)}); drop it there, or name another --out"
            ) from None

    def properties(self, table: str) -> dict[str, str]:
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {self.name(table)}").collect()
        return {row.key: row.value for row in rows}

    def drop(self, table: str) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name(table)} PURGE")
        super().drop(table)

    def _has_batch(self, table: str, mark: Mark) -> bool:
        """Return whether the property or a snapshot of the table has this batch or a later one.

        If a process dies between the two commits, only the snapshot has the number.
        """
        kept = int(self.properties(table).get(f"{BATCH}.{mark.query}", -1))
        snapshots = self.spark.read.table(f"{self.name(table)}.snapshots")
        own = snapshots.where(F.col("summary")[QUERY] == mark.query)
        newest = own.agg(F.max(F.col("summary")[BATCH].cast("long"))).collect()[0][0]
        return mark.batch <= max(kept, -1 if newest is None else newest)

    def _create(self, table: str, schema: StructType, shape: Shape) -> None:
        none = self.spark.createDataFrame([], schema)
        writer = none.writeTo(self.name(table)).using("iceberg")
        for key, value in (
            (OWNER, self.owner),
            ("format-version", "2"),
            ("write.merge.mode", "merge-on-read"),
            ("write.update.mode", "merge-on-read"),
            ("write.parquet.compression-codec", "zstd"),
            # Each commit adds a metadata file; only the newest are kept.
            ("write.metadata.delete-after-commit.enabled", "true"),
            ("write.metadata.previous-versions-max", "20"),
        ):
            writer = writer.tableProperty(key, value)
        parts = [F.col(quote(name)) for name in shape.apart]
        if shape.day_of is not None:
            parts.append(F.partitioning.days(shape.day_of))
        if parts:
            writer = writer.partitionedBy(parts[0], *parts[1:])
        writer.create()
        if shape.order:
            order = ", ".join(map(quote, shape.order))
            distributed = "DISTRIBUTED BY PARTITION LOCALLY " if parts else ""
            self.spark.sql(f"ALTER TABLE {self.name(table)} WRITE {distributed}ORDERED BY {order}")

    def _append(self, table: str, rows: DataFrame, shape: Shape, mark: Mark) -> None:
        writer = rows.writeTo(self.name(table))
        writer = writer.option(f"snapshot-property.{QUERY}", mark.query)
        writer.option(f"snapshot-property.{BATCH}", str(mark.batch)).append()
        kept = f"'{BATCH}.{mark.query}' = '{mark.batch}'"
        self.spark.sql(f"ALTER TABLE {self.name(table)} SET TBLPROPERTIES ({kept})")

    def _replace(self, table: str, rows: DataFrame, shape: Shape) -> None:
        rows.writeTo(self.name(table)).overwrite(F.lit(True))


class DeltaLake(Lake):
    """Tables in folders `<place>/<table>`, partitioned by a separate column `day`.

    Queries by time need not mention `day`, because Delta's log has the bounds of each file.
    """

    kind = "delta"
    day = DAY

    def name(self, table: str) -> str:
        return f"delta.{quote(f'{self.place}/{table}')}"

    def exists(self, table: str) -> bool:
        try:
            self.spark.sql(f"DESCRIBE DETAIL {self.name(table)}").collect()
        except AnalysisException:
            return False
        return True

    def properties(self, table: str) -> dict[str, str]:
        row = self.spark.sql(f"DESCRIBE DETAIL {self.name(table)}").collect()[0]
        return dict(row.properties)

    def read(self, table: str) -> DataFrame:
        return super().read(table).drop(DAY)

    def _has_batch(self, table: str, mark: Mark) -> bool:
        return False  # Delta itself skips such a batch, by its txnVersion.

    def _create(self, table: str, schema: StructType, shape: Shape) -> None:
        none = self._with_day(self.spark.createDataFrame([], schema), shape)
        writer = none.writeTo(self.name(table)).using("delta").tableProperty(OWNER, self.owner)
        parts = [F.col(quote(name)) for name in _partition_columns(shape)]
        if parts:
            writer = writer.partitionedBy(parts[0], *parts[1:])
        writer.create()

    def _with_day(self, rows: DataFrame, shape: Shape) -> DataFrame:
        if shape.day_of is None:
            return rows
        return rows.withColumn(DAY, F.col(shape.day_of).cast("date"))

    def _replace(self, table: str, rows: DataFrame, shape: Shape) -> None:
        self._sort(rows, shape).write.format("delta").mode("overwrite").save(
            f"{self.place}/{table}"
        )

    def _sort(self, rows: DataFrame, shape: Shape) -> DataFrame:
        parts = _partition_columns(shape)
        if parts:
            rows = rows.repartition(*(F.col(quote(name)) for name in parts))
        if shape.order:
            inner = [name for name in shape.order if name not in parts]
            rows = rows.sortWithinPartitions(*(F.col(quote(n)) for n in (*parts, *inner)))
        return rows

    def _append(self, table: str, rows: DataFrame, shape: Shape, mark: Mark) -> None:
        writer = self._sort(rows, shape).write.format("delta").mode("append")
        writer = writer.option("txnAppId", f"{mark.query}/{table}")
        writer.option("txnVersion", str(mark.batch)).save(f"{self.place}/{table}")

    def _columns(self, schema: StructType) -> dict[str, Column]:
        columns = super()._columns(schema)
        columns.pop(quote(DAY), None)
        return columns


def open_lake(
    spark: SparkSession, kind: Format, place: str, owner: str, catalog: Catalog | None = None
) -> Lake:
    """Open the tables below `place`.

    Raises:
        TablesRefused: Tables cannot be written there.
    """
    if kind == "iceberg":
        return IcebergLake(spark, place, owner, catalog)
    if catalog is not None and catalog.kind != "hadoop":
        raise TablesRefused("--catalog: Delta keeps its log beside the data; leave it out")
    return DeltaLake(spark, place, owner)


def _partition_columns(shape: Shape) -> list[str]:
    return [*shape.apart, *([DAY] if shape.day_of is not None else [])]
