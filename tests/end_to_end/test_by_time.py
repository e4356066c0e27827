"""End to end: sources without numbers, alone and beside numbered ones, under kill -9.

`inorder produce` publishes lines without numbers, out of order within each source and with
duplicates, while the worker is killed. Every record is emitted once, each source by its time and
numbered without a gap, and the stream is in order. No watermark claims that recent times are
complete. The raw topic, dumped and replayed, gives the same, number by number.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cli.program import PROGRAM
from tests import ROOT
from tests.end_to_end.records import Read, read_all
from tests.end_to_end.replaying import assert_replays
from tests.end_to_end.setting import SPLIT, Setting, Settles
from tests.end_to_end.trouble import troubled
from tests.end_to_end.waiting import Emitted

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MS = 1_000_000
EVENTS = 4_000
SECONDS = 5
SOURCES = 6
TIMEOUT_S = 60.0
CALM = "tick_lag: 3s\ncorrect_for: 1h\n"
"""Options without which two readers of one log may see a late tick (test_same_answer)."""


def recording(path: Path, *, half_numbered: bool) -> list[str]:
    """Write the lines to publish, and return their payloads, each of which identifies its record.

    With `half_numbered` every second source numbers its events, and sends no duplicates.
    """
    rng = Random(7)
    began_ns = time.time_ns() + 2_000 * MS
    rows: list[dict[str, Any]] = []
    for i in range(EVENTS):
        ts_ns = began_ns + i * SECONDS * 1_000 * MS // EVENTS
        delay_ns = rng.choice((0, 0, 0, 5, 20, 60)) * MS + rng.randint(0, MS)
        row = {"source": f"s{i % SOURCES}", "ts": ts_ns, "arrival": ts_ns + delay_ns}
        if half_numbered and i % SOURCES % 2 == 0:
            row["seq"] = i // SOURCES
        rows.append({**row, "payload": f"{i}"})
        if i % 500 == 499:
            rows.append({**row, "arrival": ts_ns + delay_ns + 10 * MS, "payload": f"{i} again"})
    rows.sort(key=lambda one: one["arrival"])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [json.dumps(row["payload"]) for row in rows]


def produce(setting: Setting, path: Path) -> subprocess.Popen[bytes]:
    command = ("produce", "--brokers", setting.bootstrap, "--topic", setting.raw)
    options = ("--topology", str(setting.path), "--speed", "1", str(path))
    return subprocess.Popen([*PROGRAM, *command, *options], cwd=ROOT, stderr=subprocess.PIPE)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("rule", ["rule: time", "without_seq: by_time"])
def test_killed_worker_emits_each_once(settles: Settles, tmp_path: Path, rule: str) -> None:
    half_numbered = rule != "rule: time"
    reorder = f"reorder: {{{rule}, miss_target: 1%}}"
    # A replay learns waits from all sources; a worker from those of each partition.
    setting = settles(stages=SPLIT, partitions=1, stream=reorder, more=CALM)
    lines = tmp_path / "lines.jsonl"
    with troubled(setting, 1) as trouble:
        payloads = recording(lines, half_numbered=half_numbered)
        emitted = Emitted(setting)
        publishing = produce(setting, lines)
        try:
            emitted.wait_for(len(payloads) // 3)
            assert trouble.kill_worker(0)
            assert publishing.wait(TIMEOUT_S) == 0, publishing.communicate()[1].decode()
        finally:
            publishing.kill()
            publishing.communicate()
        emitted.wait_for(len(payloads))
        emitted.close()

    raw = read_all(setting.bootstrap, setting.raw)
    without = [record for record in raw if record.header("seqNum") is None]
    assert len(without) == len(raw) - half_numbered * EVENTS // 2
    ordered = read_all(setting.bootstrap, setting.ordered)
    assert_in_order([record for record in ordered if not record.is_control], payloads)
    watermarks = [record for record in ordered if record.header("kind") == "watermark"]
    assert watermarks
    for mark in watermarks:
        assert mark.number("complete") <= mark.number("refTs") - 3_600_000 * MS
    assert read_all(setting.bootstrap, setting.topology.topics.dead) == []
    gaps = read_all(setting.bootstrap, setting.topology.topics.gaps)
    assert {gap.key for gap in gaps} <= ({b"s0", b"s2", b"s4"} if half_numbered else set())

    again = assert_replays(setting)
    counts = ("in", "duplicate", "dead", "held")
    assert [again.summary[name] for name in counts] == [len(payloads), 0, 0, 0]
    assert again.summary["gaps"] == len(gaps)


def assert_in_order(events: list[Read], payloads: list[str]) -> None:
    assert Counter((event.value or b"").decode() for event in events) == Counter(payloads)
    keys = []
    by_source: dict[str, list[Read]] = defaultdict(list)
    late: Counter[str] = Counter()
    for event in events:
        source, epoch, seq = event.name
        by_source[source].append(event)
        if event.header("late") is None:
            keys.append((event.number("refTs"), event.number("at"), source, epoch, seq))
        else:
            late[event.header("late") or ""] += 1
    print(f"{len(events)} events, late: {dict(late)}")
    assert keys == sorted(set(keys))
    assert len(by_source) == SOURCES
    assert sum(late.values()) < len(events) // 5
    for mine in by_source.values():
        numbers = sorted(event.name[2] for event in mine)
        assert numbers == list(range(numbers[0], numbers[0] + len(mine)))
        in_order = [event for event in mine if event.header("late") is None]
        for one, other in pairwise(in_order):
            assert one.name[2] < other.name[2]
            assert one.number("ts") <= other.number("ts")
