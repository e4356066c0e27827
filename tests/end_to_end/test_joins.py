"""End to end: two streams in separate partitions are joined while stages are killed.

The current rows are those of the events on the ordered topic.
"""

from __future__ import annotations

import pytest

from benchmarks.workloads import crowd
from tests.end_to_end.joins import (
    FIRST,
    OTHER,
    QUERIES,
    StandingRows,
    joins_of,
    stream_of,
    value_of,
)
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import Settles
from tests.end_to_end.trouble import Trouble, play
from tests.end_to_end.worker import at_work

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 4_000
SPEED = 0.2
PROMISED = "    quality: {accuracy: 90%, max_wait: 1s}\n    answer: speculate\n"


def promised() -> str:
    near, alone = QUERIES.split("  alone:\n")
    return f"{near}{PROMISED}  alone:\n{alone}{PROMISED}"


@pytest.mark.parametrize(
    ("stages", "asked"),
    [
        ("reorder, merge, join", QUERIES),
        pytest.param("reorder, merge+join", QUERIES, marks=pytest.mark.chaos),
        pytest.param("reorder, merge+join", promised(), marks=pytest.mark.chaos),
    ],
    ids=["split", "in the merge", "before the merge, promised"],
)
def test_rows_survive_kills(settles: Settles, stages: str, asked: str) -> None:
    setting = settles(stages=stages, partitions=3, others=[OTHER], more=asked)
    assert setting.topology.partition_name_of(OTHER) == FIRST
    rows = crowd(EVENTS, seed=9).rows
    sender = Sender(setting, rows, speed=SPEED, value=value_of, stream=stream_of)
    script = [(0.3, Trouble.kill_stages), (0.7, Trouble.kill_worker)]
    play(setting, rows, SPEED, script, sender=sender)
    assert_sound(setting)
    expected = joins_of(setting)
    assert len(expected.must) > 2_000
    with at_work(setting, name="last"), StandingRows(setting) as standing:
        standing.await_expected(expected)
    print(f"{len(standing.lines)} rows, {standing.retracts} retracted")
