"""Law: a backfill and a worker that continues it together give the output of one replay.

This law holds wherever history ends, for each split into stages, for tasks that read several
partitions, and with lost partitions. A worker that gets all records live gives the same, if one
task has all of them and its rules learn nothing. Examples show refused histories. There are no
brokers (tests/agents/stage/chain).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from aiokafka.structs import TopicPartition

from agents.restore.history import RecordWriter
from agents.stage.arrangement import make_input_inlet
from agents.stage.arrival import ArrivalClock
from agents.stage.outlet import partition_of
from agents.state.changelog import StateRefused
from cli.run.from_backfill import Backfilled
from inorder.header_writer import HeaderWriter
from recordings.topic_lines import record_line
from spark_analytics.executors.setting import Setting, topology_of
from tests.agents.records import FakeRecord, arranged
from tests.agents.stage.chain import MS, Chain, LaneAhead, Logs
from tests.cli.invoking import inorder
from tests.spark_analytics.backfill import streams
from tests.spark_analytics.backfill.outputs import left_off, tabled
from topology.base.event import Event
from topology.config import HeaderConfig, Topology, parse

FEW = range(5)
MANY = range(5_000, 5_150)
BEGIN_MS = 1_700_000_000_000

Told = dict[tuple[str, str], list[Any]]
"""Lines by kind and stream or query, in order."""


CUTS = (
    ("reorder+merge", "window", "pattern", "join"),
    ("reorder", "merge", "window", "pattern", "join"),
    ("reorder+merge+window", "pattern", "join"),
    ("reorder", "merge+window+pattern", "join"),
    ("reorder+merge", "window+pattern", "join"),
)


UNNUMBERED = ("rule: time", "without_seq: by_time")
REORDERS = (*streams.REORDERS, *UNNUMBERED)
UNLEARNED = ("rule: fixed, max_wait: 400ms, start: zero", "rule: time, max_wait: 300ms")
"""Rules whose wait for a source does not depend on the partition's other sources."""


def text_of(rng: Random, *, cut: bool, lanes: int = 1, reorders: Sequence[str] = REORDERS) -> str:
    """Return a random topology; `lanes` is the number of partitions that one task reads."""
    names = "abcd"
    stages: Sequence[str] = rng.choice(CUTS)
    partitions = rng.randrange(1, 4) if cut and stages[0] == "reorder" else lanes
    keyed = f", keyed_by: {rng.choice(('source', 'stream'))}" if cut and partitions > 1 else ""
    lines = ["application: seam", f"topics: {{partitions: {partitions}}}", "state: memory"]
    lines.append("streams:")
    for name in names:
        reorder = rng.choice(reorders)
        clock = rng.choice(streams.CLOCKS[:2])
        lines.append(f"  {name}: {{input: raw{keyed}, clock: {clock}, reorder: {{{reorder}}}}}")
    # One stage cannot keep events for patterns and for joins.
    kept = "" if cut else rng.choice(("pattern:", "join:"))
    known = sorted(streams.QUERIES.items())
    asked = rng.sample([n for n, q in known if cut or kept not in q], 6 if cut else 4)
    lines += ["queries:", *(f"  {name}: {streams.QUERIES[name]}" for name in asked)]
    if not cut:
        stages = ("+".join(parse("\n".join(lines)).operators),)
    return "\n".join([*lines, f"stages: [{', '.join(stages)}]", ""])


def log_of(rng: Random, topology: Topology, count: int = 250) -> Logs:
    """Return random logs with late, lost, duplicate and malformed records, and pauses.

    In a single task, several records can have the same instant.
    """
    writer = HeaderWriter(HeaderConfig())
    parts = topology.topics.partitions
    found: list[tuple[int, str, Any, bytes]] = []
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
            None if _is_unnumbered(topology, source) else seqs[source],
            ts_ns=ts_ns,
            epoch=rng.choice((None, 0)),
            stream=stream if rng.random() > 0.02 else "strange",
            type=rng.choice("ABC"),
        )
        if rng.random() < 0.03:
            headers = [(name, b"x" if name == "ts" else told) for name, told in headers]
        value = json.dumps({"v": rng.randint(-9, 9), "k": rng.choice("xy")}).encode()
        copies = 2 if rng.random() < 0.04 else 1
        found += [(BEGIN_MS + ms + late_ms, source, headers, value)] * copies
    found.sort(key=lambda each: each[0])
    logs: Logs = {TopicPartition("raw", number): [] for number in range(parts)}
    last_ms = 0
    for stamp_ms, source, headers, value in found:
        is_one_task = len(topology.stages) == 1 or parts == 1
        last_ms = stamp_ms if is_one_task else max(stamp_ms, last_ms + 1)
        log = logs[place_of(topology, source)]
        log.append(FakeRecord(len(log), tuple(headers), value, source.encode(), last_ms))
    return logs


