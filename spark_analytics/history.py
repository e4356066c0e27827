"""Recorded events in order, as DataFrames: what `inorder spark backfill` writes, without a folder.

`history` takes a DataFrame of events, `InorderSource` is a data source for files:

    spark.dataSource.register(InorderSource)
    windows = spark.read.format("inorder").option("topology", "t.yaml").option("table", "windows")
    windows.load("raw.jsonl")

Both give the tables of `spark_analytics.backfill.kinds`, and the lines are those of
`inorder replay`. One task orders all, as one process does in a replay, so its cost is that of a
replay for each table that is read, and one core: keep what is read twice. For years of events, and
for records of topics, there is the backfill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from agents.user_functions import bringing
from producers.recording.lines import lines_of
from producers.recording.replayed import replayed
from producers.recording.rows import NEEDED, NEEDED_BY_TIME, json_rows
from producers.recording.summary import Summary
from spark_analytics.backfill.kinds import TABLE_OF, TABLES, rows_of, schema_of
from spark_analytics.backfill.pieces import PieceRows, pieces_of
from spark_analytics.executors.setting import Setting, setting_of, topology_of
from topology.config import parse
from topology.flow.instants import whole_instants
from topology.wire.json_lines import step_lines
from topology.wire.line_reader import Row, reading_of

ROWS: Final = 16_384
"""The most rows of a batch."""
ARRIVAL: Final = "arrival"
TIE: Final = ("line", "offset", "source", "epoch", "seq")
"""The columns that decide which of two events of one arrival came first, if they are there."""


def history(events: DataFrame, topology: str) -> dict[str, DataFrame]:
    """The tables of these events, by the topology file at that path. The columns are the fields of
    a line of `inorder replay` (docs/input.md); `arrival`, in ns, is needed. ValueError without
    it, TopologyError for a topology file with faults."""
    if ARRIVAL not in events.columns:
        raise ValueError(
            "history: no column `arrival`, by which events are replayed; add it, in ns"
        )
    setting = _setting(topology)
    order = [ARRIVAL, *(name for name in TIE if name in events.columns)]
    lines = events.repartition(1).sortWithinPartitions(*order).select(F.to_json(F.struct("*")))
    return {
        table: lines.mapInArrow(
            OrderLines(setting, table).__call__, from_arrow_schema(schema_of(table))
        )
        for table in TABLES
    }


class OrderLines(NamedTuple):
    """The function of the task: lines of JSON in, in batches of one column, rows of a table out."""

    setting: Setting
    table: str

    def __call__(self, taken: Iterable[Any]) -> Iterator[Any]:
        lines = chain.from_iterable(batch.column(0).to_pylist() for batch in taken)
        return ordered(self.setting, self.table, json_rows(_Lines(lines)))


class InorderSource(DataSource):
    """`format("inorder")`. Options: `topology` (a file), `table` (default: `events`), and the path
    of `load`: a file as `inorder replay` reads it, or a folder of them in the order of their
    names."""

    @classmethod
    def name(cls) -> str:
        return "inorder"

    def schema(self) -> StructType:
        return from_arrow_schema(schema_of(self._table))

    def reader(self, schema: StructType) -> DataSourceReader:
        return FilesReader(_setting(self._option("topology")), self._option("path"), self._table)

    @property
    def _table(self) -> str:
        table = self.options.get("table", "events")
        if table not in TABLES:
            raise ValueError(f"option table: {table} is none of {', '.join(TABLES)}")
        return table

    def _option(self, name: str) -> str:
        value = self.options.get(name)
        if value is None:
            how = "load(PATH)" if name == "path" else f'option("{name}", FILE)'
            raise ValueError(f"{name} is missing; write .{how}")
        return value


class FilesReader(DataSourceReader):
    """One partition, which reads all files."""

    def __init__(self, setting: Setting, path: str, table: str) -> None:
        self._setting = setting
        self._pieces = pieces_of([path])
        self._table = table

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return ordered(self._setting, self._table, self._rows())

    def _rows(self) -> Iterator[Row]:
        by_time = reading_of(topology_of(self._setting)).by_time
        before = 0
        for piece in self._pieces:
            rows = PieceRows(piece, NEEDED_BY_TIME if by_time else NEEDED)
            for row in rows:
                yield row._replace(number=before + row.number)
            before += rows.lines


def ordered(setting: Setting, table: str, rows: Iterable[Row]) -> Iterator[Any]:
    """The rows of a table that follow from rows of events, as batches of Arrow."""
    topology = topology_of(setting)
    steps = replayed(topology, lines_of(rows, reading_of(topology)), Summary())
    held, positions, next_of = [], [], Counter[str | None]()
    for step in whole_instants(steps, topology):
        for line in step_lines(step):
            if TABLE_OF[line["kind"]] != table:
                continue
            held.append(line)
            positions.append(next_of[line["stream"]])
            next_of[line["stream"]] += 1
            if len(held) == ROWS:
                yield rows_of(table, held, positions)
                held, positions = [], []
    if held:
        yield rows_of(table, held, positions)


class _Lines:
    """Texts as a source of lines."""

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts

    def readline(self, _: int, /) -> bytes:
        text = next(self._texts, None)
        return b"" if text is None else text.encode() + b"\n"


def _setting(path: str) -> Setting:
    text = Path(path).read_text(encoding="utf-8")
    return setting_of(path, parse(text, bringing(Path(path).parent)))
