"""End to end: live results continue history without a seam.

A worker begins where a backfill ended, and is killed while it takes over. It emits the rest of what
one replay of the topic gives.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from tests.cli.invoking import inorder
from tests.end_to_end.records import Reader, Sender, read_all
from tests.end_to_end.replaying import differences, dump, replay, said, said_by
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.test_same_answer import CALM
from tests.end_to_end.worker import Worker, running, worker_on
from tests.spark_analytics.backfill.outputs import left_off, tabled
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 4_000
SPEED = 0.2
QUERIES = """\
queries:
  n: {window: tumbling 100ms, aggregate: {n: count(), m: max(payload.n)}}
  w: {window: sliding 200ms every 50ms, key: payload.who, aggregate: {n: count()}}
"""
PATTERN = """\
  p: {pattern: "PATTERN SEQ(_ a, _ b) WHERE [who] WITHIN 40 ms"}
"""


def value(row: Row) -> bytes:
    return json.dumps({"who": row.source, "n": row.seq}).encode()


@pytest.mark.parametrize(
    ("stages", "kills"),
    [
        ("all", 1),
        ("reorder, merge+window+pattern", 1),
        pytest.param("reorder, merge, window, pattern", 2, marks=pytest.mark.chaos),
    ],
    ids=["one task", "two stages", "four stages"],
)
def test_live_results_continue_history(
    settles: Settles, tmp_path: Path, stages: str, kills: int
) -> None:
    """One stream's sources are in two partitions, which one task or several tasks read.

    Waits are fixed, since an adaptive rule would learn in each partition separately.
    """
    setting = settles(
        stages=stages,
        clock="unsynced: trust, sync: none",
        stream="reorder: {rule: fixed, max_wait: 400ms}",
        more=CALM + QUERIES + PATTERN,
    )
    sender = Sender(setting, crowd(EVENTS, seed=3).rows, speed=SPEED, value=value)
    sender.start().finish()
    assert dump(setting, tmp_path / "raw.jsonl") == sender.sent
    lines = (tmp_path / "raw.jsonl").read_bytes().splitlines(keepends=True)
    cut = len(lines) * 6 // 10
    places = places_of(setting)
    ends = Counter(place for _, place in places[:cut])
    assert len(ends) == 2
    lies: dict[str, set[str]] = {}
    for source, place in places:
        lies.setdefault(source, set()).add(place)
    sources = {"default": {source: sorted(where) for source, where in lies.items()}}
    out = left_off(tmp_path, setting.path.read_text(), lines[:cut], ends, sources)
    told = [json.loads(line) for lines in tabled(out).values() for line in lines]
    no_seam(setting, told, out, tmp_path / "raw.jsonl", tmp_path / "live", kills)


def places_of(setting: Setting) -> list[tuple[str, str]]:
    """Return the source and the partition of each record, by arrival as in a dump."""
    now_ms: dict[int, int] = {}
    found = []
    for read in read_all(setting.bootstrap, setting.raw):
        now_ms[read.partition] = max(read.timestamp_ms, now_ms.get(read.partition, 0))
        order = now_ms[read.partition], read.partition, read.offset
        found.append((order, read.header("sourceId") or "", f"{setting.raw}/{read.partition}"))
    return [(source, place) for _, source, place in sorted(found)]


def no_seam(
    setting: Setting,
    told: Sequence[dict[str, Any]],
    out: Path,
    dumped: Path,
    folder: Path,
    kills: int = 1,
) -> None:
    """Assert that a backfill and the worker that continues it together match the replay."""
    wanted = replay(setting, dumped)
    events = [said_by(line) for line in told if line["kind"] == "event"]
    left = len(wanted.events) - len(events)
    assert events
    assert left
    again = inorder("replay", "--topology", setting.path, dumped).lines
    results = results_of(again, wanted.end_ns)
    ordered = Reader(setting.bootstrap, setting.ordered)
    topics = setting.topology.result_topics.values()
    readers = [Reader(setting.bootstrap, topic) for topic in topics]

    def found() -> list[dict[str, Any]]:
        """Return the results that the worker emitted before the end."""
        for each in readers:
            each.poll()
        lines = [json.loads(read.value or b"") for each in readers for read in each.records]
        return results_of(lines, wanted.end_ns)

    options = ("--from-backfill", str(out))
    worker = worker_on(setting, *options, name="live")
    before = results_of(told, wanted.end_ns)
    with running(may_start=[worker]):
        killed_while_it_takes_over(worker, Random(5), kills)
        worker.start()
        wait_until(lambda: _come(ordered) >= left, f"{left} events", lambda: _come(ordered))
        rest = len(results) - len(before)
        wait_until(lambda: len(found()) >= rest, "results", lambda: len(found()))
        worker.wait_ready()  # The killed worker may have emitted all.
        assert worker.stop() == 0
    log = worker.process.log.read_text()
    for partition in range(setting.topology.topics.partitions):
        assert f"{setting.raw}/{partition}: reads from offset" in log
    assert differences([*events, *said(ordered.records)], wanted) == []
    live = found()
    assert results_of([*before, *live], wanted.end_ns) == results
    for query in setting.topology.queries:
        assert [line for line in before if line["query"] == query]
        assert [line for line in live if line["query"] == query]
    for each in (ordered, *readers):
        each.close()


def results_of(lines: Iterable[dict[str, Any]], end_ns: int) -> list[dict[str, Any]]:
    """Return the results before the end, by their instants.

    At the end a replay flushes, and a worker keeps waiting.
    """
    told = [line for line in lines if "query" in line and line["at"] < end_ns]
    return sorted(
        told, key=lambda line: (line["query"], line["at"], json.dumps(line, sort_keys=True))
    )


def killed_while_it_takes_over(worker: Worker, rng: Random, kills: int) -> None:
    """Start the worker and kill it within a second after it begins to read, `kills` times."""
    for _ in range(kills):
        worker.start()
        worker.await_said("starts; reads")
        time.sleep(rng.random())
        worker.kill_all()


def _come(reader: Reader) -> int:
    reader.poll()
    return sum(not record.is_control for record in reader.records)
