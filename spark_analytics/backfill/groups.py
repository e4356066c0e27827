"""Which streams are ordered together, and which task takes them.

Streams that a join brings together are a group, and every other stream is one of its own. A group
more, the last, has what is of no stream that the topology names: it runs no operator, and its lines
are dead. A task takes the groups whose number it has, modulo the number of tasks.

Spark deals rows to tasks by the hash of a column, so the column has to hold what hashes to the task
that is meant (`slots`): whole numbers are tried until each task has one.

"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from topology.config import Topology
from topology.flow.replay import groups

TRIED: Final = 32
"""Whole numbers for each task, at first; twice as many as long as one has none."""


class Groups:
    """`streams`: those of each group, in the order of the topology file; none of the last."""

    def __init__(self, topology: Topology) -> None:
        self.streams: Sequence[Sequence[str]] = [*groups(topology), []]
        self._of = {stream: at for at, met in enumerate(self.streams) for stream in met}

    def __len__(self) -> int:
        return len(self.streams)

    @property
    def strange(self) -> int:
        """The group of what is of no stream."""
        return len(self.streams) - 1

    def of(self, stream: str | None) -> int:
        return self._of.get(stream or "", self.strange)


def slots(spark: SparkSession, tasks: int) -> list[int]:
    """For each task a whole number whose row Spark gives to it."""
    found: dict[int, int] = {}
    tried = TRIED * tasks
    while len(found) < tasks:
        dealt = F.expr(f"pmod(hash(cast(id AS INT)), {tasks})")
        rows = spark.range(0, tried, 1, 1).select("id", dealt.alias("task")).collect()
        found = {row["task"]: row["id"] for row in rows}
        tried *= 2
    return [found[task] for task in range(tasks)]
