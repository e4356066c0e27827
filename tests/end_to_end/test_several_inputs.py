"""End to end: streams with inputs of their own on a real Kafka, of equal and of different partition
counts: each is delivered in order and they are joined, before and after a restart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from agents.kafka.declared import declared
from agents.kafka.topics import create
from tests.cli.invoking import inorder
from tests.end_to_end.records import Reader
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka, UniqueName
from tests.waiting import Patience
from topology.config import Topology, parse

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TEXT = """\
application: app-{name}
topics:
  partitions: 4
  replication: 1
  sequenced: sequenced-{name}
  gaps: gaps-{name}
  late: late-{name}
  dead: dead-{name}
  clock: clock-{name}
  joins: joins-{name}
state: memory
streams:
{streams}queries:
  both:
    join: interval 1h
    sides: {{x: {{stream: telemetry, key: payload.n}}, y: {{stream: orders, key: payload.n}}}}
"""
SOURCES = ("a", "b", "c", "d")
EACH = 3


def settled(kafka: SharedKafka, name: str, widths: Mapping[str, int]) -> tuple[str, Topology]:
    streams = "".join(
        f"  {stream}: {{input: {stream}-{name}, output: ordered-{name},"
        f" clock: {{unsynced: trust}}}}\n"
        for stream in widths
    )
    text = TEXT.format(name=name, streams=streams)
    for stream, width in widths.items():
        kafka.create_topic(f"{stream}-{name}", width, {"message.timestamp.type": "LogAppendTime"})
    create(declared(parse(text)), kafka.bootstrap, 1)
    return text, parse(text)


def publish(kafka: SharedKafka, folder: Path, name: str, stream: str, numbers: range) -> None:
    """Those of each source, the last two of them the wrong way round."""
    order = [*numbers[:-2], numbers[-1], numbers[-2]]
    lines = (
        json.dumps({"stream": stream, "source": source, "seq": seq, "payload": {"n": seq}})
        for seq in order
        for source in SOURCES
    )
    path = folder / f"{stream}.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    topic = f"{stream}-{name}"
    done = inorder("produce", "--brokers", kafka.bootstrap, "--topic", topic, path)
    assert done.code == 0, done.err


@pytest.mark.in_turns(2)
@pytest.mark.parametrize(
    "widths",
    [
        {"telemetry": 4, "orders": 4},
        {"telemetry": 1, "orders": 4, "alarms": 2},
    ],
    ids=["two alike", "three that differ"],
)
def test_streams_with_inputs_of_their_own_are_delivered_and_joined(
    kafka: SharedKafka, tmp_path: Path, unique_name: UniqueName, widths: dict[str, int]
) -> None:
    name = unique_name("several")
    text, topology = settled(kafka, name, widths)
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    ordered = Reader(kafka.bootstrap, f"ordered-{name}")
    joined = Reader(kafka.bootstrap, topology.topics.joins)
    for round_ in range(2):
        worker = Worker(f"w{round_}", path, kafka.bootstrap, tmp_path)
        with running(worker):
            worker.wait_ready()
            for stream in widths:
                publish(kafka, tmp_path, name, stream, range(round_ * EACH, (round_ + 1) * EACH))
            await_all(ordered, joined, widths, (round_ + 1) * EACH)
            assert worker.stop() == 0, worker.log
    ordered.close()
    joined.close()


def await_all(ordered: Reader, joined: Reader, streams: Iterable[str], count: int) -> None:
    """Each event of each stream once and in order, and a row for each pair of a number."""
    wanted = {(stream, source): list(range(count)) for stream in streams for source in SOURCES}
    rows = count * len(SOURCES) ** 2
    patience = Patience()

    def found() -> dict[tuple[str, str], list[int]]:
        numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
        for each in ordered.records:
            if not each.is_control:
                place = each.header("streamId") or "", each.header("sourceId") or ""
                numbers[place].append(each.number("seqNum"))
        return numbers

    while found() != wanted or len(joined.records) < rows:
        ordered.poll(0.05)
        joined.poll(0.05)
        patience.look(
            (len(ordered.records), len(joined.records)),
            lambda: f"{count} of each source, found {found()}, {len(joined.records)} rows",
        )
    assert len({each.key for each in joined.records}) == len(joined.records) == rows
