"""The jobs: topics in, named tables out; each table is one query with its own checkpoint.

| job        | tables                                                               | mode   |
|------------|----------------------------------------------------------------------|--------|
| `rates`    | `windows-<stream>`, `late`, `bad`                                    | both   |
| `disorder` | `ordered-<stream>`, `bad`; in batch `raw`, `waits`, `gaps`,          | both   |
|            | `compared`                                                           |        |
| `clocks`   | `rounds`, `declared`, `bad`, `stamps-<stream>`; in batch `offsets`   | both   |
| `results`  | `latest`, `bad`; in batch also `histories`, `queries`, `overflows`   | both   |
| `truth`    | `differences`, `balance`, `bad`                                      | batch  |
| `archive`  | a folder of its own for each topic                                   | both   |

`latest` is folded batch by batch: of each id the newest record of that batch. Its readers
take the highest revision over all batches (`results.latest`).

Every row of the topics ends in a table: what a window does not count lies in `late` of
`rates`, what a job cannot read, of whichever of its topics, in its `bad`. With
`Wanted.late_included` (batch only) windows count marked events too, each where its time
says: what the stream's windows would be had nothing been late. Spark drops rows that a
watermark has passed; by `aggregates` there are none, and a query that drops one all the
same is stopped with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_analytics import aggregates, archive, clocks, decode, disorder, payload, results, truth
from spark_analytics.aggregates import Measures, Windows
from spark_analytics.topics import Topics
from topology.config import HeaderConfig, Topology


class JobRefused(ValueError):
    """The job cannot run as it was asked for; the message says what to write instead."""


@dataclass(frozen=True)
class Table:
    """`keys` name a row among those of the table. `fold` is done to each batch of a stream
    before it is written, and to all of it where it is bounded. `store` writes in a way of
    its own (archive): (rows, path, batch)."""

    name: str
    rows: DataFrame
    keys: Sequence[str]
    fold: Callable[[DataFrame], DataFrame] | None = None
    store: Callable[[DataFrame, str, int], None] | None = None


@dataclass(frozen=True)
class Wanted:
    """What the user asks a job for. `keys` come in addition to the stream; `results` are topics,
    none: all that the topology has work for."""

    windows: Windows = field(default_factory=lambda: Windows("tumbling", "10 seconds"))
    keys: Sequence[str] = ("source",)
    measures: Measures = field(default_factory=Measures)
    schema: StructType | None = None
    results: Sequence[str] = ()
    late_included: bool = False


PLACE: Final = ("topic", "partition", "offset")


def rates(topics: Topics, topology: Topology, wanted: Wanted) -> list[Table]:
    if wanted.late_included and topics.streaming:
        raise JobRefused("--late include: a stream cannot go back to closed windows; add --batch")
    tables, bad = [], []
    keys = ("stream", *wanted.keys)
    named = ["start", *map(aggregates.named, keys)]
    for topic, names in _outputs(topology).items():
        rows = _ordered(topics, topology, topic, names, wanted.schema)
        usable = decode.sound(rows)
        counted = usable if wanted.late_included else aggregates.unmarked(usable)
        for name in names:
            own = aggregates.of_stream(counted, name)
            windows = aggregates.aggregate(own, wanted.windows, keys, wanted.measures)
            tables.append(Table(f"windows-{name}", windows, named))
        late = aggregates.late(usable).drop("key", "value", "payload", "kind", "complete_ns")
        tables.append(Table(f"late{_suffix(topology, topic)}", late, PLACE))
        bad.append(decode.split(rows).bad)
    return [*tables, _bad(bad)]


def disorder_audit(topics: Topics, topology: Topology, wanted: Wanted) -> list[Table]:
    tables, bad = [], []
    named = ["start", "stream", "source"]
    for topic, names in _outputs(topology).items():
        rows = _ordered(topics, topology, topic, names)
        bad.append(decode.split(rows).bad)
        for name in names:
            own = aggregates.of_stream(decode.sound(rows), name)
            audited = disorder.of_ordered(own, wanted.windows)
            tables.append(Table(f"ordered-{name}", audited, [*named, "epoch"]))
    if topics.streaming:
        return [*tables, _bad(bad)]
    declared = disorder.gap_records(topics.records(topology.topics.gaps))
    bad.append(declared.bad)
    for topic, names in _inputs(topology).items():
        raw = _raw(topics, topology, topic, names)
        bad.append(raw.bad)
        ordered = _decoded(topics, topology, names).events
        suffix = "" if len(_inputs(topology)) == 1 else f"-{topic}"
        tables += [
            Table(f"raw{suffix}", disorder.of_raw(raw.events, wanted.windows), named),
            Table(f"waits{suffix}", disorder.waits(raw.events, ordered, wanted.windows), named),
            Table(f"compared{suffix}", disorder.compared(raw.events, ordered), named[1:]),
            Table(f"gaps{suffix}", disorder.gaps(declared.events, ordered), [*named[1:], "first"]),
        ]
    return [*tables, _bad(bad)]


def clock_audit(topics: Topics, topology: Topology, wanted: Wanted) -> list[Table]:
    words = clocks.samples(topics.records(topology.topics.clock))
    tables = [Table("rounds", words.rounds, PLACE), Table("declared", words.declared, PLACE)]
    if not topics.streaming:
        summed = clocks.offsets(words.rounds, wanted.windows)
        tables.append(Table("offsets", summed, ("start", "source", "server", "segment")))
    bad = [words.bad]
    for topic, names in _outputs(topology).items():
        rows = _ordered(topics, topology, topic, names)
        bad.append(decode.split(rows).bad)
        unmarked = aggregates.unmarked(decode.sound(rows))
        for name in names:
            max_error_ns = topology.stream(name).clock.max_error_ns
            own = aggregates.of_stream(unmarked, name)
            stamped = clocks.stamps(own, wanted.windows, max_error_ns)
            tables.append(Table(f"stamps-{name}", stamped, ("start", "stream", "source")))
    return [*tables, _bad(bad)]


def results_audit(topics: Topics, topology: Topology, wanted: Wanted) -> list[Table]:
    names = tuple(wanted.results) or tuple(topology.result_topics.values())
    if not names:
        raise JobRefused(
            "the topology has no queries, so no topic has results; write queries: in its file, or"
            " name the topics: --results TOPIC"
        )
    tables = []
    for topic in names:
        read = results.decoded(topics.records(topic))
        suffix = "" if len(names) == 1 else f"-{topic}"
        tables += [
            Table(f"latest{suffix}", read.events, ("id",), fold=results.latest),
            Table(f"bad{suffix}", read.bad, PLACE),
        ]
        if not topics.streaming:
            course = results.histories(read.events)
            tables.append(Table(f"histories{suffix}", course, ("id",)))
            tables.append(Table(f"queries{suffix}", results.by_query(course), ("query",)))
            tables.append(Table(f"overflows{suffix}", results.overflows(read.control), PLACE))
    return tables


def truth_check(topics: Topics, topology: Topology, _: Wanted) -> list[Table]:
    if topics.streaming:
        raise JobRefused("truth sorts the whole topic; add --batch")
    unsure = [n for n, s in topology.streams.items() if s.clock.unsynced != "trust"]
    if unsure:
        raise JobRefused(
            f"stream {', '.join(unsure)}: the plain sort takes clocks at their word; it can"
            " judge streams with clock: {unsynced: trust}"
        )
    names = topology.topics
    dead = truth.dead_letters(topics.records(names.dead))
    tables, bad = [], []
    for topic, streams in _inputs(topology).items():
        raw = _raw(topics, topology, topic, streams)
        aside = _raw(topics, topology, names.late, streams)  # other streams' are no concern here
        bad.append(raw.bad)
        ordered = _decoded(topics, topology, streams)
        found = truth.differences(raw.events, ordered, streams, aside.events, dead)
        suffix = "" if len(_inputs(topology)) == 1 else f"-{topic}"
        tables += [
            Table(f"differences{suffix}", found, (*PLACE[1:], "difference")),
            Table(f"balance{suffix}", truth.balance(raw.events, ordered, streams), ("stream",)),
        ]
    return [*tables, _bad(bad)]


def archiving(topics: Topics, topology: Topology, _: Wanted) -> list[Table]:
    kept = {**_inputs(topology), **_outputs(topology)}
    side = topology.topics
    streams = list(topology.streams)
    kept |= {side.late: streams, side.dead: streams, side.gaps: streams, side.clock: streams}
    kept |= dict.fromkeys(topology.result_topics.values(), streams)
    return [
        Table(
            topic,
            archive.placed(topics.records(topic), _headers(topology, names)),
            PLACE,
            store=archive.write,
        )
        for topic, names in kept.items()
    ]


Job = Callable[[Topics, Topology, Wanted], list[Table]]

JOBS: Final[Mapping[str, Job]] = {
    "rates": rates,
    "disorder": disorder_audit,
    "clocks": clock_audit,
    "results": results_audit,
    "truth": truth_check,
    "archive": archiving,
}


# -- what streams share ----------------------------------------------------------------------------


def _inputs(topology: Topology) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, stream in topology.streams.items():
        found.setdefault(stream.input, []).append(name)
    return found


def _outputs(topology: Topology) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, stream in topology.streams.items():
        found.setdefault(stream.output, []).append(name)
    return found


def _suffix(topology: Topology, topic: str) -> str:
    return "" if len(_outputs(topology)) == 1 else f"-{topic}"


def _headers(topology: Topology, names: Sequence[str]) -> HeaderConfig:
    """The contract of streams that share a topic; which stream a record is of is known only
    from its headers."""
    contracts = {topology.stream(name).headers.contract() for name in names}
    if len(contracts) > 1:
        raise JobRefused(
            f"streams {', '.join(names)} share a topic and have different headers; give them"
            " topics of their own"
        )
    return topology.stream(names[0]).headers


def _bad(parts: Sequence[DataFrame]) -> Table:
    """One table of what the topics of a job hold that it cannot read."""
    found = parts[0]
    for part in parts[1:]:
        found = found.unionByName(part, allowMissingColumns=True)
    return Table("bad", found, PLACE)


def _raw(topics: Topics, topology: Topology, topic: str, names: Sequence[str]) -> decode.Decoded:
    rows = decode.raw(topics.records(topic), _headers(topology, names))
    return decode.split(decode.of_streams(rows, names))


def _ordered(
    topics: Topics,
    topology: Topology,
    topic: str,
    names: Sequence[str],
    schema: StructType | None = None,
) -> DataFrame:
    rows = decode.ordered(topics.records(topic), _headers(topology, names))
    rows = decode.of_streams(rows, names)
    return rows if schema is None else payload.with_payload(rows, schema)


def _decoded(topics: Topics, topology: Topology, streams: Sequence[str]) -> decode.Decoded:
    """Events of these streams, from whichever ordered topics hold them, and all that is bad
    in these topics."""
    found: DataFrame | None = None
    for topic, names in _outputs(topology).items():
        if set(names) & set(streams):
            rows = _ordered(topics, topology, topic, names)
            found = rows if found is None else found.unionByName(rows)
    assert found is not None
    parts = decode.split(found)
    return parts._replace(events=parts.events.where(parts.events["stream"].isin(*streams)))
