"""Write the tables of a backfill, or of a live job, to Iceberg or Delta.

The tables have the names that the job `events` uses.

| table                                   | rows                                                 |
|-----------------------------------------|------------------------------------------------------|
| `events`, `gaps`, `late`, `duplicates`, | each line of the kind once                           |
| `dead`, `windows`, `matches`, `joins`   |                                                      |
| `windows_current`, `matches_current`,   | the newest revision of each result, by its id;       |
| `joins_current`                         | `current` is false if it was retracted               |
| `overflows_matches`, `overflows_joins`  | events for which a query had more results than its   |
|                                         | bound                                                |
| `bad`, with a schema                    | events whose payload does not fit the schema         |

`matches` has single matches, sets of matches and results of detectors, which `kind` distinguishes.
`position` counts each kind of line separately, so `stream`, `kind` and `position` identify a row.
With a schema, the `payload` of `events` is a struct.

A backfill's rows come from its staged files, which do not change. An append carries the number of
the run, so a table recognizes a repeated append. A MERGE may be repeated. If a run is killed while
it adds its rows, the next run can therefore add them again (`resuming`).

A backfill's rows are written twice: once by the tasks, and once into the table, sorted. Rows of
results are written a third time, when they are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_analytics import payload
from spark_analytics.backfill.kinds import LINE, POSITION, schema_of
from spark_analytics.backfill.resuming import PendingRows
from spark_analytics.silver import RESULT_TABLES, settled_by_id
from spark_analytics.tables.catalog import TablesRefused
from spark_analytics.tables.lake import Lake, Mark
from spark_analytics.tables.shapes import SHAPES, Shape
from topology.config import Topology

QUERY: Final = "backfill"
"""The query name under which tables record the number of a run, as if it were a batch."""

PATTERN: Final = "*?[]{}\\"
PLACED: Final = ("stream", POSITION)
EVERY_WORD: Final = Shape(
    (*PLACED, "kind"), ("query",), "start_time", ("query", "start_time", POSITION)
)
"""The shape of a table of results with every revision."""

CURRENT: Final = "_current"
BAD: Final = "bad"
RESULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "windows": {"windows": "window"},
    "matches": {"matches": "match", "match_sets": "match_set"},
    "joins": {"joins": "join"},
}
"""The tables that tasks write for each table of results, with the kind of their lines."""

OVERFLOWS: Final = ("matches", "joins")


Read = Callable[[str], DataFrame]
"""A function that reads the staged rows of a table, with its columns in `kinds.TABLES`."""


class LakeTable(NamedTuple):
    """A table in a lake, whose rows `make` computes from the lines of `kinds`.

    If it is `merged`, a row replaces the row with the same id.
    """

    name: str
    kinds: Sequence[str]
    made: Callable[[Read], DataFrame]
    shape: Shape
    merged: bool = False


def lake_tables(topology: Topology, schema: StructType | None = None) -> list[LakeTable]:
    """Return all tables that a backfill has in a lake; without a `schema` payloads are text."""
    found = _make_event_tables(schema)
    by_time = Shape(PLACED, ("stream",), "at_time", ("stream", "at_time", POSITION))
    found += [_plain(table, by_time) for table in ("late", "duplicates", "dead")]
    found.append(_plain("gaps", SHAPES["gaps"]))
    settled = settled_by_id(topology)
    for table, kinds in RESULTS.items():
        found.append(LakeTable(table, [*kinds], _make_results_reader(kinds), EVERY_WORD))
        name = f"{table}{CURRENT}"
        shape = replace(SHAPES[name], settled=settled)
        found.append(LakeTable(name, [*kinds], _make_results_reader(kinds), shape, merged=True))
    for table in OVERFLOWS:
        queries = [
            name for name, query in topology.queries.items() if RESULT_TABLES[query.kind] == table
        ]
        found.append(
            LakeTable(f"overflows_{table}", ["overflows"], _make_overflows_reader(queries), by_time)
        )
    return found


class LakeTables:
    """The tables of a lake; without a `schema` payloads are text."""

    def __init__(self, lake: Lake, topology: Topology, schema: StructType | None = None) -> None:
        self._lake = lake
        self.tables = lake_tables(topology, schema)

    def require(self, *, made: bool | None) -> None:
        """Check that the existing tables fit this run.

        If `made` is True, all tables must exist. If it is False, none may exist. If it is None,
        some may.

        Raises:
            TablesRefused: A table has another owner or other columns. Or it is absent although it
                must exist, or exists although it must not.
        """
        self._refuse_pattern()
        for each in self.tables:
            name = f"{self._lake.place}/{each.name}"
            if not self._lake.exists(each.name):
                if made:
                    raise TablesRefused(
                        f"{name} no longer exists, and its rows are lost; run the backfill again"
                        " into a new folder"
                    )
                continue
            if made is False:
                raise TablesRefused(
                    f"{name} exists already, in the folder or in the catalog, and a backfill does"
                    " not overwrite tables; name another --out, or drop the tables there"
                )
            self._lake.require(each.name, self.rows(each, {}).schema)

    def _refuse_pattern(self) -> None:
        """Raise TablesRefused if Spark would read the address of the staged files as a pattern."""
        found = sorted(set(PATTERN) & set(self._lake.place))
        if found:
            raise TablesRefused(
                f"--out {self._lake.place}: Spark treats {' '.join(found)} in a path as part of a"
                " pattern and would find nothing there; name a folder without these characters"
            )

    def add_pending(self, pending: PendingRows) -> None:
        files: dict[str, list[str]] = {}
        for file in pending.files:
            files.setdefault(file.table, []).append(f"{pending.staged}/{file.table}/{file.name}")
        for each in self.tables:
            rows = self.rows(each, files)
            if pending.run == 1:
                self._lake.make(each.name, rows.schema, each.shape)
            if files.keys().isdisjoint(each.kinds) or rows.isEmpty():
                continue
            if each.merged:
                self._lake.merge(each.name, rows, each.shape)
            else:
                self._lake.append(each.name, rows, each.shape, Mark(QUERY, pending.run))

    def drop(self) -> None:
        """Remove all tables with their rows."""
        for each in self.tables:
            self._lake.drop(each.name)

    def rows(self, table: LakeTable, files: Mapping[str, list[str]]) -> DataFrame:
        """Return the rows to add to the table; `files` has the paths of staged files, by kind."""

        def read(kind: str) -> DataFrame:
            schema = from_arrow_schema(schema_of(kind))
            if kind not in files:
                return self._lake.spark.createDataFrame([], schema)
            return self._lake.spark.read.schema(schema).parquet(*files[kind])

        return table.made(read)


def _plain(table: str, shape: Shape) -> LakeTable:
    return LakeTable(table, [table], lambda read: read(table), shape)


def _make_event_tables(schema: StructType | None) -> list[LakeTable]:
    if schema is None:
        return [_plain("events", SHAPES["events"])]

    def type_rows(read: Read) -> DataFrame:
        events = read("events")
        nothing = F.lit(None).cast("string")
        given = {"value": F.col("payload"), "kind": F.lit("")}
        return payload.with_payload(
            events.withColumns({**given, "fault": nothing, "detail": nothing}), schema
        )

    def select_sound(read: Read) -> DataFrame:
        return type_rows(read).where(F.col("fault").isNull()).select(*read("events").columns)

    def select_unreadable(read: Read) -> DataFrame:
        found = type_rows(read).where(F.col("fault").isNotNull())
        found = found.withColumnRenamed("reason", "late_reason")
        columns = ("stream", "source", "epoch", "seq", "reason", "detail", "at_ns", "at_time")
        return found.withColumnRenamed("fault", "reason").select(*columns, POSITION, LINE)

    shape = Shape(PLACED, ("stream",), order=PLACED)
    return [
        LakeTable("events", ["events"], select_sound, SHAPES["events"]),
        LakeTable(BAD, ["events"], select_unreadable, shape),
    ]


def _make_results_reader(kinds: Mapping[str, str]) -> Callable[[Read], DataFrame]:
    """Return a function that makes the rows of one table of results.

    The keys of `kinds` are the tables of the tasks to read, and its values are the kinds of lines.
    """

    def make(read: Read) -> DataFrame:
        rows = [read(name).withColumn("kind", F.lit(kind)) for name, kind in kinds.items()]
        found = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), rows)
        return found.withColumn("current", F.col("op") != "retract")

    return make


def _make_overflows_reader(queries: Sequence[str]) -> Callable[[Read], DataFrame]:
    return lambda read: read("overflows").where(F.col("query").isin([*queries]))
