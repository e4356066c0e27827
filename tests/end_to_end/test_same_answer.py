"""End to end: the same log gives the same answer, whatever happens meanwhile.

Two applications share one raw topic. One reads it while it is written, and is killed in between;
the other reads it in a single run afterwards. Except for control records, their ordered topics
match byte for byte. A replay of the dumped raw topic gives the same.

`tick_lag` is long here: on a busy machine a tick can precede a record by more than the default 100
ms. That is counted, and is the only difference that two runs can have.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.workloads import crowd
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import events_of
from tests.end_to_end.replaying import Replayed, assert_replays
from tests.end_to_end.setting import FUSED, ONE_TASK, Setting, Settles
from tests.end_to_end.trouble import Trouble, play
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import at_work

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SPEED = 0.2
CALM = "tick_lag: 3s\n"

SCRIPT = [(0.3, Trouble.kill_stages), (0.8, Trouble.kill_worker)]


def assert_one_answer(hurt: Setting, calm: Setting) -> Replayed:
    """Assert that a single run over the same topic gives the same events, byte for byte, and so
    does a replay.
    """
    verdict = assert_sound(hurt)
    with at_work(calm, name="calm"):
        wait_out(calm, verdict.accepted)
    one, other = content(hurt), content(calm)
    assert one.keys() == other.keys()
    for partition, records in one.items():
        assert len(records) == len(other[partition])
        for place, (mine, its) in enumerate(zip(records, other[partition], strict=True)):
            assert mine == its, f"record {place} of partition {partition}"
    replayed = assert_replays(hurt)
    assert replayed.summary["in"] == verdict.raw
    assert replayed.summary["duplicate"] == verdict.duplicates
    return replayed


def content(setting: Setting) -> dict[int, list[tuple[object, ...]]]:
    """Return the content of each partition of the ordered topic, in log order."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for record in events_of(setting):
        told = record.timestamp_ms, record.key, record.value, tuple(record.headers)
        found.setdefault(record.partition, []).append(told)
    return found


# With known starts and a fixed wait, nothing depends on which sources share a partition.
FIXED = "reorder: {rule: fixed, max_wait: 200ms, start: zero}"


@pytest.mark.parametrize(
    ("shape", "events"),
    [
        pytest.param({"stages": FUSED, "partitions": 1}, 10_000, marks=pytest.mark.chaos),
        ({"partitions": 3, "stream": FIXED}, 5_000),
        (ONE_TASK | {"stream": f"keyed_by: source, {FIXED}"}, 5_000),
    ],
    ids=["fused", "split over several partitions", "one task over several partitions"],
)
def test_log_alone_decides_the_answer(settles: Settles, shape: dict[str, Any], events: int) -> None:
    hurt = settles(more=CALM, **shape)
    calm = settles(more=CALM, raw=hurt.raw, **shape)
    play(hurt, crowd(events, seed=3).rows, SPEED, SCRIPT)
    assert_one_answer(hurt, calm)
