"""Lists the operators that a stage can have, one in each row, and builds a stage's graph from them.

The order of the chain is that of `topology.config.stages.CHAIN`. A row here defines how an operator
is built and describes its figures. CLOCK has a row, but no name in the topology file, because it
belongs to REORDER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Final, NamedTuple

from topology.answer.query.passed import PASSED, Passed
from topology.base.operator import Figure, Operator
from topology.base.payload import Payloads
from topology.config import Topology
from topology.config.stages import DETECTOR, JOIN, MERGE, PATTERN, REORDER, WINDOW, emits_no_events
from topology.config.stages import list_operators as all_operators
from topology.order.clock.drift_table import DriftTable
from topology.stage import build
from topology.stage.accepted import ACCEPTED, kind_of
from topology.stage.build import Site
from topology.stage.by_lane import ByLane
from topology.stage.chain import Chain
from topology.stage.graph import Graph, Junction
from topology.stage.ledger import Ledger
from topology.stage.node import JoinInput, Node

CLOCK: Final = "clock"
ALIGN_PLACE: Final = 1
"""The place of the alignment, which precedes all operators (`topology.stage.ledger`)."""

FIRST_PLACE: Final = 2
"""The place of the first operator; each operator after it has the next higher bit."""


NO_LANES: Final[Mapping[str, Sequence[int] | None]] = {}
BY_LANE: Final = frozenset({REORDER, CLOCK})
"""The operators that keep the state of each lane of a task apart."""

BEGIN_LATE: Final = frozenset({WINDOW, PATTERN, JOIN})
"""The operators whose queries begin after the events that have passed (`Passed`)."""


class OperatorRow(NamedTuple):
    """An operator that a stage can have.

    The module `topology.<folder>.operator` has `FIGURES`, which describe the operator's figures.
    `build` makes the operator of a stream. If the operator `takes_several`, it makes one for all
    streams that are joined. It returns None if the operator has no work there. `shape` is the
    version of the keys of its state and of all state that no `Shape` declares. A state with another
    version is refused. A table in `topology.state.saved` says which version to raise.
    """

    name: str
    folder: str
    build: Callable[[Site], Operator | None]
    takes_several: bool = False
    shape: int = 1


ROWS: tuple[OperatorRow, ...] = (
    OperatorRow(REORDER, "order.reorder", build.reorder, shape=4),
    OperatorRow(CLOCK, "order.clock", build.clock, shape=2),
    OperatorRow(MERGE, "order.merge", build.build_merge, shape=4),
    OperatorRow(WINDOW, "queries.window", build.build_windows, shape=5),
    OperatorRow(PATTERN, "queries.pattern", build.pattern, shape=4),
    OperatorRow(JOIN, "queries.join", build.build_joins, takes_several=True, shape=2),
    OperatorRow(DETECTOR, "queries.detector", build.build_detectors, shape=4),
)

STATE_NUMBER: Final = sum(row.shape for row in ROWS)
"""The version of all operators' states together, for a state that contains all of them."""


def figures(operators: Sequence[str] | None = None) -> dict[str, Figure]:
    """Return the figures of these operators (None: of all), by `<operator>_<figure>`."""
    return {
        f"{row.name}_{name}": figure
        for row in _rows_of(operators)
        for name, figure in import_module(f"topology.{row.folder}.operator").FIGURES.items()
    }


def shapes_of(operators: Sequence[str]) -> dict[str, int]:
    """Return the version of the state that each operator of a stage saves, by operator."""
    return {row.name: row.shape for row in _rows_of(operators)}


def _rows_of(operators: Sequence[str] | None) -> list[OperatorRow]:
    """Return the rows of these operators (None: of all), with CLOCK if REORDER is among them."""
    named = None if operators is None else {*_node_names(operators)}
    return [row for row in ROWS if named is None or row.name in named]


def _node_names(operators: Sequence[str]) -> list[str]:
    """Return the names of the operators' nodes, in order, with CLOCK after REORDER."""
    return [
        each for name in operators for each in ([REORDER, CLOCK] if name == REORDER else [name])
    ]


def _row_of(node: str) -> OperatorRow:
    return next(row for row in ROWS if row.name == kind_of(node))


def places_of(operators: Sequence[str]) -> dict[str, int]:
    """Return the place of each node (`topology.stage.ledger`), the same for all streams."""
    names = _node_names(operators)
    if MERGE in operators:
        names += [ACCEPTED + name for name in operators if name in (WINDOW, PATTERN, JOIN)]
    return {name: FIRST_PLACE << number for number, name in enumerate(names)}


def nodes_with_state(operators: Sequence[str]) -> set[str]:
    """Return the names of the nodes that have state, with that of the events that have passed."""
    return {*places_of(operators), *([PASSED] if BEGIN_LATE & {*operators} else [])}


def operators_of(shapes: Iterable[str]) -> list[str]:
    """Return the operators of a stage, in order, from the operators whose shapes its state has."""
    return [name for name in all_operators() if name in {*shapes}]


