"""What jobs are made of: tables, what is wanted of them, and which streams share a topic."""

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
    """The job cannot run as it was asked for; the message says what to write instead."""


@dataclass(frozen=True)
class Part:
    """One of several tables that a query writes: `pick` makes its rows from the batch's. With
    `newer` a row replaces the row with its keys if it is higher in that column; outputs that cannot
    replace rows add it. `settled`: columns that the keys determine, so that a MERGE reads less.
    `kinds`: the values in the column `Table.named_by` that mark rows of this part; none: its name.
    `shape`: how Iceberg or Delta keep the table, if its keys do not determine it. `folds`: the part
    holds only the newest row of each key of another part, so an output that cannot replace rows
    leaves it out."""

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
    """Parts that are made of the records of `topics`. `rows` makes of these what the parts pick
    from, once a batch; None: the records themselves."""

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
    """One query. `keys` name a row among those of the table. `store` writes in a way of its own
    (archive): (rows, path, batch). With `parts` these are written, and the table is not; with
    `groups` theirs, of records of several topics. With `rest_s` it has batches also where nothing
    comes, and is at its end when nothing has come for so long. `named_by`: the column that says
    which part a row is of."""

    name: str
    rows: DataFrame
    keys: Sequence[str]
    store: Callable[[DataFrame, str, int], None] | None = None
    parts: Sequence[Part] = ()
    rest_s: float | None = None
    named_by: str | None = None
    groups: Sequence[Group] = ()

    @property
    def several(self) -> list[Part]:
        """The tables that come of it, where it is none itself."""
        return [*self.parts, *(part for group in self.groups for part in group.parts)]

    def written(self) -> list[Part]:
        """The tables that come of it."""
        return self.several or [Part(self.name, self.keys, lambda rows: rows)]


@dataclass(frozen=True)
class Wanted:
    """What the user asks a job for. `keys` come in addition to the stream. `tables`: none: all.
    `in_lake`: whether the tables are Iceberg's or Delta's."""

    windows: Windows = field(default_factory=lambda: Windows("tumbling", "10 seconds"))
    keys: Sequence[str] = ("source",)
    measures: Measures = field(default_factory=Measures)
    schema: StructType | None = None
    tables: Sequence[str] = ()
    in_lake: bool = False


def chosen(found: Sequence[Named], names: Sequence[str]) -> list[Named]:
    """Those with these names; all where none is named. JobRefused for a name that none has."""
    wanted = chosen_names([each.name for each in found], names)
    return [each for each in found if each.name in wanted]


def chosen_names(known: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """As `chosen`, of names."""
    strange = [name for name in names if name not in known]
    if strange:
        raise JobRefused(f"--table {strange[0]}: the job has {', '.join(known)}")
    return names or known


def inputs_of(topology: Topology) -> dict[str, list[str]]:
    """The streams of each raw topic."""
    return _by_topic(topology, "input")


def outputs_of(topology: Topology) -> dict[str, list[str]]:
    """The streams of each ordered topic."""
    return _by_topic(topology, "output")


def _by_topic(topology: Topology, end: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, stream in topology.streams.items():
        found.setdefault(getattr(stream, end), []).append(name)
    return found


def headers_of(topology: Topology, names: Sequence[str]) -> HeaderConfig:
    """The contract of streams that share a topic; which stream a record is of is known only
    from its headers."""
    contracts = {topology.streams[name].headers.contract() for name in names}
    if len(contracts) > 1:
        raise JobRefused(
            f"streams {', '.join(names)} share a topic and have different headers; give them"
            " topics of their own"
        )
    return topology.streams[names[0]].headers
