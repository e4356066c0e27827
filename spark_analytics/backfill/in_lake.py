"""The tables of a backfill in Iceberg or Delta, under the names that the job `events` has.

| table                                   | rows                                                 |
|-----------------------------------------|------------------------------------------------------|
| `events`, `gaps`, `late`, `duplicates`, | each line of the kind once                           |
| `dead`, `windows`, `matches`, `joins`   |                                                      |
| `windows_standing` and so on            | of these three the newest revision of each id;       |
|                                         | `standing` is false where it was taken back          |
| `overflows_matches`, `overflows_joins`  | a query had more to say than its bound               |
| `bad`, with a schema                    | events whose payload is not of it                    |

`matches` has single matches, sets of them and what detectors say, apart by `kind`, and `position`
counts each kind of line for itself: a row of a table is one by `stream`, `kind` and `position`.
With a schema the `payload` of `events` is a struct; an event whose payload is none of it lies in
`bad`.

A run's rows come from what it has staged, and the same ones whenever they are brought in: an append
bears the number of the run, by which a table knows it again, and MERGE may be done twice. So
whoever is killed amid them begins once more (`resuming`).

Cost: a run's rows are written twice, once by the tasks and once more into the table, sorted; those
of results a third time where they are merged.

Proved by: tests/spark_analytics/backfill/test_in_lake.py,
tests/spark_analytics/backfill/test_lake_rows.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_analytics import payload
from spark_analytics.backfill.kinds import LINE, POSITION, schema_of
from spark_analytics.backfill.resuming import Coming
from spark_analytics.silver import RESULT_TABLES, settled_by_id
from spark_analytics.tables.catalog import TablesRefused
from spark_analytics.tables.lake import Lake, Mark
from spark_analytics.tables.shapes import SHAPES, Shape
from topology.config import Topology

QUERY: Final = "backfill"
"""Whose batches the runs are, for tables that know them by number."""

PATTERN: Final = "*?[]{}\\"
PLACED: Final = ("stream", POSITION)
EVERY_WORD: Final = Shape(
    (*PLACED, "kind"), ("query",), "start_time", ("query", "start_time", POSITION)
)
"""A table of results, each word of them."""

STANDING: Final = "_standing"
BAD: Final = "bad"
RESULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "windows": {"windows": "window"},
    "matches": {"matches": "match", "match_sets": "match_set"},
    "joins": {"joins": "join"},
}
"""By table what tasks write that comes into it, and the kind of its lines."""

OVERFLOWS: Final = ("matches", "joins")


class Rows(NamedTuple):
    """What comes into a table, from the files of `kinds`; `merged`: a row takes the place of the
    one of its id."""

    table: str
    kinds: Sequence[str]
    rows: DataFrame
    shape: Shape
    merged: bool = False


class LakeTables:
    """`schema`: of payloads; None: they are text."""

    def __init__(self, lake: Lake, topology: Topology, schema: StructType | None = None) -> None:
        self._lake = lake
        self._schema = schema
        self._settled = settled_by_id(topology)
        kinds = {name: RESULT_TABLES[query.kind] for name, query in topology.queries.items()}
        self._queries_of = {
            table: [name for name, of in kinds.items() if of == table] for table in OVERFLOWS
        }

    def require(self, *, made: bool | None) -> None:
        """TablesRefused if one is another's or has other columns. `made`: whether they are there;
        None: some of them may be."""
        self._refuse_pattern()
        for each in self.rows({}):
            name = f"{self._lake.place}/{each.table}"
            if not self._lake.exists(each.table):
                if made:
                    raise TablesRefused(
                        f"{name} is not there any more, and what came into it nobody has; backfill"
                        " anew into a new folder"
                    )
                continue
            if made is False:
                raise TablesRefused(
                    f"{name} is there already, in the catalog if not in the folder, and a backfill"
                    " writes over nothing; name another --out, or drop the tables of that one"
                )
            self._lake.require(each.table, each.rows.schema)

    def _refuse_pattern(self) -> None:
        """What is staged lies beside the tables, and Spark takes such an address for a pattern."""
        found = sorted(set(PATTERN) & set(self._lake.place))
        if found:
            raise TablesRefused(
                f"--out {self._lake.place}: Spark reads {' '.join(found)} in the name of a folder"
                " as part of a pattern, and finds nothing there; name a folder without"
            )

    def bring(self, coming: Coming) -> None:
        files: dict[str, list[str]] = {}
        for file in coming.files:
            files.setdefault(file.table, []).append(f"{coming.staged}/{file.table}/{file.name}")
        for each in self.rows(files):
            if coming.run == 1:
                self._lake.make(each.table, each.rows.schema, each.shape)
            if not any(kind in files for kind in each.kinds) or each.rows.isEmpty():
                continue
            if each.merged:
                self._lake.merge(each.table, each.rows, each.shape)
            else:
                self._lake.append(each.table, each.rows, each.shape, Mark(QUERY, coming.run))

    def drop(self) -> None:
        """All of them, with what is in them."""
        for each in self.rows({}):
            self._lake.drop(each.table)

    def rows(self, files: Mapping[str, list[str]]) -> Iterator[Rows]:
        """What comes into each table of what tasks have written: addresses by kind."""

        def read(kind: str) -> DataFrame:
            schema = from_arrow_schema(schema_of(kind))
            if kind not in files:
                return self._lake.spark.createDataFrame([], schema)
            return self._lake.spark.read.schema(schema).parquet(*files[kind])

        yield from self._of_events(read("events"))
        by_time = Shape(PLACED, ("stream",), "at", ("stream", "at", POSITION))
        for table in ("late", "duplicates", "dead"):
            yield Rows(table, [table], read(table), by_time)
        yield Rows("gaps", ["gaps"], read("gaps"), SHAPES["gaps"])
        for table, kinds in RESULTS.items():
            rows = _results({kind: read(name) for name, kind in kinds.items()})
            yield Rows(table, [*kinds], rows, EVERY_WORD)
            name = f"{table}{STANDING}"
            shape = replace(SHAPES[name], settled=self._settled)
            yield Rows(name, [*kinds], rows, shape, merged=True)
        overflows = read("overflows")
        for table, queries in self._queries_of.items():
            own = overflows.where(F.col("query").isin(queries))
            yield Rows(f"overflows_{table}", ["overflows"], own, by_time)

    def _of_events(self, events: DataFrame) -> Iterator[Rows]:
        if self._schema is None:
            yield Rows("events", ["events"], events, SHAPES["events"])
            return
        nothing = F.lit(None).cast("string")
        given = {"value": F.col("payload"), "kind": F.lit("")}
        typed = payload.with_payload(
            events.withColumns({**given, "fault": nothing, "detail": nothing}), self._schema
        )
        sound = typed.where(F.col("fault").isNull())
        yield Rows("events", ["events"], sound.select(*events.columns), SHAPES["events"])
        bad = typed.where(F.col("fault").isNotNull()).withColumnRenamed("reason", "late_reason")
        bad = bad.withColumnRenamed("fault", "reason")
        columns = ("stream", "source", "epoch", "seq", "reason", "detail", "at_ns", "at")
        shape = Shape(PLACED, ("stream",), order=PLACED)
        yield Rows(BAD, ["events"], bad.select(*columns, POSITION, LINE), shape)


def _results(by_kind: Mapping[str, DataFrame]) -> DataFrame:
    """Lines of these kinds as rows of one table."""
    kinds = [rows.withColumn("kind", F.lit(kind)) for kind, rows in by_kind.items()]
    found = kinds[0]
    for rows in kinds[1:]:
        found = found.unionByName(rows, allowMissingColumns=True)
    if "match" in by_kind:
        stands = F.get_json_object(LINE, "$.stands").cast("double")
        found = found.withColumn("stands", stands)
    return found.withColumn("standing", F.col("op") != "retract")