def new_places(was: Sequence[str], now: Sequence[str]) -> dict[int, int]:
    """Return the place of each node in a stage with the operators `now`, by its former place.

    The place of a node that is not there is 0.
    """
    after = places_of(now)
    return {place: after.get(name, 0) for name, place in places_of(was).items()}


def place_moves(was: Sequence[str], now: Sequence[str]) -> dict[int, int]:
    """Return `new_places`, or an empty dict if no place shifts.

    The places shift if an operator has its first query, or its last one is removed.
    """
    moves = new_places(was, now)
    return {} if all(place == new for place, new in moves.items()) else moves


def move_places(places: int, moves: Mapping[int, int]) -> int:
    """Return the places of a held event after the moves of `new_places`."""
    kept = places & ALIGN_PLACE
    return kept | sum(now for place, now in moves.items() if places & place)


def buffering_places(operators: Sequence[str]) -> int:
    """Return the places of the operators that hold events before they pass them on."""
    named = places_of(operators).items()
    return ALIGN_PLACE | sum(place for name, place in named if not emits_no_events(kind_of(name)))


def chain_of(
    topology: Topology,
    stream: str,
    operators: Sequence[str],
    ledger: Ledger,
    table: DriftTable | None = None,
    lanes: Sequence[int] | None = (),
    payloads: Payloads | None = None,
) -> Chain:
    """Return the chain of one stream's operators, without those that join several streams.

    `lanes` are those that can have events of the stream, if there are several; None if each begins
    with its first event (`topology.stage.by_lane`).
    """
    nodes: list[Node] = []
    for name, place in places_of(operators).items():
        row = _row_of(name)
        site = Site(topology, [stream], table, name != row.name, payloads)
        build_one = site.config.built_by.get(row.name, row.build)
        operator = None if row.takes_several else build_one(site)
        if operator is not None and name in BY_LANE and (lanes is None or len(lanes) > 1):
            first, *others = lanes or [0]
            made = {lane: build_one(site) for lane in others}
            rest = {lane: each for lane, each in made.items() if each is not None}
            build_next = partial(build_one, site) if lanes is None else None
            operator = ByLane({first: operator, **rest}, build_next)
        if operator is not None:
            nodes.append(Node(name, operator, place, f"{name}/", ledger))
    passed = Passed(announced=topology.watermark) if BEGIN_LATE & {*operators} else None
    return Chain(nodes, passed)


def graph_of(
    topology: Topology,
    streams: Sequence[str],
    operators: Sequence[str],
    ledger: Ledger,
    table: DriftTable | None = None,
    *,
    lanes: Mapping[str, Sequence[int] | None] = NO_LANES,
    begins_ordered: bool = False,
    payloads: Payloads | None = None,
) -> Graph:
    """Return the graph of these streams and operators.

    `lanes` are the lanes of each stream in a task of several, as in `chain_of`.
    `begins_ordered` means that the input is the ordered topic.
    """
    chains = {
        stream: chain_of(
            topology, stream, operators, ledger, table, lanes.get(stream, ()), payloads
        )
        for stream in streams
    }
    junctions: list[Junction] = []
    for name, place in places_of(operators).items():
        row = _row_of(name)
        for met in _groups_with_join(topology, streams) if row.takes_several else ():
            is_speculative = name != row.name
            site = Site(topology, met, is_speculative=is_speculative, payloads=payloads)
            operator = row.build(site)
            if operator is not None:
                inputs = {stream: _add_edge(chains[stream], name, place) for stream in met}
                junctions.append(
                    Junction(name, operator, place, ledger, inputs, keeps_log_order=begins_ordered)
                )
    return Graph(chains, junctions, own_clocks=begins_ordered)


def group_by_joins(topology: Topology, streams: Iterable[str]) -> list[list[str]]:
    """Return the streams grouped by the joins that connect them.

    The groups are in the order of their first streams.
    """
    found: dict[str, list[str]] = {}
    for stream in streams:
        found.setdefault(topology.partition_name_of(stream), []).append(stream)
    return list(found.values())


def _groups_with_join(topology: Topology, streams: Sequence[str]) -> list[list[str]]:
    """Return the groups (`group_by_joins`) that contain all streams of some join."""
    joins = topology.joined_streams
    return [
        met for met in group_by_joins(topology, streams) if any(each <= {*met} for each in joins)
    ]


def _add_edge(chain: Chain, name: str, place: int) -> JoinInput:
    """Add an edge into the node of this name, and return it.

    The edge begins at the last node of the chain before `place`. If the node reads accepted events,
    the edge begins at MERGE.
    """
    edge = JoinInput()
    before = [node for node in chain.nodes if node.place < place]
    if name.startswith(ACCEPTED):
        chain.accepted_edges.append(edge)
    else:
        (before[-1].edges if before else chain.edges).append(edge)
    return edge
