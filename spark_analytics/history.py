"""Put recorded events in order, as DataFrames: the tables of `inorder spark backfill`.

Nothing is written. `history` takes a DataFrame of events, and `InorderSource` is a data source for
files and topics:

    spark.dataSource.register(InorderSource)
    windows = spark.read.format("inorder").option("topology", "t.yaml").option("table", "windows")
    windows.load("raw.jsonl")

Both return the tables of `spark_analytics.backfill.kinds`, and the lines equal those of `inorder
replay`. A single task orders all events. Each table that is read therefore costs a replay on one
core, so cache a table that is read twice. For years of events use the backfill. A topic that
workers have ordered is read unchanged, also by `readStream` (`spark_analytics.topic_source`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from agents.user_functions import make_loader
from recordings.lines import lines_of
from recordings.replayed import replay_lines
from recordings.rows import json_rows
from recordings.summary import Summary
from spark_analytics.backfill.kinds import TABLE_OF, TABLES, rows_of, schema_of
from spark_analytics.backfill.pieces import Piece, PieceRows, pieces_of
from spark_analytics.backfill.work import split_into_chunks
from spark_analytics.executors.setting import Setting, setting_of, topology_of
from spark_analytics.topic_source import (
    UNBOUNDED,
    Cluster,
    OrderedReader,
    OrderedStream,
    topic_rows,
)
from topology.config import Topology, parse
from topology.records.json_lines import make_step_lines
from topology.records.line_reader import Row
from topology.stage.instants import whole_instants

ROWS: Final = 16_384
"""The maximum number of rows in an Arrow batch."""
GOES_ON: Final = "processingTime"
ARRIVAL: Final = "arrival"
TIE: Final = ("line", "offset", "source", "epoch", "seq")
"""The columns that order events with the same arrival, if they are present."""


def history(events: DataFrame, topology: str) -> dict[str, DataFrame]:
    """Return the tables that result from these events, by the topology file at the path `topology`.

    The columns of `events` are the fields of an input line of `inorder replay`
    (docs/guides/connect.md).

    Raises:
        ValueError: There is no column `arrival` (in ns).
        TopologyError: The topology file has faults.
    """
    if ARRIVAL not in events.columns:
        raise ValueError(
            "history: there is no column `arrival`, which gives the order of events; add it, in"
            " nanoseconds"
        )
    setting = _read_setting(topology)
    order = [ARRIVAL, *(name for name in TIE if name in events.columns)]
    lines = events.repartition(1).sortWithinPartitions(*order).select(F.to_json(F.struct("*")))
    return {
        table: lines.mapInArrow(
            OrderLines(setting, table).__call__, from_arrow_schema(schema_of(table))
        )
        for table in TABLES
    }


class OrderLines(NamedTuple):
    """The function of the single task: it converts batches of JSON lines to the rows of a table."""

    setting: Setting
    table: str

    def __call__(self, taken: Iterable[Any]) -> Iterator[Any]:
        lines = chain.from_iterable(batch.column(0).to_pylist() for batch in taken)
        return order(self.setting, self.table, json_rows(_Lines(lines)))


class InorderSource(DataSource):
    """The data source `format("inorder")`, for files and topics.

    Its options are `topology` (a file), `table` (default: `events`), and the path of `load`. The
    path is a file for `inorder replay`, or a folder of such files, read in the order of their
    names. With `brokers` the path is a topic: an ordered one, or input topics, which are put in
    order. Input topics are separated by commas; a join needs those of all its streams. `kafka` is a
    file, as for `--kafka`.

    `readStream` takes an ordered topic. A micro-batch reads up to the topic's end. With the trigger
    `processingTime`, `max_per_batch` limits its offsets; the option `trigger` must then be
    `processingTime`.
    """

    @classmethod
    def name(cls) -> str:
        return "inorder"

    def schema(self) -> StructType:
        return from_arrow_schema(schema_of(self._table))

    def reader(self, schema: StructType) -> DataSourceReader:
        setting, path, table = self._setting(), self._option("path"), self._table
        if "brokers" not in self.options:
            return RowsReader(setting, table, partial(file_rows, setting, pieces_of([path])))
        topology = topology_of(setting)
        if path in _ordered_topics(topology):
            self._refuse_other_tables(path)
            return OrderedReader(setting, self._make_cluster(), path)
        topics = path.split(",")
        inputs = {stream.input for stream in topology.streams.values()}
        if not inputs.issuperset(topics):
            raise ValueError(
                f"load({path}): the topology has the input topics {', '.join(sorted(inputs))} and"
                f" the ordered topics {', '.join(_ordered_topics(topology))}; name one of these"
            )
        return RowsReader(
            setting, table, partial(topic_rows, self._make_cluster(), setting, topics)
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        setting, topic = self._setting(), self._option("path")
        ordered = _ordered_topics(topology_of(setting))
        if topic not in ordered:
            raise ValueError(
                f"load({topic}): a stream can read only topics that workers have put in order; name"
                f" one of {', '.join(ordered)}, or use `inorder spark live` for an input topic"
            )
        self._refuse_other_tables(topic)
        most = self.options.get("max_per_batch", str(UNBOUNDED))
        if not most.isdecimal() or int(most) < 1:
            raise ValueError(f"option max_per_batch: {most} is not a whole number of at least 1")
        if int(most) < UNBOUNDED and self.options.get("trigger") != GOES_ON:
            # Spark does not pass the trigger to a Python data source.
            raise ValueError(
                "option max_per_batch: under the triggers availableNow and once, Spark asks only"
                " once how far to read, so records beyond the bound would stay unread; leave"
                f' max_per_batch out, or add option("trigger", "{GOES_ON}") to a continuous query'
            )
        return OrderedStream(setting, self._make_cluster(), topic, int(most))

    def _setting(self) -> Setting:
        return _read_setting(self._option("topology"))

    def _make_cluster(self) -> Cluster:
        kafka = self.options.get("kafka")
        properties = "" if kafka is None else Path(kafka).read_text(encoding="utf-8")
        return Cluster(self._option("brokers"), properties)

    def _refuse_other_tables(self, topic: str) -> None:
        if self._table != "events":
            raise ValueError(f"option table: {topic} has only ordered events; leave the option out")

    @property
    def _table(self) -> str:
        table = self.options.get("table", "events")
        if table not in TABLES:
            raise ValueError(f"option table: {table} is not one of {', '.join(TABLES)}")
        return table

    def _option(self, name: str) -> str:
        value = self.options.get(name)
        if value is None:
            hows = {"path": "load(PATH or TOPIC)", "brokers": 'option("brokers", "HOST:PORT")'}
            how = hows.get(name, f'option("{name}", FILE)')
            raise ValueError(f"{name} is missing; write .{how}")
        return value


class RowsReader(DataSourceReader):
    """A reader with one partition, whose single task puts all events in `rows` in order."""

    def __init__(self, setting: Setting, table: str, rows: Callable[[], Iterator[Row]]) -> None:
        self._setting = setting
        self._table = table
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return order(self._setting, self._table, self._rows())


def file_rows(setting: Setting, pieces: Sequence[Piece]) -> Iterator[Row]:
    """Yield the rows of all pieces, numbered as in one file."""
    before = 0
    for piece in pieces:
        rows = PieceRows(piece, topology_of(setting))
        for row in rows:
            yield row._replace(number=before + row.number)
        before += rows.lines


def order(setting: Setting, table: str, rows: Iterable[Row]) -> Iterator[Any]:
    """Yield the rows of a table that result from rows of events, as Arrow record batches."""
    topology = topology_of(setting)
    steps = replay_lines(topology, lines_of(rows, topology.reading()), Summary())
    lines = (line for step in whole_instants(steps, topology) for line in make_step_lines(step))
    next_of = Counter[str | None]()
    for held in split_into_chunks(
        (line for line in lines if TABLE_OF[line["kind"]] == table), ROWS
    ):
        positions = []
        for line in held:
            positions.append(next_of[line["stream"]])
            next_of[line["stream"]] += 1
        yield rows_of(table, held, positions)


class _Lines:
    """A `LineSource` that reads its lines from an iterator of texts."""

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts

    def readline(self, _: int, /) -> bytes:
        text = next(self._texts, None)
        return b"" if text is None else text.encode() + b"\n"


def _ordered_topics(topology: Topology) -> list[str]:
    return sorted({stream.output for stream in topology.streams.values()})


def _read_setting(path: str) -> Setting:
    text = Path(path).read_text(encoding="utf-8")
    return setting_of(path, parse(text, make_loader(Path(path).parent)))