def _is_unnumbered(topology: Topology, source: str) -> bool:
    """Return whether the source sends no sequence numbers, as its stream allows."""
    return topology.streams[source[0]].reorder.is_mixed and source.endswith("1")


def place_of(topology: Topology, source: str) -> TopicPartition:
    stream = source[0]
    by_source = topology.streams[stream].keyed_by == "source"
    name = source if by_source else topology.partition_name_of(stream)
    return TopicPartition("raw", partition_of(name, topology.topics.partitions))


def sources_of(topology: Topology) -> dict[str, dict[str, list[str]]]:
    """Return the partitions of the sources of each stream."""
    return {
        name: {
            source: [f"raw/{place_of(topology, source).partition}"]
            for source in (f"{name}0", f"{name}1")
        }
        for name in topology.streams
    }


def dumped(topology: Topology, logs: Logs) -> list[tuple[TopicPartition, bytes]]:
    """Return the lines of all partitions by arrival, each with its partition."""
    found = []
    for place, log in logs.items():
        inlet, clock = make_input_inlet(topology, place.topic), ArrivalClock(0)
        for record in log:
            line = record_line(inlet, 1, record, clock)
            key = (clock.now_ns, place, record.offset)
            found.append((key, place, orjson.dumps(line) + b"\n"))
    return [(place, line) for _, place, line in sorted(found)]


def replayed(folder: Path, lines: Iterable[tuple[TopicPartition, bytes]]) -> Told:
    """Return the output of one replay of all lines, with the topology in the folder."""
    whole = folder / "whole.jsonl"
    whole.write_bytes(b"".join(line for _, line in lines))
    replay = inorder("replay", "--no-to-end", "--topology", folder / "t.yaml", whole)
    assert replay.code == 0, replay.err
    return said(replay.lines)


def output_of(chain: Chain) -> Told:
    """Return the lines that the worker has emitted, by kind and by stream or query."""
    found: Told = defaultdict(list)
    topics = chain.topology.topics
    outputs = {stream.output for stream in chain.topology.streams.values()}
    for topic, put in chain.put:
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
    """Group the lines of a replay or of a table by kind, and stream or query."""
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


def at_of(kind: str, told: Any) -> int:
    found: int = told[4] if kind == "event" else told["at"]
    return found


def by_instant(told: dict[str, Any]) -> tuple[int, bytes]:
    return told["at"], orjson.dumps(told)


def until_ns(chain: Chain, kind: str, name: str) -> int:
    """Return the time up to which all results have been emitted.

    A later stage learns the time only from its input.
    """
    queries = chain.topology.queries
    if name not in queries or len(chain.stages) == 1:
        return chain.end_ms * MS
    query = queries[name]
    read = {*query.streams}
    last_ns = dict.fromkeys(read, 0)
    for topic, put in chain.put:
        headers = dict(put.headers)
        if topic in {stream.output for stream in chain.topology.streams.values()}:
            last_ns[(headers["streamId"] or b"").decode()] = int(headers["at"] or b"")
    return min(chain.end_ms * MS, *(last_ns[stream] for stream in read))


def assert_alike(
    live: Chain, wanted: Told, history: Told, *, any_order: bool, what: object = ""
) -> Told:
    """Assert that history and the worker's output make up `wanted`; return the worker's output.

    `any_order`: results at one instant can come in any order, and gaps by partition.
    """
    later = output_of(live)
    for key in wanted.keys() | later.keys() | history.keys():
        until = until_ns(live, *key)
        found, right = (
            [each for each in told[key] if at_of(key[0], each) < until]
            for told in (history | {key: history[key] + later[key]}, wanted)
        )
        if any_order and key[0] != "event":
            found, right = (sorted(told, key=by_instant) for told in (found, right))
        assert found == right, (what, key)
    return later


def check_seed(
    seed: int, folder: Path, patch: pytest.MonkeyPatch, *, cut: bool, lanes: int
) -> set[str]:
    """Run the law for a random topology made from the seed."""
    rng = Random(seed)
    return check_law(seed, rng, text_of(rng, cut=cut, lanes=lanes), folder, patch)


