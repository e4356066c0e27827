"""Which streams are ordered together, and which task takes them.

Streams that a join brings together are a group, and every other stream is one of its own. A group
more, the last, has what is of no stream that the topology names: it runs no operator, and its lines
are dead. A task takes the groups whose number it has, modulo the number of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.config import Topology
from topology.flow.replay import groups


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
