"""NODE: an operator at its place in a flow graph.

Its operator marks the events that it holds with the place, a bit of `Event.held_by`. The keys of
the state begin so:

    <stream>\\n<operator>/    a node in the chain of a stream
    <stream>\\naccepted <operator>/    the same, of queries that read what MERGE accepts
    \\n<stream>\\n            a node where several streams meet, by the first of them
    \\n<stream>\\naccepted/   the same, of queries that read what MERGE accepts
    \\n\\n                   what is in front of all nodes, or behind all

No name of a stream is empty, and none holds a line feed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from topology.config.stages import DETECTOR
from topology.flow.accepted import ACCEPTED, Accepted, kind_of
from topology.model.composite import CompositePart
from topology.model.event import Event
from topology.model.operator import NEVER, Figures, Operator
from topology.model.outcome import Step
from topology.query.queries import worst

if TYPE_CHECKING:
    from topology.detector.queries import DetectorQueries

BATCH: Final = 0
TIME: Final = 1
END: Final = 2
"""What passes through a graph: events, an instant, or the end of the input."""


class JoinInput:
    """An edge that leads into a node with several inputs: what passes the node before it, or what
    MERGE accepts, until all inputs can be put in one order. `now_ns`: all before it has passed."""

    __slots__ = ("accepted", "events", "now_ns")

    def __init__(self) -> None:
        self.accepted: list[Accepted] = []
        self.events: list[Event] = []
        self.now_ns = -NEVER

    def put(self, events: Sequence[Event], now_ns: int) -> None:
        self.events += events
        self.now_ns = max(self.now_ns, now_ns)

    def accept(self, accepted: Accepted, now_ns: int) -> None:
        self.accepted.append(accepted)
        self.now_ns = max(self.now_ns, now_ns)

    def clear(self) -> None:
        """The node behind has taken all."""
        self.events = []
        self.accepted = []


class Node(CompositePart):
    """`edges`: where what leaves it goes besides the next node of its chain."""

    def __init__(self, name: str, operator: Operator, place: int, prefix: str) -> None:
        super().__init__(name, operator, prefix)
        self.place = place
        self.edges: list[JoinInput] = []
        self.kind = kind_of(name)
        self.detectors = _detectors(operator) if name == DETECTOR else None
        """They read what the nodes before this one find."""
        self.reads_accepted = name.startswith(ACCEPTED) or (
            self.detectors is not None and self.detectors.is_ahead
        )
        """It gets what MERGE accepts (topology.flow.accepted), not what comes by the chain."""

    def on(self, what: int, events: Sequence[Event], now_ns: int) -> Step:
        """The operator takes these events; then time passes, or the input ends, if that is what
        passes through the graph."""
        step = self.operator.on_batch(events, now_ns)
        if what != BATCH:
            last = self.passes(what, now_ns)
            step.add(last)
            step.now_ns = last.now_ns
        return step

    def read(self, accepted: Accepted, what: int, now_ns: int) -> Step:
        """What the operator finds in what MERGE has accepted, and in what passes then."""
        accepted.swap()
        step = self.on(what, accepted.events(), now_ns)
        accepted.swap()
        return Step(now_ns, results=step.results, freed=step.freed)

    def passes(self, what: int, now_ns: int) -> Step:
        """Time passes, or the input ends."""
        return self.operator.on_time(now_ns) if what == TIME else self.operator.on_end(now_ns)


def figures_of(nodes: Iterable[Node]) -> Figures:
    """Return the figures of nodes, those of one operator together."""
    found: dict[str, list[Figures]] = {}
    for node in nodes:
        found.setdefault(node.kind, []).append(node.operator.figures())
    return {
        f"{kind}_{figure}": value
        for kind, figures in found.items()
        for figure, value in worst(figures).items()
    }


def _detectors(operator: Operator) -> DetectorQueries:
    # Where there are none, nothing of theirs is imported.
    from topology.detector.queries import DetectorQueries

    assert isinstance(operator, DetectorQueries)
    return operator