def check_law(
    seed: int,
    rng: Random,
    text: str,
    folder: Path,
    patch: pytest.MonkeyPatch,
    *,
    functions: str = "",
    cut_log: tuple[Logs, int] | None = None,
    all_live: bool = False,
) -> set[str]:
    """Run the law for one topology, and return the kinds of lines that the worker emitted.

    `functions`: the content of `functions.py`. `cut_log`: the input and the length of its history;
    None: at random. `all_live`: compare with a worker that gets all records live, not with a
    replay.
    """
    topology = topology_of(Setting(text, functions))
    logs, end = cut_log or (log_of(rng, topology), None)
    lines = dumped(topology, logs)
    if end is None:
        end = rng.choice((rng.randrange(len(lines)), rng.randrange(len(lines)), len(lines)))
    ends = Counter(f"raw/{place.partition}" for place, _ in lines[:end])
    out = left_off(
        folder, text, [line for _, line in lines[:end]], ends, sources_of(topology), functions
    )
    wanted = replayed(folder, lines)
    if all_live:
        other = Chain(topology, logs)
        asyncio.run(other.through(None, rng, patch))
        wanted = output_of(other)
    live = Chain(topology, logs)
    for place in live.places:
        place.dies = rng.randrange(2)
    histories = Backfilled(str(out), topology, str(folder / "t.yaml"))
    asyncio.run(live.through(histories, rng, patch))
    history = said(json.loads(line) for told in tabled(out).values() for line in told)
    any_order = len(live.stages) > 1 or topology.topics.partitions > 1
    later = assert_alike(live, wanted, history, any_order=any_order, what=(seed, end))
    return {kind for (kind, _), told in later.items() if told}


