"""End to end: an id identifies duplicates among records without numbers, under kill -9.

Every id is emitted once, though duplicates come before and after the worker is killed, in one stage
and in several. A replay of the dumped raw topic gives the same events.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.end_to_end.records import read_all
from tests.end_to_end.replaying import assert_replays
from tests.end_to_end.setting import FUSED, SPLIT, Settles
from tests.end_to_end.test_by_time import CALM, MS, TIMEOUT_S, produce
from tests.end_to_end.trouble import troubled
from tests.end_to_end.waiting import Emitted

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 2_000
SECONDS = 4
STREAM = (
    "fields: {preset: plain, id: payload.uuid},"
    " reorder: {rule: time, miss_target: 1%, id_memory: 10s}"
)


def recording(path: Path) -> int:
    """Write events, a fifth of them twice, and return how many lines there are."""
    rng = Random(11)
    began_ns = time.time_ns() + 2_000 * MS
    rows: list[dict[str, Any]] = []
    for i in range(EVENTS):
        ts_ns = began_ns + i * SECONDS * 1_000 * MS // EVENTS
        row = {"source": f"s{i % 4}", "ts": ts_ns, "payload": {"uuid": f"m{i}"}}
        delays_ms = [rng.choice((0, 0, 5, 40)), *[rng.choice((60, 500, 2_500))] * (i % 5 == 0)]
        rows += [{**row, "arrival": ts_ns + delay_ms * MS} for delay_ms in delays_ms]
    rows.sort(key=lambda one: one["arrival"])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return len(rows)


@pytest.mark.parametrize("stages", [SPLIT, FUSED])
def test_each_id_is_emitted_once(settles: Settles, tmp_path: Path, stages: str) -> None:
    setting = settles(stages=stages, partitions=1, stream=STREAM, more=CALM)
    lines = tmp_path / "lines.jsonl"
    with troubled(setting, 1) as trouble:
        count = recording(lines)
        emitted = Emitted(setting)
        publishing = produce(setting, lines)
        try:
            emitted.wait_for(EVENTS // 2)
            assert trouble.kill_worker(0)
            assert publishing.wait(TIMEOUT_S) == 0, publishing.communicate()[1].decode()
        finally:
            publishing.kill()
            publishing.communicate()
        emitted.wait_for(EVENTS)
        emitted.close()
    ordered = read_all(setting.bootstrap, setting.ordered)
    values = [json.loads(each.value or b"")["uuid"] for each in ordered if not each.is_control]
    assert Counter(values) == {f"m{i}": 1 for i in range(EVENTS)}
    again = assert_replays(setting)
    assert [again.summary[name] for name in ("in", "duplicate")] == [count, count - EVENTS]
