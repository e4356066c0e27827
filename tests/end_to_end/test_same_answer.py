"""End to end: the same log gives the same answer, whatever happened on the way.

One raw topic, two applications. One reads it while it is written and is killed in
between; the other reads it in a single go afterwards. Their ordered topics are equal
byte for byte, control records apart. The raw topic dumped as lines gives the same
through `inorder replay`.

`tick_lag` is long here: on a busy machine a tick may overtake a record by more than the
default 100 ms, which is counted, and is the one thing that two runs need not share.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.workloads import crowd
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Read, read_all
from tests.end_to_end.replaying import differences, dump, replay, said
from tests.end_to_end.setting import SPLIT, Setting, fused, settle
from tests.end_to_end.trouble import Trouble, play, stop_all
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import running, worker_on
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 10_000
SPEED = 0.2
CALM = "tick_lag: 3s\n"

SCRIPT = [(0.3, Trouble.kill_stages), (0.8, Trouble.kill_worker)]


def in_one_go(setting: Setting, folder: Path, expected: int) -> None:
    worker = worker_on(setting, folder, name="calm")
    with running(worker):
        wait_out(setting, expected)
        stop_all([worker])


def content(setting: Setting) -> dict[int, list[tuple[object, ...]]]:
    """What each partition of the ordered topic has, in log order."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for record in read_all(setting.bootstrap, setting.ordered):
        if not record.is_control:
            found.setdefault(record.partition, []).append(bytes_of(record))
    return found


def bytes_of(record: Read) -> tuple[object, ...]:
    return record.timestamp_ms, record.key, record.value, tuple(record.headers)


def assert_equal(hurt: Setting, calm: Setting) -> None:
    one, other = content(hurt), content(calm)
    assert one.keys() == other.keys()
    for partition, records in one.items():
        assert len(records) == len(other[partition])
        for place, (mine, its) in enumerate(zip(records, other[partition], strict=True)):
            assert mine == its, f"record {place} of partition {partition}"


@pytest.mark.chaos
def test_fused(kafka: SharedKafka, tmp_path: Path) -> None:
    rows = crowd(EVENTS, seed=3).rows
    hurt = fused(kafka.bootstrap, tmp_path, more=CALM)
    calm = fused(kafka.bootstrap, tmp_path, more=CALM, raw=hurt.raw)
    play(hurt, tmp_path / "hurt", rows, SPEED, SCRIPT)
    verdict = assert_sound(hurt)
    in_one_go(calm, tmp_path / "calm", verdict.accepted)
    assert_equal(hurt, calm)
    lines = tmp_path / "raw.jsonl"
    assert dump(hurt, lines) == verdict.raw
    replayed = replay(hurt, lines)
    assert differences(said(read_all(hurt.bootstrap, hurt.ordered)), replayed) == []
    assert replayed.summary["duplicate"] == verdict.duplicates


def test_split_over_several_partitions(kafka: SharedKafka, tmp_path: Path) -> None:
    rows = crowd(EVENTS // 2, seed=4).rows
    # Known starts and a fixed wait: nothing depends on which sources share a partition.
    fixed = "reorder: {rule: fixed, max_wait: 200ms, start: zero}"
    hurt = settle(kafka.bootstrap, tmp_path, partitions=3, more=CALM, stream=fixed)
    calm = settle(kafka.bootstrap, tmp_path, partitions=3, more=CALM, stream=fixed, raw=hurt.raw)
    assert hurt.stages == SPLIT.split(", ")
    play(hurt, tmp_path / "hurt", rows, SPEED, SCRIPT)
    verdict = assert_sound(hurt)
    in_one_go(calm, tmp_path / "calm", verdict.accepted)
    assert_equal(hurt, calm)
    lines = tmp_path / "raw.jsonl"
    assert dump(hurt, lines) == verdict.raw
    assert differences(said(read_all(hurt.bootstrap, hurt.ordered)), replay(hurt, lines)) == []
