"""Law: streams with separate inputs of any partition counts give the output of one replay.

This law holds wherever partitions are lost and wherever a history ends. There are no brokers.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.kafka.partition_queue import End
from agents.registry.feed import SchemaFeed
from agents.stage.outlet import partition_of
from agents.task.handler import StageHandler
from agents.watch import overdue
from agents.watch.metrics.worker import Metrics
from agents.watch.watchdog import Watchdog
from cli.run.from_backfill import Backfilled
from inorder.header_writer import HeaderWriter
from tests.agents.records import FakeRecord, arranged, batch_of, close
from tests.agents.restore.test_history import assert_alike, dumped, replayed, said
from tests.agents.stage.chain import MS, Chain, Logs
from tests.spark_analytics.backfill.outputs import left_off, tabled
from topology.base.event import PROGRESS, Event
from topology.config import HeaderConfig, Topology, parse
from topology.stage.alignment import Alignment
from topology.stage.lanes import Lanes

BEGIN_MS = 1_700_000_000_000
REORDER = "reorder: {rule: fixed, max_wait: 400ms}"
"""A fixed rule: a learning one would see fewer delays in each of several partitions."""

SIDES = "sides: {x: {stream: a}, y: {stream: b}}"
TEXT = """\
application: several
state: memory
topics: {{partitions: {partitions}}}
stages: [{stages}]
streams:
{streams}queries:
  near: {{join: interval 50ms, {sides}, outer: full}}
  cells: {{join: tumbling 200ms, {sides}, outer: left}}
  counts: {{stream: b, window: tumbling 1s, aggregate: {{n: count()}}}}
