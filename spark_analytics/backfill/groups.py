"""Assign streams to groups that are ordered together, and groups to tasks.

Streams that a join connects are a group, and every other stream is its own group. The last group is
for records without a stream of the topology. It runs no operator, and its lines are dead letters. A
task takes the groups whose number equals its own, modulo the number of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.config import Topology
from topology.flow.replay import groups


class Groups:
    """The groups of a topology.

    `streams` are those of each group, in the order of the topology file; the last group has none.
    """

    def __init__(self, topology: Topology) -> None:
        self.streams: Sequence[Sequence[str]] = [*groups(topology), []]
        self._of = {stream: at for at, met in enumerate(self.streams) for stream in met}

    def __len__(self) -> int:
        return len(self.streams)

    @property
    def strange(self) -> int:
        """The group of records without a stream of the topology."""
        return len(self.streams) - 1

    def of(self, stream: str | None) -> int:
        return self._of.get(stream or "", self.strange)
