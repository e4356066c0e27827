"""Law: a bounded batch does not mean that the log is idle. A timer that is due while a group has
rows emits nothing, so no line is late, whatever the job's lag. Spark is simulated: rows, then
due timers.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from spark_analytics.executors.setting import Setting
from spark_analytics.live.group import PartitionParcel
from spark_analytics.live.line_tables import OVERTAKEN
from spark_analytics.live.ordering import OrderLive
from spark_analytics.live.reading import NAMES, parcels_of
from tests.spark_analytics.live import logs
from topology.config import parse

BATCHES = 4
TICK_LAG_MS = 1_000


class TableForm:
    """A Spark state of one value or of a list."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def get(self) -> Any:
        return self.values[0] if self.values else None

    def update(self, value: Any) -> None:
        """Update the value, which must be small: a large one can be cut off on its way to Java."""
        assert len(repr(value)) < 200
        self.values = [value]


class Listed(TableForm):
    def get(self) -> Any:
        return list(self.values)

    def put(self, values: Any) -> None:
        self.values = list(values)

    def appendList(self, values: Any) -> None:  # noqa: N802 - Spark's name
        self.values += values

    def clear(self) -> None:
        self.values = []


def handle_of(timers: set[int]) -> Any:
    """Return the state of one group, with these timers."""
    return SimpleNamespace(
        getValueState=lambda name, schema: TableForm(),
        getListState=lambda name, schema: Listed(),
        registerTimer=timers.add,
        deleteTimer=timers.discard,
    )


def at(ms: int) -> Any:
    """Return the time of a batch or of a timer."""
    return SimpleNamespace(getCurrentProcessingTimeInMs=lambda: ms, getExpiryTimeInMs=lambda: ms)


def frame(parcels: list[PartitionParcel]) -> pd.DataFrame:
    rows = [(*p.name, p.first, p.number, p.content) for p in parcels]
    return pd.DataFrame(rows, columns=list(NAMES))


@pytest.mark.parametrize("seed", range(3))
def test_bounded_batch_makes_no_line_late(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    text = logs.topology(rng)
    topology = parse(text)
    log = logs.log(rng, tmp_path, 120, partitions=1)
    names = logs.names_of(log)
    groups: dict[int, tuple[OrderLive, set[int]]] = {}
    end_ms = max(record.stamp_ms for records in log.values() for record in records)
    due = 0
    tables: set[str] = set()
    for number in range(BATCHES):
        taken: dict[int, list[PartitionParcel]] = defaultdict(list)
        for records in log.values():
            size = -(-len(records) // BATCHES)
            part = records[number * size : (number + 1) * size]
            for group, parcel in parcels_of(topology, map(logs.values_of, part)):
                taken[group].append(parcel)
        now_ms = end_ms + 60_000 * (number + 1)
        for group, parcels in taken.items():
            if group not in groups:
                own = set[int]()
                groups[group] = OrderLive(Setting(text), names, TICK_LAG_MS, 10_000), own
                groups[group][0].init(handle_of(own))
            order, timers = groups[group]
            is_due = sorted(at_ms for at_ms in timers if at_ms <= now_ms)
            found = list(order.handleInputRows((group,), iter([frame(parcels)]), at(now_ms)))
            for at_ms in is_due:
                found += order.handleExpiredTimer((group,), at(now_ms), at(at_ms))
                timers.discard(at_ms)
                due += 1
            tables |= {table for each in found for table in each["table"]}
    assert due
    assert "events" in tables
    assert OVERTAKEN not in tables