"""
CUTS = (
    "reorder, merge+window+join",
    "reorder, merge, window, join",
    "reorder, merge+window, join",
    "reorder+merge+window+join",
    "reorder+merge, window+join",
)


def topology_of(names: str, partitions: int, stages: str = CUTS[0]) -> tuple[str, Topology]:
    streams = "".join(
        f"  {name}: {{input: raw.{name}, clock: {{unsynced: trust}}, {REORDER}}}\n"
        for name in names
    )
    text = TEXT.format(partitions=partitions, stages=stages, streams=streams, sides=SIDES)
    return text, parse(text)


def logs_of(rng: Random, names: str, widths: dict[str, int]) -> Logs:
    """Return logs with late, lost and duplicate records of three sources in each stream.

    One record comes at a time.
    """
    writer = HeaderWriter(HeaderConfig())
    logs: Logs = {TopicPartition(t, p): [] for t, width in widths.items() for p in range(width)}
    seqs: dict[str, int] = {}
    ms = BEGIN_MS
    for _ in range(150):
        ms += rng.choice((1, 3, 20, 90, 3_000 if rng.random() < 0.1 else 5))
        stream = rng.choice(names)
        source = f"{stream}{rng.randrange(3)}"
        seqs[source] = seqs.get(source, -1) + 1
        if rng.random() < 0.05 and seqs[source]:  # Each partition judges starts by itself.
            continue
        ts_ns = (ms - rng.choice((0, 1, 2, 60))) * MS
        written: Any = writer.write(source, seqs[source], ts_ns=ts_ns, epoch=None, stream=stream)
        topic = f"raw.{stream}"
        log = logs[TopicPartition(topic, partition_of(source, widths[topic]))]
        for _ in range(2 if rng.random() < 0.05 else 1):
            log.append(FakeRecord(len(log), tuple(written), b'{"v":1}', source.encode(), ms))
    return logs


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("widths", [(4, 4), (1, 3), (4, 2), (3, 3, 3), (2, 4, 1)], ids=str)
def test_law_inputs_agree_with_one_replay(
    widths: Sequence[int], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, names = Random(seed), "abc"[: len(widths)]
    text, topology = topology_of(names, rng.choice((2, 4)), rng.choice(CUTS))
    counts = {f"raw.{name}": width for name, width in zip(names, widths, strict=True)}
    logs = logs_of(rng, names, counts)
    (tmp_path / "t.yaml").write_text(text)
    wanted = replayed(tmp_path, dumped(topology, logs))
    live = Chain(topology, logs, counts)
    asyncio.run(live.through(None, rng, monkeypatch))
    later = assert_alike(live, wanted, said([]), any_order=True)
    kinds = {kind for (kind, _), told in later.items() if told}
    assert kinds >= {"event", "window", "join"}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("widths", [(1, 1), (4, 1), (2, 3, 1)], ids=str)
@pytest.mark.parametrize("stages", [CUTS[0], CUTS[3]], ids=["cut", "one task"])
def test_law_history_agrees_with_replay(
    stages: str, widths: Sequence[int], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, names = Random(seed), "abc"[: len(widths)]
    text, topology = topology_of(names, 2, stages)
    counts = {f"raw.{name}": width for name, width in zip(names, widths, strict=True)}
    logs = logs_of(rng, names, counts)
    lines = dumped(topology, logs)
    history, end = [line for _, line in lines], rng.randrange(len(lines))
    ends = Counter(f"{place.topic}/{place.partition}" for place, _ in lines[:end])
    lies: dict[str, dict[str, list[str]]] = {name: {} for name in names}
    for place, log in logs.items():
        for source in {(record.key or b"").decode() for record in log}:
            lies[source[0]][source] = [f"{place.topic}/{place.partition}"]
    out = left_off(tmp_path, text, history[:end], ends, lies)
    wanted = replayed(tmp_path, lines)
    live = Chain(topology, logs, counts)
    histories = Backfilled(str(out), topology, str(tmp_path / "t.yaml"))
    asyncio.run(live.through(histories, rng, monkeypatch))
    before = said(json.loads(line) for told in tabled(out).values() for line in told)
    later = assert_alike(live, wanted, before, any_order=True, what=end)
    assert ("event", "b") in later


def test_partition_awaits_its_inputs() -> None:
    _, topology = topology_of("abc", 4)
    arrangement = arranged(topology, 1, 4, {"raw.b": 2, "raw.c": 1})
    places = arrangement.lane_places
    inputs = {"raw.a": 4, "raw.b": 2, "raw.c": 1}
    assert places == tuple((name, each) for name, count in inputs.items() for each in range(count))
    homes = {name: partition_of(topology.partition_name_of(name), 4) for name in "abc"}
    assert homes["a"] == homes["b"] != homes["c"], "a and b are joined"
    for partition in range(4):
        lanes = arrangement.lanes(TopicPartition("events.sequenced", partition))
        assert lanes is not None
        awaited = {places[lane][0] for lane in lanes.awaited}
        assert awaited == {f"raw.{name}" for name in "abc" if homes[name] == partition}
    assert arranged(topology, 0, 4).lanes(TopicPartition("raw.a", 0)) is None


TWO = (("a", 0), ("b", 0))


def aligned(*awaited: int, known: int = 2, max_queued: int = 10) -> Alignment:
    return Alignment(Lanes(TWO[:known], frozenset(awaited)), max_queued=max_queued)


def event(lane: int, at_ns: int, kind: str = "") -> Event:
    made = Event("default", f"s{lane}", 0, at_ns, at_ns, at_ns, kind=kind)
    made.lane = lane
    return made


def test_unawaited_lane_uses_current_time() -> None:
    alignment = aligned(1)
    first = event(1, 10)
    assert alignment.on_batch([first], 10).released == [first]
    (late,) = alignment.on_batch([event(0, 4)], 10).released
    assert (late.at_ns, alignment.overtaken) == (10, 1)
    ahead = event(0, 15)
    assert not alignment.on_batch([ahead], 10).released, "its instant has not come"
    assert alignment.on_batch([event(1, 16, PROGRESS)], 16).released == [ahead]
    assert alignment.blocking_partitions() == ["b/0"]
    assert not alignment.waivers


def test_unawaited_lane_buffers_nothing() -> None:
    alignment = aligned()
    for lane, at_ns in ((0, 5), (1, 3), (1, 9)):
        assert len(alignment.on_batch([event(lane, at_ns)], at_ns).released) == 1
    assert not alignment.blocking_partitions()


def test_added_lane_is_awaited() -> None:
    before = aligned(0, known=1)
    before.on_batch([event(0, 10)], 10)
    after = aligned(0, 1)
    after.restore(before.snapshot(), ())
    assert not after.on_batch([event(0, 12)], 12).released
    assert after.blocking_partitions() == ["b/0"]
    assert len(after.on_batch([event(1, 13, PROGRESS)], 13).released) == 1


@pytest.mark.parametrize("is_waived", [False, True])
def test_dropped_lane_delays_nothing(
    is_waived: bool,
) -> None:
    before = aligned(0, 1, max_queued=0 if is_waived else 10)
    held = event(0, 10)
    before.on_batch([held], 10)
    assert before.waivers == is_waived
    after = aligned(0)
    after.restore(before.snapshot(), before.iter_held())
    assert after.blocking_partitions() == ["a/0"]
    assert len(after.on_batch([event(0, 11, PROGRESS)], 11).released) == (not is_waived)
    again = aligned(0, 1)
    again.restore(after.snapshot(), ())
    assert again.blocking_partitions() == ["b/0"], "awaited anew"


async def test_missing_lane_is_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`raw.b`, which is joined with `raw.a`, has no running partition."""
    _, topology = topology_of("ab", 1)
    widths = {"raw.a": 1, "raw.b": 1}
    live = Chain(topology, logs_of(Random(1), "ab", widths), widths)
    (first, _), (merge,) = live.stages[:2]
    now_s = [1_000.0]
    monkeypatch.setattr(overdue, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    metrics = Metrics(CollectorRegistry(), "merge")

    await first.through(None, Random(1), monkeypatch)
    partition = await merge.opened(None, monkeypatch)
    log = live.logs[merge.source]
    await partition.take(batch_of(merge.source, log, End(len(log), len(log))))
    around: Any = SimpleNamespace(schemas=SchemaFeed(), metrics=metrics, broker_times=None)
    no_log: Any = None
    found = StageHandler(merge.arrangement, around, Watchdog(), no_log)
    found._partitions[merge.source] = partition
    sound_s = int(partition.overdue.allowed_s)
    for second in range(sound_s + 3):
        assert second > sound_s or not found.faults()
        now_s[0] += 1.0
        found.observe()
    (fault,) = found.faults()
    await close(partition)
    assert fault.startswith("events.sequenced/0: the oldest event has waited for ")
    assert fault.endswith("it waits for progress of raw.b/0")
