"""Logs of Kafka with every kind of trouble, by seed, and the core's output for them in one go."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson

from agents.stage.arrival import NS_PER_MS, ArrivalClock, make_arrival_clock
from recordings.topic_lines import TopicLines
from spark_analytics.backfill import archived
from spark_analytics.live import partitions
from spark_analytics.live.partitions import PartitionName
from tests.spark_analytics.backfill import streams
from tests.spark_analytics.backfill.outputs import Lines
from tests.spark_analytics.records import Record
from topology.base.outcome import Step
from topology.config import HeaderConfig, Topology
from topology.records.json_lines import encode_line, make_step_lines
from topology.records.line_reader import LineReader, Row
from topology.stage.batches import batches
from topology.stage.instants import whole_instants
from topology.stage.replay import Replay

NAMES = HeaderConfig().names()
CLOCKS = "heard"
RAW = "raw"
RANKS = {CLOCKS: partitions.CLOCK, RAW: partitions.RAW}

Log = dict[tuple[str, int], list[Record]]
"""Records by topic and partition."""


def topology(rng: Random) -> str:
    raw = f"{{input: {RAW}, clock:"
    text = streams.topology(rng).replace("{clock:", raw)
    synced = text.replace("{unsynced: estimate}", "{unsynced: estimate, sync: udp}")
    return f"{synced}topics: {{clock: {CLOCKS}, partitions: 2}}\n"


def log(rng: Random, folder: Path, lines: int = 250, partitions: int = 2) -> Log:
    """Return a recording as producers write it to Kafka.

    Times step back now and then, as those of a new leader do.
    """
    path = streams.recording(rng, folder / "recording.jsonl", lines)
    found: Log = {(CLOCKS, 0): [], **{(RAW, at): [] for at in range(partitions)}}
    of_stream = {stream: rng.randrange(partitions) for stream in "abcd"}
    scattered = rng.random() < 0.5
    ms = streams.START // NS_PER_MS
    for text in path.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if not isinstance(line, dict):
            continue
        arrival_ns = line.get("arrival", line.get("t4"))
        if type(arrival_ns) is int:
            ms = max(ms, arrival_ns // NS_PER_MS)
        stamp_ms = ms - (5 if rng.random() < 0.03 else 0)
        at = rng.randrange(partitions) if scattered else of_stream.get(str(line.get("stream")), 0)
        topic = CLOCKS if "clock" in line else RAW
        records = found[topic, 0 if topic == CLOCKS else at]
        offset = len(records) + (3 if rng.random() < 0.01 else 0)
        if records:
            offset = max(offset, records[-1].offset + 1)
        records.append(record(line, offset, stamp_ms, 0 if topic == CLOCKS else at, topic))
    return found


def record(line: dict[str, Any], offset: int, ms: int, partition: int, topic: str) -> Record:
    if topic == CLOCKS:
        said = {key: value for key, value in line.items() if key != "clock"}
        value = b"{}" if offset % 20 == 7 else json.dumps(said).encode()  # Some are not reports.
        return Record(line["clock"].encode(), value, [], offset, ms, partition, topic)
    names = {"source": NAMES.source, "seq": NAMES.seq, "ts": NAMES.ts}
    names |= {"stream": NAMES.stream, "type": NAMES.type}
    headers: list[tuple[str, bytes | None]] = [
        (name, str(line[key]).encode()) for key, name in names.items() if key in line
    ]
    value = json.dumps(line["payload"]).encode()
    return Record(b"k", value, headers, offset, ms, partition, topic)


def values_of(each: Record) -> dict[str, Any]:
    """Return the record as Spark gives it to a task that reads."""
    headers = [{"key": name, "value": value} for name, value in each.headers]
    place = {"topic": each.topic, "partition": each.partition, "offset": each.offset}
    return {**place, "key": each.key, "value": each.value, "headers": headers} | {
        "stamp_ms": each.stamp_ms
    }


def names_of(log: Log) -> list[PartitionName]:
    return [PartitionName(RANKS[topic], topic, at) for topic, at in log]


def dumped(
    topology: Topology, records: Iterable[Record], masters: tuple[bytes, ...] = ()
) -> list[dict[str, Any]]:
    """Return the lines that `inorder dump` prints of the records."""
    inputs = {stream.input for stream in topology.streams.values()}
    reads = TopicLines(topology, inputs, masters)
    clocks: dict[tuple[str, int], ArrivalClock] = {}
    lines: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for each in records:
        place = each.topic, each.partition
        clock = clocks.setdefault(place, make_arrival_clock(topology, each.topic))
        headers = list(each.headers)
        record = archived.Record(*place, each.offset, each.key, each.value, headers, each.stamp_ms)
        line = reads.line(record, clock)
        if line is not None:
            order = (line["arrival"], each.topic != topology.topics.clock, *place, each.offset)
            lines.append((order, line))
    lines.sort(key=lambda each: each[0])
    return [line for _, line in lines]


def replayed(topology: Topology, lines: Sequence[dict[str, Any]], until_ns: int) -> Lines:
    """Return the output for these lines if no other line has arrived by that time."""
    reader = LineReader(topology.reading())
    rows = (Row(at, orjson.loads(orjson.dumps(line))) for at, line in enumerate(lines, start=1))
    replay = Replay(topology)

    def steps() -> Iterator[Step]:
        for inputs, next_ns in batches(map(reader.read, rows)):
            step = replay.on_inputs(inputs, next_ns)
            if step is not None:
                yield step
        yield replay.on_other_input(until_ns)

    output: Lines = defaultdict(list)
    for step in whole_instants(steps(), topology):
        for line in make_step_lines(step):
            output[line["stream"], line["kind"]].append(encode_line(line).decode())
    return dict(output)