LAYOUTS = pytest.mark.parametrize(
    ("cut", "lanes"),
    [(False, 1), (False, 3), (False, 8), (True, 1)],
    ids=["one stage", "3 lanes", "8 lanes", "cut"],
)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("seed", FEW)
@LAYOUTS
def test_law_history_agrees_with_replay(
    seed: int, cut: bool, lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_seed(seed, tmp_path, monkeypatch, cut=cut, lanes=lanes)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_law_history_agrees_with_all_live(
    seed: int, lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    text = text_of(rng, cut=False, lanes=lanes, reorders=UNLEARNED)
    check_law(seed, rng, text, tmp_path, monkeypatch, all_live=True)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@LAYOUTS
def test_law_many_histories_match_replay(
    cut: bool, lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: set[str] = set()
    for seed in MANY:
        folder = tmp_path / str(seed)
        folder.mkdir()
        told |= check_seed(seed, folder, monkeypatch, cut=cut, lanes=lanes)
    assert told >= {"event", "gap", "window", "match", "join"}


class AtEachStep(Random):
    """Random choices that take one record at a time, and lose the partition after each."""

    def random(self) -> float:
        return 0.0


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("last", [b"x", b"%d" % ((BEGIN_MS + 20) * MS)], ids=["dead", "sound"])
def test_buffered_event_keeps_place(
    last: bytes, lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two lanes, history ends in the second lane, which cannot pass the first."""
    reorder = "reorder: {rule: fixed, max_wait: 2s, start: zero}"
    text = f"""\
application: seam
topics: {{partitions: {lanes}}}
state: memory
streams: {{a: {{input: raw, clock: {{unsynced: trust}}, {reorder}}}}}
stages: [reorder+merge]
"""
    topology = parse(text)
    sent = [("a1", 0, 0), ("a1", 2, 20), ("a0", 0, 90), ("a1", 1, 400), ("a1", 3, 500)]
    logs: Logs = {TopicPartition("raw", number): [] for number in range(lanes)}
    for source, seq, ms in sent:
        headers: Any = HeaderWriter(HeaderConfig()).write(
            source, seq, ts_ns=(BEGIN_MS + ms) * MS, epoch=0, stream="a"
        )
        if seq == 2:
            headers = [(name, last if name == "ts" else told) for name, told in headers]
        log, key = logs[place_of(topology, source)], source.encode()
        log.append(FakeRecord(len(log), tuple(headers), b'{"v":1}', key, BEGIN_MS + ms))
    assert logs[TopicPartition("raw", lanes - 1)][0].key == b"a1"
    rng = AtEachStep(0) if lanes == 1 else LaneAhead()
    check_law(0, rng, text, tmp_path, monkeypatch, cut_log=(logs, 2))


FUNCTIONS = """
from inorder.engine import Detector, Found

def step(state, event):
    before, count = state
    told = {"follows": before, "count": count} if before > event.source else None
    return (event.source, count + 1), told

class Runs:
    def __init__(self):
        self.kind, self.length, self.since = "", 0, 0

    def on_event(self, event):
        if event.type != self.kind:
            self.kind, self.length, self.since = event.type, 0, event.time_ns
        self.length += 1
        if self.length >= 2:
            yield Found({"length": self.length}, id=str(self.since))

def last(state, event):
    if event.type == "runs":
        return event.payload["length"], None
    return state, {"of": event.payload["follows"], "length": state}

detectors = {"follows": Detector(step, ("", 0)), "runs": Runs, "last": Detector(last, 0)}
"""


CUTS_OF_DETECTORS = (
    "reorder, merge+detector",
    "reorder+merge+detector",
    "reorder, merge, detector",
    "reorder+merge, detector",
)


def detectors_of(rng: Random, *, cut: bool, lanes: int) -> str:
    stages = rng.choice(CUTS_OF_DETECTORS) if cut else "reorder+merge+detector"
    kinds = ("final", "early", "speculate") if "merge+" in stages else ("final", "early")
    answers = [rng.choice(kinds) for _ in "123"]
    clocks = [rng.choice(streams.CLOCKS[:2]) for _ in "abcd"]
    return f"""
application: seam
functions: functions.py
topics: {{partitions: {lanes}}}
state: memory
streams:
  a: {{input: raw, clock: {clocks[0]}}}
  b: {{input: raw, clock: {clocks[1]}, reorder: {{{rng.choice(streams.REORDERS)}}}}}
  c: {{input: raw, clock: {clocks[2]}}}
  d: {{input: raw, clock: {clocks[3]}}}
queries:
  follows: {{detector: follows, stream: a, answer: {answers[0]}}}
  runs: {{detector: runs, stream: a, key: payload.k, answer: {answers[1]}}}
  last: {{detector: last, stream: a, reads: [runs, follows], answer: {answers[2]}}}
  other: {{detector: follows, stream: b, answer: {answers[0]}}}
stages: [{stages}]
"""


@LAYOUTS
def test_detectors_continue_a_history(
    cut: bool, lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: set[str] = set()
    for seed in FEW:
        rng, folder = Random(seed), tmp_path / str(seed)
        folder.mkdir()
        text = detectors_of(rng, cut=cut, lanes=lanes)
        told |= check_law(seed, rng, text, folder, monkeypatch, functions=FUNCTIONS)
    assert told >= {"event", "match"}


def test_foreign_state_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic with events from before the end of the backfill is refused too."""
    rng = Random(4)
    text = text_of(rng, cut=True)
    topology = parse(text)
    logs = log_of(rng, topology, 60)
    history = dumped(topology, logs)[:30]
    ends = Counter(f"raw/{place.partition}" for place, _ in history)
    out = left_off(tmp_path, text, [line for _, line in history], ends, sources_of(topology))
    histories = Backfilled(str(out), topology, str(tmp_path / "t.yaml"))
    before = Chain(topology, logs)
    asyncio.run(before.through(None, Random(1), monkeypatch))
    began = [place for place in before.places if place.state]
    assert len(began) > 1
    for place in began:
        with pytest.raises(StateRefused, match=r"did not begin with this backfill.*`application: "):
            asyncio.run(place.opened(histories, monkeypatch))
    live = Chain(topology, before.logs)
    behind = [place for place in live.places if not place.arrangement.is_first]
    with pytest.raises(StateRefused, match="contains events from before the end of the backfill"):
        asyncio.run(behind[0].opened(histories, monkeypatch))
    asyncio.run(Chain(topology, logs).through(histories, Random(1), monkeypatch))


BASE64 = ("5", '"a"', '"a b="', '"NQ=="', '"é"')  # the fourth decodes to 5, which is JSON
PAYLOADS = [b"hi", b"\xff\x00", b"", *(f'{{"base64":{text}}}'.encode() for text in BASE64)]
LIKE_HI = b'{"base64":"aGk="}'
"""A payload whose line equals that of b"hi", so it is read as b"hi"."""


@pytest.mark.parametrize("sent", [*PAYLOADS, LIKE_HI])
def test_payload_survives_a_history(sent: bytes) -> None:
    wanted = b"hi" if sent == LIKE_HI else sent
    topology = parse("streams: {default: {input: raw}}\n")
    record = FakeRecord(value=sent)
    line = record_line(make_input_inlet(topology, "raw", ()), 1, record, ArrivalClock(0))
    assert line is not None
    arrangement = arranged(topology)
    (topic, *_) = arrangement.inputs
    event = Event("default", "s1", 0, 1, 5, 6, value=line["payload"])
    assert RecordWriter(arrangement, TopicPartition(topic, 0))(event).value == wanted
