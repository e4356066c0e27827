"""Define the parts of jobs: tables, the user's options for them, and streams that share a topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_analytics.aggregates import Measures, Windows
from spark_analytics.tables.shapes import Settled, Shape
from topology.config import HeaderConfig, Topology

Named = TypeVar("Named", "Group", "Table")


class JobRefused(ValueError):
    """The error of a job that cannot run as requested; the message says what to write instead."""


@dataclass(frozen=True)
class Part:
    """One of several tables that a query writes.

    Attributes:
        name: The name of the table.
        keys: The columns that identify a row.
        pick: The function that makes its rows from the batch's rows.
        newer: The column that decides which of two rows with the same keys is current: the higher
            one. Outputs that cannot replace rows append both.
        settled: Columns that the keys determine, so that a MERGE reads less.
        kinds: The values in the column `Table.named_by` that mark its rows; if empty, only its name
            does.
        shape: How Iceberg or Delta store the table, if its keys do not determine it.
        folds: Whether the part has only the newest row of each key of another part; outputs that
            cannot replace rows then leave it out.
    """

    name: str
    keys: Sequence[str]
    pick: Callable[[DataFrame], DataFrame]
    newer: str | None = None
    settled: Settled | None = None
    kinds: Sequence[str] = ()
    shape: Shape | None = None
    folds: bool = False

    @property
    def named(self) -> Sequence[str]:
        return self.kinds or (self.name,)


@dataclass(frozen=True)
class Group:
    """Parts that are made from the records of `topics`.

    `rows` makes, once a batch, the rows from which the parts are picked; None means the records
    themselves.
    """

    name: str
    topics: Sequence[str]
    parts: Sequence[Part]
    rows: Callable[[DataFrame], DataFrame] | None = None

    @property
    def named(self) -> Sequence[str]:
        return self.topics

    def of(self, records: DataFrame) -> DataFrame:
        return records if self.rows is None else self.rows(records)


@dataclass(frozen=True)
class Table:
    """One query and the tables that it writes.

    Attributes:
        name: The name of the query, and of its table.
        rows: The rows to write.
        keys: The columns that identify a row of the table.
        store: A function (rows, path, batch) that writes the rows in its own way (archive).
        parts: The tables to write instead of this one.
        rest_s: If set, the query also runs batches without records. Without an interval it ends
            when nothing was read for this time.
        named_by: The column that names a row's part.
        groups: Groups of records of several topics, whose parts are written instead.
    """

    name: str
    rows: DataFrame
    keys: Sequence[str]
    store: Callable[[DataFrame, str, int], None] | None = None
    parts: Sequence[Part] = ()
    rest_s: float | None = None
    named_by: str | None = None
    groups: Sequence[Group] = ()

    @property
    def all_parts(self) -> list[Part]:
        """The parts that the query writes, also those of its groups; none if it is one table."""
        return [*self.parts, *(part for group in self.groups for part in group.parts)]

    def list_written(self) -> list[Part]:
        """Return all tables that the query writes."""
        return self.all_parts or [Part(self.name, self.keys, lambda rows: rows)]


@dataclass(frozen=True)
class Options:
    """The user's options for a job.

    Attributes:
        windows: The windows to aggregate over.
        keys: The columns to group by, in addition to the stream.
        measures: The columns to sum or take quantiles of.
        schema: The schema of payloads.
        tables: The tables to write; all if empty.
        in_lake: Whether the tables are Iceberg's or Delta's.
    """

    windows: Windows = field(default_factory=lambda: Windows("tumbling", "10 seconds"))
    keys: Sequence[str] = ("source",)
    measures: Measures = field(default_factory=Measures)
    schema: StructType | None = None
    tables: Sequence[str] = ()
    in_lake: bool = False


def choose(found: Sequence[Named], names: Sequence[str]) -> list[Named]:
    """Return the elements of `found` with these names, or all of them if there are no names.

    Raises:
        JobRefused: No element has a given name.
    """
    wanted = resolve_names([each.name for each in found], names)
    return [each for each in found if each.name in wanted]


def resolve_names(known: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """Return the given names, or all known ones if there are none.

    Raises:
        JobRefused: A name is unknown.
    """
    strange = [name for name in names if name not in known]
    if strange:
        raise JobRefused(f"--table {strange[0]}: the job has only {', '.join(known)}")
    return names or known


def inputs_of(topology: Topology) -> dict[str, list[str]]:
    """Return the names of the streams in each input topic."""
    return _streams_by_topic(topology, "input")


def outputs_of(topology: Topology) -> dict[str, list[str]]:
    """Return the names of the streams in each ordered topic."""
    return _streams_by_topic(topology, "output")


def _streams_by_topic(topology: Topology, end: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, stream in topology.streams.items():
        found.setdefault(getattr(stream, end), []).append(name)
    return found


def headers_of(topology: Topology, names: Sequence[str]) -> HeaderConfig:
    """Return the header contract of streams that share a topic.

    Only the headers of a record name its stream, so all must have the same contract.

    Raises:
        JobRefused: Their contracts differ.
    """
    contracts = {topology.streams[name].headers.contract() for name in names}
    if len(contracts) > 1:
        raise JobRefused(
            f"streams {', '.join(names)} share a topic and have different headers; give each"
            " its own topic"
        )
    return topology.streams[names[0]].headers
