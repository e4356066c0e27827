"""Law: a batch that is bounded is no silence. A timer that is due while a group has rows says
nothing, so no line is overtaken, however far a job is behind. Spark is played here: rows, then what
is due."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

from spark_analytics.executors.setting import Setting
from spark_analytics.live.group import PartitionParcel
from spark_analytics.live.line_tables import OVERTAKEN
from spark_analytics.live.ordering import OrderLive
from spark_analytics.live.partitions import CLOCK, RAW, PartitionName
from spark_analytics.live.reading import NAMES, parcels_of
from tests.spark_analytics.live import logs
from topology.config import parse

BATCHES = 4
TICK_LAG_MS = 1_000


class TableForm:
    """A state of Spark's, of one value or a list."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def get(self) -> Any:
        return self.values[0] if self.values else None

    def update(self, value: Any) -> None:
        """A large value may be cut off on its way to Java."""
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


class Handle:
    """The state of one group."""

    def __init__(self) -> None:
        self.timers: set[int] = set()

    def getValueState(self, name: str, schema: str) -> TableForm:  # noqa: N802 - Spark's name
        return TableForm()

    def getListState(self, name: str, schema: str) -> Listed:  # noqa: N802 - Spark's name
        return Listed()

    def registerTimer(self, at_ms: int) -> None:  # noqa: N802 - Spark's name
        self.timers.add(at_ms)

    def deleteTimer(self, at_ms: int) -> None:  # noqa: N802 - Spark's name
        self.timers.discard(at_ms)


class At:
    """The time of a batch, or of a timer."""

    def __init__(self, ms: int) -> None:
        self._ms = ms

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802 - Spark's name
        return self._ms

    def getExpiryTimeInMs(self) -> int:  # noqa: N802 - Spark's name
        return self._ms


def opened(text: str, names: list[PartitionName], handle: Any) -> OrderLive:
    order = OrderLive(Setting(text), names, TICK_LAG_MS, 10_000)
    order.init(handle)
    return order


def frame(parcels: list[PartitionParcel]) -> pd.DataFrame:
    rows = [(*p.name, p.first, p.number, p.content) for p in parcels]
    return pd.DataFrame(rows, columns=list(NAMES))


@pytest.mark.parametrize("seed", range(3))
def test_what_a_bounded_batch_leaves_is_not_overtaken(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    text = logs.topology(rng)
    topology = parse(text)
    log = logs.log(rng, tmp_path, 120, partitions=1)
    names = [PartitionName(CLOCK if topic == logs.CLOCKS else RAW, topic, at) for topic, at in log]
    groups: dict[int, tuple[OrderLive, Handle]] = {}
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
        now = At(end_ms + 60_000 * (number + 1))
        now_ms = now.getCurrentProcessingTimeInMs()
        for group, parcels in taken.items():
            if group not in groups:
                handle = Handle()
                groups[group] = opened(text, names, handle), handle
            order, handle = groups[group]
            is_due = sorted(at_ms for at_ms in handle.timers if at_ms <= now_ms)
            found = list(order.handleInputRows((group,), iter([frame(parcels)]), now))
            for at_ms in is_due:
                found += order.handleExpiredTimer((group,), now, At(at_ms))
                handle.deleteTimer(at_ms)
                due += 1
            tables |= {table for each in found for table in each["table"]}
    assert due
    assert "events" in tables
    assert OVERTAKEN not in tables
