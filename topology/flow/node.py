"""NODE: an operator at its place in a flow graph.

Its operator marks the events that it holds with the place, a bit of `Event.held_by`. The keys of
the state begin so:

    <stream>\\n<operator>/    a node in the chain of a stream
    \\n<stream>\\n            a node where several streams meet, by the first of them
    \\n\\n                   what is in front of all nodes, or behind all

No name of a stream is empty, and none holds a line feed.
"""

from __future__ import annotations

from topology.detector.queries import DetectorQueries
from topology.flow.join_input import JoinInput
from topology.model.composite import CompositePart
from topology.model.operator import Operator


class Node(CompositePart):
    """`edges`: where what leaves it goes besides the next node of its chain."""

    def __init__(self, name: str, operator: Operator, place: int, prefix: str) -> None:
        super().__init__(name, operator, prefix)
        self.place = place
        self.edges: list[JoinInput] = []
        self.detectors = operator if isinstance(operator, DetectorQueries) else None
        """They read what the nodes before this one find."""
        self.reads_accepted = self.detectors is not None and self.detectors.is_ahead
        """It gets what MERGE accepts (topology.flow.accepted), not what comes by the chain."""
