"""Examples: numbers missing before an epoch's first event or after its last hold the completeness
frontier.

Times are in milliseconds; `reorder.max_wait` is 500.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.events import event as event_of
from tests.kit.runs import released_of
from topology.base.event import BLOCKED, DEAD, Event
from topology.base.late import GAP
from topology.config import MergeConfig, ReorderConfig
from topology.order.merge.operator import Merge
from topology.order.merge.source import MAX_MISSING, SOURCE

MS = 1_000_000


def merge(start: Any = 0, **settings: Any) -> Merge:
    chosen = {"new_source_allowance": "0s", **settings}
    config = MergeConfig(
        **chosen,
        reorder=ReorderConfig(start=start),
        heartbeat_ns=100 * MS,
        correct_for_ns=9_000 * MS,
    )
    return Merge("default", config)


def event(seq: int, at: int, epoch: int = 0, **more: Any) -> Event:
    return event_of(seq, at, at, epoch=epoch, **more)


def late(seq: int, at: int, ts: int, epoch: int = 0) -> Event:
    found = event_of(seq, ts, at, epoch=epoch)
    found.late = GAP
    return found


def complete_ms(operator: Merge) -> int | None:
    ns = operator.figures().get("completeness_frontier_ns")
    return None if ns is None else ns // MS


@pytest.mark.parametrize(
    ("start", "expected"), [(0, 1_000), (2, 1_000), (3, 2_000), ("auto", 2_000)]
)
def test_lost_start_holds_frontier(start: Any, expected: int) -> None:
    operator = merge(start)
    released_of(operator, event(3, 1_000), event(4, 2_000))
    operator.on_time(2_100 * MS)
    assert complete_ms(operator) == expected


def test_late_start_frees_frontier() -> None:
    operator = merge()
    released_of(operator, event(1, 1_000), event(2, 2_000))
    first = late(0, 2_200, 900)
    operator.on_batch([first], first.at_ns)
    operator.on_time(2_400 * MS)
    assert complete_ms(operator) == 2_000


def test_allowance_lowers_frontier() -> None:
    """A missing start lowers the frontier below the first event, by the new-source allowance."""
    operator = merge(new_source_allowance="400ms")
    released_of(operator, event(1, 1_000), event(2, 2_000))
    operator.on_time(2_100 * MS)
    assert complete_ms(operator) == 600


def test_missing_start_expires() -> None:
    """After the allowed lateness, missing numbers no longer hold the frontier."""
    operator = merge()
    released_of(operator, *(event(seq, 1_000 * seq) for seq in range(1, 12)))
    operator.on_time(11_100 * MS)
    assert complete_ms(operator) == 11_000


def test_gap_before_dead_letter_counts() -> None:
    operator = merge()
    blocked = event(0, 900, kind=BLOCKED)
    released_of(operator, blocked, event(3, 1_000, kind=DEAD), event(4, 1_100), event(5, 2_000))
    operator.on_time(2_100 * MS)
    assert complete_ms(operator) == 1_100


def test_many_epochs_keep_few_ranges() -> None:
    operator = merge()
    for number in range(MAX_MISSING + 100):
        operator.on_batch([event(1, 1_000 + number, epoch=number)], (1_000 + number) * MS)
    row: Any = operator.snapshot()["source/s"]
    assert len(row[SOURCE.fields.index("_missing")]) == MAX_MISSING
    assert complete_ms(operator) == 1_000


def test_new_epoch_awaits_end_of_previous() -> None:
    operator = merge()
    released_of(operator, event(0, 1_000), event(1, 1_100), event(0, 1_200, epoch=1))
    operator.on_time(1_600 * MS)
    assert complete_ms(operator) == 1_100
    operator.on_time(1_700 * MS)
    assert complete_ms(operator) == 1_200


def test_end_of_epoch_is_in_order() -> None:
    operator = merge(expected_sources=["other"], max_wait="400ms")
    released_of(operator, event(0, 1_000), event(1, 1_100), event(0, 1_200, epoch=1))
    released_of(operator, late(2, 1_250, 1_150))
    released = operator.on_end(1_300 * MS).released
    numbers = [(each.epoch, each.seq, each.late) for each in released if not each.kind]
    assert numbers == [(0, 0, ""), (0, 1, ""), (0, 2, ""), (1, 0, "")]


def test_restart_keeps_awaited_end() -> None:
    operator, again = merge(), merge()
    released_of(operator, event(0, 1_000), event(0, 1_200, epoch=1))
    again.restore(operator.snapshot(), list(operator.iter_held()))
    again.on_time(1_600 * MS)
    assert complete_ms(again) == 1_000
    again.on_time(1_800 * MS)
    assert complete_ms(again) == 1_200


def test_midstream_misses_no_start() -> None:
    operator = merge()
    operator.begin_midstream()
    released_of(operator, event(7, 1_000), event(8, 2_000))
    operator.on_time(2_100 * MS)
    assert complete_ms(operator) == 2_000
