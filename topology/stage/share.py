"""Extracts the part of a replay's state that belongs to one task of one stage.

A replay runs all operators as one stage (`topology.stage.replay`). Workers run each stage
separately, and each task of it. Each operator of the replay is an operator of exactly one stage,
and gets the same events at the same instants. So its whole state belongs to that stage, with the
events that it holds, at the place that the operator has there. Only REORDER, and CLOCK after it,
may run in several partitions, each with its own sources. These are partitions of several tasks, or
the lanes of one (`topology.stage.by_lane`). The state of a source then goes to the source's
partition. State that concerns all sources goes to each partition. Folded clock reports are left
out, because a worker reads the reports from their topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from topology.base.event import Event, copy_event
from topology.base.operator import State
from topology.config import Topology
from topology.order.clock.models import FOLDED
from topology.stage.ledger import Ledger
from topology.stage.node import split_key
from topology.stage.registry import (
    BY_LANE,
    chain_of,
    move_places,
    new_places,
    nodes_with_state,
    places_of,
)
from topology.stage.replay import SavedReplay

LaneOf = Callable[[str, str], int | None]
"""A function that returns the lane of a source, given by stream and name; None if elsewhere."""


def share_of(
    saved: SavedReplay,
    topology: Topology,
    operators: Sequence[str],
    lanes: Mapping[str, Sequence[int]],
    lane_of: LaneOf,
) -> SavedReplay:
    """Return the part of a saved state that belongs to the operators of a stage in one task.

    `lanes` has the streams of the task, with the lanes in which their records may be. For REORDER
    and CLOCK, the part has only the sources that have a lane, in the state of that lane. The held
    events have their lanes.
    """
    moves, own = new_places(topology.operators, operators), nodes_with_state(operators)
    of_lanes = sum(at for name, at in places_of(topology.operators).items() if name in BY_LANE)
    by_lane = {
        (stream, node.name): node.operator
        for stream in lanes
        for node in chain_of(topology, stream, [*BY_LANE & {*operators}], Ledger()).nodes
    }
    state: State = {}
    for key, value in saved.state.items():
        node = split_key(key)
        if node.stream not in lanes or node.name not in own:
            continue
        if node.name not in BY_LANE:
            state[key] = value
        elif not node.entry.startswith(FOLDED):
            source = by_lane[node.stream, node.name].source_of(node.entry)
            several = len(lanes[node.stream]) > 1
            for lane in [lane_of(node.stream, source)] if source else lanes[node.stream]:
                if lane is not None:
                    state[f"{node.prefix}{lane}/{node.entry}" if several else key] = value
    held: dict[Event, int] = {}
    for event, at in saved.held.items():
        if event.stream not in lanes:
            continue
        own_places = move_places(at, moves)
        if not own_places:
            continue
        lane = lane_of(event.stream, event.source)
        if lane is not None or not at & of_lanes:
            copy = copy_event(event)
            copy.lane = lane or 0
            held[copy] = own_places
    return SavedReplay(saved.now_ns, state, held, saved.words)
