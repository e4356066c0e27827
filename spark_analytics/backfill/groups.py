"""Assign streams to groups that are ordered together, and groups to tasks.

Streams that a join connects form a group, and every other stream is a group by itself. The last
group receives the records whose stream is not in the topology, and makes them dead letters. With
`m` tasks, group `n` belongs to task `n` modulo `m`.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.config import Topology
from topology.flow.replay import groups


class Groups:
    """The groups of a topology.

    `streams` has the names of each group's streams, in the order of the topology file. The last
    group has none.
    """

    def __init__(self, topology: Topology) -> None:
        self.streams: Sequence[Sequence[str]] = [*groups(topology), []]
        self._of = {stream: at for at, met in enumerate(self.streams) for stream in met}

    def __len__(self) -> int:
        return len(self.streams)

    @property
    def strange(self) -> int:
        """The number of the group for records whose stream is not in the topology."""
        return len(self.streams) - 1

    def of(self, stream: str | None) -> int:
        return self._of.get(stream or "", self.strange)
