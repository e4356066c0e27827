"""Define the job `events`, which writes the records of all topics as typed rows in tables.

| group            | input                     | tables                                         |
|------------------|---------------------------|------------------------------------------------|
| `events`         | all ordered topics        | `events`, `bad`, `frontiers`                   |
| `late`           | the late topic            | `late`, `bad-late`                             |
| `gaps`           | the gaps topic            | `gaps`, `bad-gaps`                             |
| `dead`           | the dead topic            | `dead`                                         |
| `windows` …      | a results topic           | `windows`, `windows-current`, `bad-windows`    |

On streams one query reads all topics. A batch takes the new records of each, and writes the tables
that have new rows.

`matches` and `joins` are like `windows`. They have tables `overflows-matches` and `overflows-joins`
too, with the events for which a query had more results than its bound. `matches` has single
matches, sets of matches and results of detectors, which `kind` distinguishes.

`events` has every event of the ordered topic, including those marked late (`late` is true then, and
`reason` says why). `late` has the events of the late topic. `windows` has every revision, so that
`as_of` finds the results that were current at a time of the arrival clock. `windows-current` has
the record of the highest revision of each id, retracted or not (`current`).

`frontiers` has, for each stream, the newest watermark and completeness frontier that the merge
announced. It is written after the events of its batch. So a reader that reads first `frontiers` and
then `events` finds every event before the completeness frontier.

Columns that a backfill's tables have too (`spark_analytics.backfill.kinds`) have the same names and
types. Nanoseconds are longs named `_ns`, timestamps have no such suffix, and nested values are JSON
text.

`payload` is a struct if a schema is given, else the value as text. A value that is not UTF-8 stays
in `value`, which is null otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics import decode, disorder, payload, results
from spark_analytics.backfill.kinds import INSTANT, LONG, RESULT, TABLES
from spark_analytics.instants import to_timestamp
from spark_analytics.jobs.topics import Topics
from spark_analytics.jobs.work import Group, Options, Part, Table, choose, headers_of, outputs_of
from spark_analytics.tables.shapes import EVENT, PLACE, Settled
from topology.base.event import WATERMARK
from topology.config import JoinQuery, Topology, WindowQuery

COLUMNS: Final = 6
"""The version of these tables' columns and queries; raise it when either changes.

Batches of two versions would not form one table, so the checkpoint of an earlier version is
refused.
"""
EVENTS: Final = (
    *("stream", "source", "epoch", "seq", "type", "ref_time", "ref_ns", "error_ns", "late"),
    *("reason", "segment", "ts_ns", "at_time", "at_ns", "key", "payload", "value"),
    *("topic", "partition", "offset"),
)
LATE: Final = (
    *("stream", "source", "epoch", "seq", "type", "ref_time", "ts_ns", "reason", "appended_ns"),
    *("key", "payload", "value", "topic", "partition", "offset"),
)
DEAD: Final = (
    "stream STRING, source STRING, epoch BIGINT, seq BIGINT, topic STRING, partition INT,"
    " offset BIGINT, reason STRING, at BIGINT, detail STRING"
)
REASON: Final = "reason"
PLACED: Final = decode.RECORD[:4]
HEAD: Final = [column.name for column in RESULT]
OWN: Final[Mapping[str, Sequence[str]]] = {
    "windows": ("values", "low", "high", "expected"),
    "matches": ("events", "values", "count", "ranges", "joined"),
    "joins": ("events", "values", "probability"),
}
"""The columns that only the results of each table have."""
TAIL: Final = ("at_ns", "at_time", results.LINE)
AS_TEXT: Final = f"{results.FIELDS}, key VARIANT, events STRING"
"""The schema of results with a variant as key, which distinguishes a text from a number.

