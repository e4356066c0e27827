"""Define the jobs: their input topics, and their tables, each a query with its own checkpoint.

| job        | tables                                                               | mode   |
|------------|----------------------------------------------------------------------|--------|
| `events`   | `events`, `late`, `gaps`, `dead`, `windows` and the like (`silver`)  | both   |
| `rates`    | `windows-<stream>`, `late`, `bad`                                    | both   |
| `disorder` | `ordered-<stream>`, `bad`; in batch `raw`, `waits`, `gaps`,          | both   |
|            | `compared`                                                           |        |
| `clocks`   | `rounds`, `declared`, `bad`, `stamps-<stream>`; in batch `offsets`   | both   |
| `truth`    | `differences`, `balance`, `bad`                                      | batch  |
| `archive`  | a separate folder for each topic; in a lake one table, `records`     | both   |

Every record of the topics is in a table. Events that a window does not count are in `late` of
`rates`, and records that a job cannot read are in its `bad`. Spark drops rows that a watermark has
passed. `aggregates` avoids such rows, and a query that still drops one is stopped with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_analytics import aggregates, archive, clocks, decode, disorder, payload, silver, truth
from spark_analytics.jobs.topics import Topics
from spark_analytics.jobs.work import (
    JobRefused,
    Options,
    Table,
    choose,
    headers_of,
    inputs_of,
    outputs_of,
    resolve_names,
)
from spark_analytics.tables.shapes import PLACE
from topology.config import Topology


def rates_tables(topics: Topics, topology: Topology, options: Options) -> list[Table]:
    keys = ("stream", *options.keys)
    named = ["start_time", *map(aggregates.name_column, keys)]
    tables, bad = [], []
    for topic, names in outputs_of(topology).items():
        rows = _decode_topic(topics, topology, topic, names, options.schema)
        usable = decode.select_sound(rows)
        counted = aggregates.drop_marked(usable)
        for name in names:
            own = aggregates.select_stream(counted, name)
            windows = aggregates.aggregate(own, options.windows, keys, options.measures)
            tables.append(Table(f"windows-{name}", windows, named))
        late = aggregates.late(usable).drop("key", "value", "payload", "kind", "complete_ns")
        tables.append(Table(f"late{_suffix(topology, topic)}", late, PLACE))
        bad.append(decode.split(rows).bad)
    return choose([*tables, _bad_table(bad)], options.tables)


def disorder_tables(topics: Topics, topology: Topology, options: Options) -> list[Table]:
    named = ["start_time", "stream", "source"]
    tables, bad = [], []
    for topic, names in outputs_of(topology).items():
        rows = _decode_topic(topics, topology, topic, names)
        bad.append(decode.split(rows).bad)
        for name in names:
            own = aggregates.select_stream(decode.select_sound(rows), name)
            audited = disorder.summarize_ordered(own, options.windows)
            tables.append(Table(f"ordered-{name}", audited, [*named, "epoch"]))
    if topics.streaming:
        return choose([*tables, _bad_table(bad)], options.tables)
    declared = disorder.decode_gaps(topics.records(topology.topics.gaps))
    bad.append(declared.bad)
    for topic, names in inputs_of(topology).items():
        raw = _decode_raw(topics, topology, topic, names)
        bad.append(raw.bad)
        ordered = _decode_streams(topics, topology, names).events
        suffix = "" if len(inputs_of(topology)) == 1 else f"-{topic}"
        tables += [
            Table(f"raw{suffix}", disorder.summarize_raw(raw.events, options.windows), named),
            Table(
                f"waits{suffix}",
                disorder.summarize_waits(raw.events, ordered, options.windows),
                named,
            ),
            Table(f"compared{suffix}", disorder.compare(raw.events, ordered), named[1:]),
            Table(
                f"gaps{suffix}",
                disorder.describe_gaps(declared.events, ordered),
                [*named[1:], "first"],
            ),
        ]
    return choose([*tables, _bad_table(bad)], options.tables)


def clock_tables(topics: Topics, topology: Topology, options: Options) -> list[Table]:
    words = clocks.split_records(topics.records(topology.topics.clock))
    tables = [Table("rounds", words.rounds, PLACE), Table("declared", words.declared, PLACE)]
    if not topics.streaming:
        summed = clocks.summarize_rounds(words.rounds, options.windows)
        tables.append(Table("offsets", summed, ("start_time", "source", "server", "segment")))
    bad = [words.bad]
    for topic, names in outputs_of(topology).items():
        rows = _decode_topic(topics, topology, topic, names)
        bad.append(decode.split(rows).bad)
        unmarked = aggregates.drop_marked(decode.select_sound(rows))
        for name in names:
            max_error_ns = topology.streams[name].clock.max_error_ns
            own = aggregates.select_stream(unmarked, name)
            stamped = clocks.summarize_timestamps(own, options.windows, max_error_ns)
            tables.append(Table(f"stamps-{name}", stamped, ("start_time", "stream", "source")))
    return choose([*tables, _bad_table(bad)], options.tables)


def truth_tables(topics: Topics, topology: Topology, options: Options) -> list[Table]:
    if topics.streaming:
        raise JobRefused("truth sorts the whole topic; add --batch")
    unsure = [n for n, s in topology.streams.items() if s.unsynced != "trust"]
    if unsure:
        raise JobRefused(
            f"stream {', '.join(unsure)}: truth trusts clocks; it can check only streams with"
            " clock: {unsynced: trust}"
        )
    names = topology.topics
    dead = truth.dead_letters(topics.records(names.dead))
    tables, bad = [], []
    for topic, streams in inputs_of(topology).items():
        raw = _decode_raw(topics, topology, topic, streams)
        # The late topic may also have events of other streams, which are not compared.
        aside = _decode_raw(topics, topology, names.late, streams)
        bad.append(raw.bad)
        ordered = _decode_streams(topics, topology, streams)
        found = truth.differences(raw.events, ordered, streams, aside.events, dead)
        suffix = "" if len(inputs_of(topology)) == 1 else f"-{topic}"
        tables += [
            Table(f"differences{suffix}", found, (*PLACE[1:], "difference")),
            Table(f"balance{suffix}", truth.balance(raw.events, ordered, streams), ("stream",)),
        ]
    return choose([*tables, _bad_table(bad)], options.tables)


def archive_tables(topics: Topics, topology: Topology, options: Options) -> list[Table]:
    kept = {**inputs_of(topology), **outputs_of(topology)}
    side = topology.topics
    streams = list(topology.streams)
    kept |= {side.late: streams, side.dead: streams, side.gaps: streams, side.clock: streams}
    kept |= dict.fromkeys(topology.all_result_topics, streams)
    if options.in_lake:
        rows = topics.records(*resolve_names([*kept], options.tables))
        return [Table(archive.TABLE, rows.select(*archive.COLUMNS), PLACE)]
    found = [
        Table(
            topic,
            archive.place(topics.records(topic), headers_of(topology, names)),
            PLACE,
            store=archive.write,
        )
        for topic, names in kept.items()
    ]
    return choose(found, options.tables)


Job = Callable[[Topics, Topology, Options], list[Table]]

JOBS: Final[Mapping[str, Job]] = {
    "events": silver.events_tables,
    "rates": rates_tables,
    "disorder": disorder_tables,
    "clocks": clock_tables,
    "truth": truth_tables,
    "archive": archive_tables,
}


# -- common parts of the jobs ----------------------------------------------------------------------


def _suffix(topology: Topology, topic: str) -> str:
    return "" if len(outputs_of(topology)) == 1 else f"-{topic}"


def _bad_table(parts: Sequence[DataFrame]) -> Table:
    """Return one table of all records that the job cannot read."""
    union = partial(DataFrame.unionByName, allowMissingColumns=True)
    return Table("bad", reduce(union, parts), PLACE)


def _decode_raw(
    topics: Topics, topology: Topology, topic: str, names: Sequence[str]
) -> decode.Decoded:
    rows = decode.decode_raw(topics.records(topic), headers_of(topology, names))
    return decode.split(decode.mark_unknown_streams(rows, names))


def _decode_topic(
    topics: Topics,
    topology: Topology,
    topic: str,
    names: Sequence[str],
    schema: StructType | None = None,
) -> DataFrame:
    rows = decode.decode_ordered(topics.records(topic), headers_of(topology, names))
    rows = decode.mark_unknown_streams(rows, names)
    return rows if schema is None else payload.with_payload(rows, schema)


def _decode_streams(topics: Topics, topology: Topology, streams: Sequence[str]) -> decode.Decoded:
    """Return the events of these streams, from all ordered topics that contain them.

    The bad records of those topics are returned too, whatever their stream is.
    """
    found: DataFrame | None = None
    for topic, names in outputs_of(topology).items():
        if set(names) & set(streams):
            rows = _decode_topic(topics, topology, topic, names)
            found = rows if found is None else found.unionByName(rows)
    assert found is not None
    parts = decode.split(found)
    return parts._replace(events=parts.events.where(parts.events["stream"].isin(*streams)))
