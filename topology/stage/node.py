r"""Defines a node of a flow graph: an operator with its place and the prefix of its state's keys.

The place is a bit, under which the stage's ledger has the events that the operator keeps
(`topology.stage.ledger`). The keys of the state have these prefixes:

    <stream>\n<operator>/    a node in the chain of a stream
    <stream>\naccepted <operator>/    the same, for queries that read what MERGE accepts
    <stream>\npassed/    the record of the events that have passed (`topology.answer.query.passed`)
    \n<stream>\n            a junction of several streams, by the first of them
    \n<stream>\naccepted/   the same, for queries that read what MERGE accepts
    \n\n                   a part before or after all nodes

A stream's name is never empty and has no line feed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from topology.answer.query.queries import combine_figures
from topology.base.composite import SEPARATOR, CompositePart
from topology.base.event import Event, copy_event
from topology.base.operator import NEVER, Figures, Operator
from topology.base.outcome import Step
from topology.config.stages import DETECTOR, JOIN
from topology.stage.accepted import ACCEPTED, Accepted, kind_of
from topology.stage.ledger import Ledger

if TYPE_CHECKING:
    from topology.queries.detector.queries import DetectorQueries

BATCH: Final = 0
TIME: Final = 1
END: Final = 2
"""The kinds of input that pass through a graph: a batch of events, time, or the end of the input.
"""


class NodeKey(NamedTuple):
    """A key of a stage's state: its node, and the key in the state of the node's operator.

    A junction has the first of its streams. The stream is "" for a part that is not a node.
    """

    prefix: str
    stream: str
    name: str
    entry: str


def split_key(key: str) -> NodeKey:
    begin = key.find(SEPARATOR, 1) + 1
    if key.startswith(SEPARATOR):
        return NodeKey(key[:begin], key[1 : begin - 1], JOIN, key[begin:])
    end = key.find("/", begin)
    return NodeKey(key[: end + 1], key[: begin - 1], key[begin:end], key[end + 1 :])


class JoinInput:
    """An edge that leads into a node with several inputs.

    It collects the output of the node before it, or the events that MERGE accepts, until all inputs
    can be put in one order. Its input before `now_ns` is complete.
    """

    __slots__ = ("accepted", "events", "now_ns")

    def __init__(self) -> None:
        self.accepted: list[Accepted] = []
        self.events: list[Event] = []
        self.now_ns = -NEVER

    def put(self, events: Sequence[Event], now_ns: int) -> None:
        self.events += events
        self.now_ns = max(self.now_ns, now_ns)

    def collect_accepted(self, accepted: Accepted, now_ns: int) -> None:
        self.accepted.append(accepted)
        self.now_ns = max(self.now_ns, now_ns)

    def clear(self) -> None:
        """Remove the collected events after the junction has processed them."""
        self.events = []
        self.accepted = []


class Node(CompositePart):
    """An operator in the graph, with its place and the prefix of its state's keys.

    `edges` get its output, in addition to the next node of its chain.
    """

    def __init__(
        self, name: str, operator: Operator, place: int, prefix: str, ledger: Ledger
    ) -> None:
        super().__init__(name, operator, prefix)
        self.place = place
        self.kept = ledger.kept_at(place)
        """The events that all nodes at this place keep."""
        self.ledger = ledger
        self._originals: dict[Event, Event] = {}
        """The event of MERGE's input for each accepted event that the operator keeps."""
        self.edges: list[JoinInput] = []
        self.kind = kind_of(name)
        self.detectors = _as_detectors(operator) if name == DETECTOR else None
        """The detectors of this node, which read the results of the nodes before it."""
        self.is_speculative = name.startswith(ACCEPTED) or (
            self.detectors is not None and self.detectors.is_speculative
        )
        """Whether the node reads accepted events (`topology.stage.accepted`), not ordered ones."""

    def run(self, what: int, events: Sequence[Event], now_ns: int) -> Step:
        """Run the operator on these events, then on time or the end of the input (`what`)."""
        step = self.operator.on_batch(events, now_ns)
        if what != BATCH:
            last = self._pass(what, now_ns)
            step.add(last)
            step.now_ns = last.now_ns
        self.record(step)
        return step

    def read(self, accepted: Accepted, what: int, now_ns: int) -> Step:
        """Return the operator's results for the accepted events, and then for `what`."""
        step = self.operator.on_batch(accepted.events(), now_ns)
        if what != BATCH:
            step.add(self._pass(what, now_ns))
        self.record(step, (accepted,))
        return Step(now_ns, results=step.results)

    def is_due(self, what: int, now_ns: int) -> bool:
        """Return whether a BATCH without events, or the passing of TIME, has any effect."""
        due_ns = self.operator.next_deadline_ns()
        return due_ns is not None and (due_ns <= now_ns if what == TIME else due_ns < now_ns)

    def passes(self, what: int, now_ns: int) -> Step:
        """Run the operator on the passing of time, or on the end of the input, without events."""
        step = self._pass(what, now_ns)
        self.record(step)
        return step

    def _pass(self, what: int, now_ns: int) -> Step:
        return self.operator.on_time(now_ns) if what == TIME else self.operator.on_end(now_ns)

    def record(self, step: Step, accepted: Sequence[Accepted] = ()) -> None:
        """Write the events that the operator keeps and no longer keeps into the ledger.

        The operator gets copies of the events that are `accepted`; the ledger has the originals.
        """
        kept, freed, moved = step.kept, step.freed, self.ledger.moved
        if not (kept or freed):
            return
        if self.is_speculative:
            kept, freed = self._originals_of(kept, freed, accepted)
        if moved is not None:
            moved += self.kept.intersection(kept)
            moved += self.kept.intersection(freed)
        self.kept.update(kept)
        self.kept.difference_update(freed)
        step.kept, step.freed = [], []

    def _originals_of(
        self, kept: Sequence[Event], freed: Sequence[Event], accepted: Sequence[Accepted]
    ) -> tuple[list[Event], list[Event]]:
        if kept:
            originals = dict(pair for each in accepted for pair in each.pairs())
            self._originals |= {copy: originals.get(copy, copy) for copy in kept}
        return (
            [self._originals[copy] for copy in kept],
            [self._originals.pop(copy) for copy in freed if copy in self._originals],
        )

    def settle_restored(self) -> None:
        """Write down the events that the operator holds after it was restored."""
        if self.is_speculative:
            held = set(self.operator.iter_held())
            self._originals = {copy: e for copy, e in self._originals.items() if copy in held}
        self.kept.update(self.iter_held())

    def iter_held(self) -> Iterable[Event]:
        held = self.operator.iter_held()
        return [self._originals[copy] for copy in held] if self.is_speculative else held

    def event_for(self, event: Event) -> Event:
        if not self.is_speculative:
            return event
        copy = copy_event(event)
        self._originals[copy] = event
        return copy


def figures_of(nodes: Iterable[Node]) -> Figures:
    """Return the figures of the nodes, combined for the nodes of one operator."""
    found: dict[str, list[Figures]] = {}
    for node in nodes:
        found.setdefault(node.kind, []).append(node.operator.figures())
    return {
        f"{kind}_{figure}": value
        for kind, figures in found.items()
        for figure, value in combine_figures(figures).items()
    }


def _as_detectors(operator: Operator) -> DetectorQueries:
    # A topology without detectors does not import their modules.
    from topology.queries.detector.queries import DetectorQueries

    assert isinstance(operator, DetectorQueries)
    return operator