As STRING, the key 1 and the key "1" would be equal.
"""
TIMES: Final = [each for each in (*RESULT, *TABLES["gaps"]) if each.name != each.key]
"""The columns of times, which tables have as longs named `_ns` or as timestamps."""
RESULT_TABLES: Final = {
    "window": "windows",
    "pattern": "matches",
    "detector": "matches",
    "join": "joins",
}
SETTLED_WINDOWS: Final = ("tumbling", "sliding")
"""The kinds of windows whose start never changes; that of a session or count window may move."""

BOUNDED: Final = frozenset({"matches", "joins"})
"""The tables whose queries may have more results for an event than their bound."""


def events_tables(topics: Topics, topology: Topology, options: Options) -> list[Table]:
    """Return one table for all topics on a stream, or one table per group for bounded topics."""
    groups = choose(groups_of(topology, options), options.tables)
    if topics.streaming:
        asked = sorted({topic for group in groups for topic in group.topics})
        return [Table("events", topics.records(*asked), PLACE, groups=groups)]
    return [
        Table(group.name, group.of(topics.records(*group.topics)), PLACE, parts=group.parts)
        for group in groups
    ]


def groups_of(topology: Topology, options: Options) -> list[Group]:
    side = topology.topics
    results_of = result_topics_by_table(topology).items()
    return [
        _make_events_group(topology, options),
        _late(topology, options),
        _make_gaps_group(side.gaps),
        Group("dead", [side.dead], [Part("dead", ("letter_offset",), _decode_dead_letters)]),
        *(make_results_group(own, table, settled_by_id(topology)) for table, own in results_of),
    ]


def result_topics_by_table(topology: Topology) -> dict[str, list[str]]:
    """Return the topics of each table of results: its operators', and those of single queries."""
    found = {RESULT_TABLES[name]: [topic] for name, topic in topology.result_topics.items()}
    for query, topic in topology.result_tables.items():
        found[RESULT_TABLES[topology.queries[query].kind]].append(topic)
    return found


def settled_by_id(topology: Topology) -> Settled:
    """Return the columns that the id of a result determines (`topology.base.result`).

    An id determines its query. For some queries it also determines the start, which is the column
    `start_time`. These are queries whose windows are identified by their start, and joins, whose
    rows are identified by their events. The id of a match names only one of its events, and others
    may be earlier.
    """
    timed = [
        name
        for name, query in topology.queries.items()
        if isinstance(query, JoinQuery)
        or (isinstance(query, WindowQuery) and query.window.kind in SETTLED_WINDOWS)
    ]
    return Settled("query", "start_time", frozenset(timed))


def as_of(rows: DataFrame, at_ns: int) -> DataFrame:
    """Return the results that were current at a time of the arrival clock.

    `rows` is a table of all revisions, such as `windows`.
    """
    return results.current(rows.where(F.col("at_ns") <= at_ns).drop("current"))


def _make_events_group(topology: Topology, options: Options) -> Group:
    """Build the group of ordered events; it has no watermark, so streams need not be separated."""
    outputs = outputs_of(topology)

    def rows(records: DataFrame) -> DataFrame:
        return reduce(
            DataFrame.unionByName,
            (of_topic(records, topic, names) for topic, names in outputs.items()),
        )

    def of_topic(records: DataFrame, topic: str, names: Sequence[str]) -> DataFrame:
        own = records.where(F.col("topic") == topic)
        decoded = decode.decode_ordered(own, headers_of(topology, names))
        return _with_payload(decode.mark_unknown_streams(decoded, names), options)

    parts = [
        Part("events", EVENT, _sound_events),
        Part("bad", PLACE, _select_bad),
        Part("frontiers", ("stream",), _frontiers, newer="watermark_ns"),
    ]
    return Group("events", list(outputs), parts, rows)


def _sound_events(rows: DataFrame) -> DataFrame:
    sound = decode.select_sound(rows).where(F.col("kind") == "")
    is_late = F.col("late") != ""
    return sound.withColumns({"late": is_late, REASON: F.when(is_late, F.col("late"))}).select(
        *EVENTS
    )


def _frontiers(rows: DataFrame) -> DataFrame:
    watermarks = decode.select_sound(rows).where(F.col("kind") == WATERMARK)
    newest = watermarks.groupBy("stream").agg(
        F.max("ref_ns").alias("watermark_ns"), F.max("complete_ns").alias("complete_ns")
    )
    return newest.withColumns(
        {
            "watermark": to_timestamp(F.col("watermark_ns")),
            "complete": to_timestamp(F.col("complete_ns")),
        }
    )


