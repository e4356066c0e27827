"""Law: a drained application agrees with one replay after its state moved to other stages.

Open windows, joins and patterns are included, and corrections by late events. There are no brokers
(tests/agents/stage/chain).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from agents.restore.moved_state import FormerTask, moved_states, spread
from agents.stage.outlet import partition_of
from agents.state import changelog
from inorder.header_writer import HeaderWriter
from tests.agents.records import FakeRecord, arranged
from tests.agents.restore.test_history import assert_alike, dumped, replayed, said
from tests.agents.stage.chain import MS, Chain, Logs
from topology.config import HeaderConfig, Topology, parse

BEGIN_MS = 1_700_000_000_000
DRAINED_MS = 6_000
PAUSE_MS = 8_000
"""Pause of all sources while the application is drained and its stages change."""

TEXT = """\
application: moved
state: memory
topics: {partitions: 2}
streams:
  a: {input: raw.a, clock: {unsynced: trust}, reorder: {rule: fixed, max_wait: 400ms}}
  b: {input: raw.b, clock: {unsynced: trust}, reorder: {rule: fixed, max_wait: 400ms}}
  c: {input: raw.c, clock: {unsynced: trust}, reorder: {rule: time, max_wait: 300ms}}
queries:
  near: {join: interval 9s, sides: {x: {stream: a}, y: {stream: b}}, outer: full}
  cells: {join: tumbling 10s, sides: {x: {stream: a}, y: {stream: b}}, outer: left}
  counts: {stream: b, window: tumbling 10s, aggregate: {n: count(), s: sum(payload.v)}}
  sessions: {stream: c, window: session 9s, key: payload.k, aggregate: {n: count()}}
  absent: {stream: c, pattern: "PATTERN SEQ(A a, !B b, C c) WHERE [k] WITHIN 10 s"}
  twice: {stream: a, pattern: "PATTERN SEQ(A a, C c) WHERE c.v > a.v WITHIN 10 s"}
"""
LAYOUTS = (
    "",
    "reorder, merge, window, pattern, join",
    "reorder, merge+window, pattern+join",
    "reorder+merge, window, pattern+join",
    "reorder, merge+pattern, window+join",
)
CHANGES = [(was, now) for was in LAYOUTS for now in LAYOUTS if was != now]


def topology_of(stages: str) -> tuple[str, Topology]:
    text = TEXT + (f"stages: [{stages}]\n" if stages else "")
    return text, parse(text)


def logs_of(rng: Random, widths: dict[str, int]) -> tuple[Logs, Logs]:
    """Return the logs up to the pause and the whole logs, with late, lost and duplicate records."""
    writer = HeaderWriter(HeaderConfig())
    logs: Logs = {TopicPartition(t, p): [] for t, width in widths.items() for p in range(width)}
    before: Logs = {}
    seqs: dict[str, int] = {}
    ms = BEGIN_MS
    for number in range(240):
        if number == 120:
            before = {place: [*log] for place, log in logs.items()}
            ms += PAUSE_MS
        ms += rng.choice((1, 3, 20, 40, 90))
        stream = rng.choice("abc")
        source = f"{stream}{rng.randrange(3)}"
        seqs[source] = seqs.get(source, -1) + 1
        if rng.random() < 0.03 and seqs[source]:
            continue
        ts_ns = (ms - rng.choice((0, 1, 2, 60, 1_500 if rng.random() < 0.2 else 0))) * MS
        if number >= 120 and rng.random() < 0.05:
            ts_ns -= PAUSE_MS * MS  # The event belongs to results from before the pause.
        headers: Any = writer.write(
            source, seqs[source], ts_ns=ts_ns, epoch=None, stream=stream, type=rng.choice("ABC")
        )
        value = b'{"v":%d,"k":"%s"}' % (rng.randint(-9, 9), rng.choice((b"x", b"y")))
        topic = f"raw.{stream}"
        log = logs[TopicPartition(topic, partition_of(source, widths[topic]))]
        for _ in range(2 if rng.random() < 0.05 else 1):
            log.append(FakeRecord(len(log), tuple(headers), value, source.encode(), ms))
    return before, logs


async def moved(
    was: Chain, topology: Topology, logs: Logs, widths: dict[str, int], patch: pytest.MonkeyPatch
) -> Chain:
    """Return the chain that continues `was` in the stages of this topology."""
    now = Chain(topology, {**was.logs, **logs}, widths)
    now.begin_ms, now.put = BEGIN_MS, [*was.put]
    stays = {each.name for each in was.topology.stages} & {each.name for each in topology.stages}
    former, opened = [], []
    for place in was.places:
        if place.arrangement.stage.name not in stays and place.state:
            task = await place.opened(None, patch)
            former.append(FormerTask(task.state, dict(place.state)))
            assert former[-1].waiting() == [], "it is drained"
            opened.append(task)
    for places in now.stages:
        arrangement = places[0].arrangement
        ends = {place.source: len(now.logs[place.source]) for place in places}
        name = arrangement.stage.name
        states = {} if name in stays else moved_states(arrangement, former, ends, {})
        kept = {at.source: at.state for at in was.places if at.arrangement.stage.name == name}
        for place in places:
            if name in stays:
                place.state = kept[place.source]
            elif place.source in states:
                place.state = dict(states[place.source].entries)
            for key, value in place.state.items():
                if key == b"state/\n\nalign/lanes" and name not in stays:
                    assert changelog.decode(value)[0] == max(task.now_ns for task in former)
    for task in opened:
        await task.abandon()
    return now


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("was", "now"), CHANGES, ids=str)
def test_law_moved_state_agrees_with_replay(
    was: str, now: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(f"{seed} {was} {now}")
    widths = {"raw.a": rng.choice((1, 3)), "raw.b": rng.choice((1, 2)), "raw.c": rng.choice((1, 2))}
    before, logs = logs_of(rng, widths)
    text, topology = topology_of(was)
    (tmp_path / "t.yaml").write_text(text)
    wanted = replayed(tmp_path, dumped(topology, logs))

    async def through() -> Chain:
        first = Chain(topology, before, widths)
        first.end_ms += DRAINED_MS
        await first.through(None, rng, monkeypatch)
        second = await moved(first, topology_of(now)[1], logs, widths, monkeypatch)
        await second.through(None, rng, monkeypatch)
        return second

    live = asyncio.run(through())
    told = assert_alike(live, wanted, said([]), any_order=True)
    assert {kind for (kind, _), each in told.items() if each} >= {
        "event",
        "window",
        "join",
        "match",
    }


@pytest.mark.parametrize(
    ("text", "partitions", "stream"),
    [
        ("streams: {default: {keyed_by: stream}}", 3, "default"),
        ("streams: {default: {keyed_by: stream}}", 1, None),
        ("streams: {default: {}}", 3, None),
        ("streams: {default: {keyed_by: stream}}\nstages: [reorder, merge]", 3, None),
    ],
)
def test_spread_stream_is_named(text: str, partitions: int, stream: str | None) -> None:
    assert spread(arranged(text, 0, partitions)) == stream
