"""Law: what a backfill told, and then a partition that begins where it ended, is what one replay
tells; wherever history ends, and however often the partition is lost. Examples of what is refused.
Without brokers: the log is a list, and so is what is committed."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.dump import record_line
from agents.kafka.brokers import Brokers
from agents.kafka.partition_queue import Batch
from agents.stage import rebuilding
from agents.stage.arrangement import arrange, input_reader, topics_of
from agents.stage.arrival import ArrivalClock
from agents.stage.delivery import Checkpoint, CommitFailed
from agents.stage.history import Histories
from agents.stage.partition import Partition
from agents.stage.restoring import FoundState
from agents.stage.surroundings import Surroundings
from agents.state import changelog
from agents.state.changelog import StateRefused
from agents.state.stores.seal import StateTally
from agents.watch.metrics import Metrics
from cli.from_backfill import Backfilled
from inorder.header_writer import HeaderWriter
from tests.agents.records import FakeBatch, FakeRecord, put_into
from tests.cli.invoking import inorder
from tests.spark_analytics.backfill import streams
from tests.spark_analytics.backfill.told import left_off, tabled
from topology.config import HeaderConfig, Topology, parse

FEW = range(10)
MANY = range(5_000, 5_150)
SOURCE = TopicPartition("raw", 0)
BEGIN_MS = 1_700_000_000_000

Told = dict[tuple[str, str], list[Any]]
"""By kind, and stream or query, in order."""


def text_of(rng: Random) -> str:
    names = "abcd"
    lines = ["application: seam", "topics: {partitions: 1}", "state: memory", "streams:"]
    for name in names:
        reorder = rng.choice(streams.REORDERS) if rng.random() < 0.7 else "rule: time"
        clock = rng.choice(streams.CLOCKS[:2])
        lines.append(f"  {name}: {{input: raw, clock: {clock}, reorder: {{{reorder}}}}}")
    # One stage cannot keep events for patterns and for joins.
    kept = rng.choice(("pattern:", "join:"))
    asked = rng.sample([n for n, q in sorted(streams.QUERIES.items()) if kept not in q], 4)
    lines += ["queries:", *(f"  {name}: {streams.QUERIES[name]}" for name in asked)]
    operators = "+".join(parse("\n".join(lines)).operators)
    return "\n".join([*lines, f"stages: [{operators}]", ""])


def log_of(rng: Random, count: int = 250) -> list[FakeRecord]:
    """Late, lost, doubled and spoilt records, silences; several at one instant."""
    writer = HeaderWriter(HeaderConfig())
    found: list[tuple[int, Any, bytes]] = []
    seqs: dict[str, int] = {}
    ms = 0
    for _ in range(count):
        ms += rng.choice((0, 1, 3, 20, 90, 400, 3_000 if rng.random() < 0.1 else 5))
        stream = rng.choice("abcd")
        source = f"{stream}{rng.randrange(2)}"
        seqs[source] = seqs.get(source, -1) + 1
        if rng.random() < 0.03:
            continue
        late_ms = rng.randrange(1_500) if rng.random() < 0.1 else rng.randrange(4)
        ts_ns = None if rng.random() < 0.05 else (BEGIN_MS + ms) * 1_000_000
        headers = writer.write(
            source,
            seqs[source],
            ts_ns=ts_ns,
            epoch=rng.choice((None, 0)),
            stream=stream if rng.random() > 0.02 else "strange",
            type=rng.choice("ABC"),
        )
        if rng.random() < 0.03:
            headers = [(name, b"x" if name == "ts" else told) for name, told in headers]
        value = json.dumps({"v": rng.randint(-9, 9), "k": rng.choice("xy")}).encode()
        copies = 2 if rng.random() < 0.04 else 1
        found += [(BEGIN_MS + ms + late_ms, headers, value)] * copies
    found.sort(key=lambda each: each[0])
    return [
        FakeRecord(offset, tuple(headers), value, b"k", stamp_ms)
        for offset, (stamp_ms, headers, value) in enumerate(found)
    ]


def lines_of(topology: Topology, log: Iterable[FakeRecord]) -> list[bytes]:
    inlet, clock = input_reader(topology, "raw"), ArrivalClock(0)
    return [orjson.dumps(record_line(inlet, 1, record, clock)) + b"\n" for record in log]


class Log:
    """One partition of the input, its changelog, and what has been committed of its outputs."""

    def __init__(self, text: str, records: Sequence[FakeRecord]) -> None:
        self.topology = parse(text)
        self.records = records
        self.committed: list[Checkpoint] = []
        self.state: dict[bytes, bytes] = {}
        self.dies = 0

    # -- the delivery of a partition ---------------------------------------------------------------

    async def start(self) -> None:
        return

    def new_batch(self) -> FakeBatch:
        return FakeBatch()

    async def commit(self, checkpoint: Checkpoint) -> int:
        if self.dies:
            self.dies -= 1
            raise CommitFailed("killed")
        self.committed.append(checkpoint)
        for key, value in checkpoint.changes.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        return len(self.committed)

    async def stop(self) -> None:
        return

    # -- partitions of it --------------------------------------------------------------------------

    async def opened(self, histories: Histories | None, patch: pytest.MonkeyPatch) -> Partition:
        stage = self.topology.stages[0]
        partitions = dict.fromkeys(topics_of(self.topology, stage), 1)
        arrangement = arrange(self.topology, stage, partitions)
        partition = Partition(
            SOURCE,
            arrangement,
            Surroundings(
                Brokers("nowhere:1", is_embedded=False),
                Metrics(CollectorRegistry()),
                lambda _: self,
                lambda _: None,
                histories=histories,
            ),
        )
        patch.setattr(partition._restoring, "find", self._found)
        patch.setattr(rebuilding, "read_again", self._read_again)
        partition._checkpoint_s = 0.0
        await partition.open()
        return partition

    async def _found(self, *_: Any) -> FoundState:
        state = dict(self.state)
        tally = StateTally()
        tally.change({key: value for key, value in state.items() if key != changelog.PROGRESS})
        progress = None
        if state:
            progress = changelog.read_progress(state[changelog.PROGRESS], "raw/0")
            assert (progress.entries, progress.digest) == (tally.entries, tally.digest)
        return FoundState(state, progress, tally, {}, len(self.committed))

    async def _read_again(
        self, _: Any, source: TopicPartition, wanted: set[int]
    ) -> AsyncIterator[tuple[list[FakeRecord], int]]:
        assert min(wanted) >= 0, "what stands before the log is not in it"
        yield [each for each in self.records if each.offset in wanted], max(wanted) + 1

    async def through(
        self, histories: Histories | None, rng: Random, patch: pytest.MonkeyPatch
    ) -> None:
        """To the end of the log; the partition is lost now and then."""
        partition = await self.opened(histories, patch)
        while True:
            at = partition.next_offset or 0
            if at >= len(self.records):
                break
            taken = list(self.records[at : at + rng.randrange(1, 40)])
            await partition.take(Batch(SOURCE, taken, at + len(taken), len(self.records), None))
            await partition._arrived()
            if rng.random() < 0.2:
                await partition.abandon()
                partition = await self.opened(histories, patch)
        await partition.close()

    def told(self) -> Told:
        found: Told = defaultdict(list)
        topics = self.topology.topics
        outputs = {stream.output for stream in self.topology.streams.values()}
        for checkpoint in self.committed:
            for (topic, _), batches in checkpoint.outputs.items():
                for put in put_into(batches):
                    if topic in outputs:
                        _note_event(found, put)
                    elif topic in (topics.windows, topics.matches, topics.joins):
                        line = json.loads(put.value or b"")
                        found[line["kind"], line["query"]].append(line)
                    elif topic == topics.gaps:
                        line = json.loads(put.value or b"")
                        found["gap", line["stream"]].append(line)
        return found


def _note_event(found: Told, put: Any) -> None:
    headers = dict(put.headers)
    if "kind" in headers:
        return
    stream = headers["streamId"].decode()
    numbers = (int(headers[name]) for name in ("seqNum", "refTs", "err", "at"))
    late = headers.get("late") is not None
    found["event", stream].append(
        (headers["sourceId"].decode(), *numbers, late, json.loads(put.value))
    )


def said(lines: Iterable[dict[str, Any]]) -> Told:
    """The same of lines, as a replay or a table has them."""
    found: Told = defaultdict(list)
    for line in lines:
        if line["kind"] == "event":
            told = (line[name] for name in ("source", "seq", "ref_time", "error", "at", "late"))
            found["event", line["stream"]].append((*told, line["payload"]))
        elif line["kind"] == "gap":
            found["gap", line["stream"]].append(line)
        elif "query" in line:
            found[line["kind"], line["query"]].append(line)
    return found


def agrees(seed: int, folder: Path, patch: pytest.MonkeyPatch) -> set[str]:
    rng = Random(seed)
    text, log = text_of(rng), log_of(rng)
    lines = lines_of(parse(text), log)
    cut = rng.choice((rng.randrange(len(log)), rng.randrange(len(log)), len(log)))
    out = left_off(folder, text, lines[:cut], "raw", cut)
    (folder / "whole.jsonl").write_bytes(b"".join(lines))
    replay = inorder(
        "replay", "--no-to-end", "--topology", folder / "t.yaml", folder / "whole.jsonl"
    )
    assert replay.code == 0, replay.err
    live = Log(text, log)
    live.dies = rng.randrange(2)
    histories = Backfilled(str(out), live.topology, str(folder / "t.yaml"))
    if live.dies:
        with pytest.raises(CommitFailed):
            asyncio.run(live.opened(histories, patch))
    asyncio.run(live.through(histories, rng, patch))
    history = said(json.loads(line) for told in tabled(out).values() for line in told)
    later, wanted = live.told(), said(replay.lines)
    for key, told in wanted.items():
        assert history[key] + later[key] == told, (seed, cut, key)
    assert {key for key, told in later.items() if told} <= wanted.keys()
    return {kind for kind, _ in wanted}


@pytest.mark.parametrize("seed", FEW)
def test_history_and_live_are_one_replay(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agrees(seed, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_many_histories_and_what_comes_live_are_one_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: set[str] = set()
    for seed in MANY:
        folder = tmp_path / str(seed)
        folder.mkdir()
        told |= agrees(seed, folder, monkeypatch)
    assert told >= {"event", "gap", "window", "match", "join"}


def test_a_state_that_began_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(1)
    text, log = text_of(rng), log_of(rng, 60)
    out = left_off(tmp_path, text, lines_of(parse(text), log)[:30], "raw", 30)
    live = Log(text, log)
    asyncio.run(live.through(None, rng, monkeypatch))
    histories = Backfilled(str(out), live.topology, str(tmp_path / "t.yaml"))
    with pytest.raises(StateRefused, match=r"did not begin with this backfill.*`application:`"):
        asyncio.run(live.opened(histories, monkeypatch))