def _select_bad(rows: DataFrame) -> DataFrame:
    return decode.split(rows).bad


def _late(topology: Topology, options: Options) -> Group:
    """Build the group of late events: raw records with the reason in an additional header."""
    streams = list(topology.streams)
    headers = headers_of(topology, streams)

    def rows(records: DataFrame) -> DataFrame:
        decoded = decode.decode_raw(records, headers, also={"late": REASON})
        return _with_payload(decode.mark_unknown_streams(decoded, streams), options)

    def sound(decoded: DataFrame) -> DataFrame:
        found = decode.select_sound(decoded).where(F.col("kind") == "")
        return found.withColumnRenamed("late", REASON).select(*LATE)

    parts = [Part("late", PLACE, sound), Part("bad-late", PLACE, _select_bad)]
    return Group("late", [topology.topics.late], parts, rows)


def _make_gaps_group(topic: str) -> Group:
    parts = [
        Part("gaps", PLACE, lambda rows: _add_timestamps(disorder.decode_gaps(rows).events)),
        Part("bad-gaps", PLACE, lambda rows: disorder.decode_gaps(rows).bad),
    ]
    return Group("gaps", [topic], parts)


def _decode_dead_letters(records: DataFrame) -> DataFrame:
    """Decode dead letters: the record that each rejects, the reason, and its own position."""
    read = F.from_json(F.col("value").cast("string"), DEAD)
    rows = records.where(F.col("value").isNotNull()).select(
        read.alias("_d"),
        F.col("partition").alias("letter_partition"),
        F.col("offset").alias("letter_offset"),
    )
    return _add_timestamps(rows.select("_d.*", "letter_partition", "letter_offset"))


def make_results_group(topics: Sequence[str], name: str, settled: Settled | None = None) -> Group:
    """Build the group of results topics, with the tables of the kind `name`, such as `windows`.

    `settled` are the columns that an id determines.
    """

    def revisions(rows: DataFrame) -> DataFrame:
        found = _add_timestamps(results.decode(rows, AS_TEXT).events)
        found = found.withColumns({"key": _text("key"), "current": F.col("op") != "retract"})
        return found.select(*PLACED, "kind", *HEAD, *OWN[name], *TAIL, "current")

    def newest(rows: DataFrame) -> DataFrame:
        found = revisions(rows)
        return results.latest(found.drop("current")).select(*found.columns)

    def overflows(rows: DataFrame) -> DataFrame:
        return _add_timestamps(results.overflows(results.decode(rows).control))

    parts = [
        Part(name, PLACE, revisions),
        Part(f"{name}-current", ("id",), newest, newer="revision", settled=settled),
        Part(f"bad-{name}", PLACE, lambda rows: results.decode(rows).bad),
    ]
    if name in BOUNDED:
        parts.append(Part(f"overflows-{name}", PLACE, overflows))
    return Group(name, topics, parts)


def _add_timestamps(rows: DataFrame) -> DataFrame:
    """Rename times in nanoseconds to names with `_ns`, and add timestamps for those to query by."""
    there = [column for column in TIMES if column.key in rows.columns]
    stamps = {each.name: to_timestamp(F.col(each.key)) for each in there if each.type == INSTANT}
    renamed = {each.key: each.name for each in there if each.type == LONG}
    return rows.withColumns(stamps).withColumnsRenamed(renamed)


def _text(name: str) -> Column:
    """Return a variant as JSON text; null where the record has a JSON null."""
    return F.nullif(F.to_json(F.col(name)), F.lit("null"))


def _with_payload(rows: DataFrame, options: Options) -> DataFrame:
    if options.schema is not None:
        nothing = F.lit(None).cast("binary")
        return payload.with_payload(rows, options.schema).withColumn("value", nothing)
    text = F.try_validate_utf8(F.col("value").cast("string"))
    rest = F.when(F.col("payload").isNull(), F.col("value"))
    return rows.withColumn("payload", text).withColumn("value", rest)
