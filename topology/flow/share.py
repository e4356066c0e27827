"""Extracts the part of a replay's state that belongs to one task of one stage.

A replay runs all operators as one stage (`topology.flow.replay`). Workers run each stage
separately, and each task of it. Each operator of the replay is an operator of exactly one stage,
and gets the same events at the same instants. So its whole state belongs to that stage, with the
events that it holds, at the place that the operator has there. Only REORDER, and CLOCK after it,
may run in several partitions, each with its own sources. These are partitions of several tasks, or
the lanes of one (`topology.flow.by_lane`). The state of a source then goes to the source's
partition. State that concerns all sources goes to each partition. Folded clock reports are left
out, because a worker reads the reports from their topic.

In their states, operators identify held events by offset. Most operators rebuild these parts of
their state from the events. Marks of joins are not rebuilt, so `renumber_offsets` replaces their
offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from topology.clock.models import FOLDED
from topology.config import Topology
from topology.config.stages import JOIN
from topology.flow.registry import BEGIN_LATE, BY_LANE, places_of
from topology.flow.replay import SavedReplay
from topology.join.marks import ABSENT, WIDE
from topology.model.composite import SEPARATOR
from topology.model.event import Event, copy_event
from topology.model.operator import Plain, State
from topology.query.passed import PASSED
from topology.reorder.lost import LOST
from topology.reorder.recent import RECENT

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
    places = places_of(operators)
    names = {place: name for name, place in places_of(topology.operators).items()}
    state = {
        own: value
        for key, value in saved.state.items()
        for own in _task_keys(key, places.keys(), lanes, lane_of)
    }
    held: dict[Event, int] = {}
    for event, at in saved.held.items():
        if event.stream not in lanes:
            continue
        holders = [name for place, name in names.items() if at & place]
        own_places = sum([places[name] for name in holders if name in places])
        if not own_places:
            continue
        lane = lane_of(event.stream, event.source)
        if lane is not None or BY_LANE.isdisjoint(holders):
            copy = copy_event(event)
            copy.lane = lane or 0
            held[copy] = own_places
    return SavedReplay(saved.now_ns, state, held, saved.words)


def _task_keys(
    key: str, operators: Collection[str], lanes: Mapping[str, Sequence[int]], lane_of: LaneOf
) -> Iterator[str]:
    """Yield the keys that a key of a replay's state has in the task; none if it belongs elsewhere.

    Only a key of REORDER or CLOCK that concerns all sources can have several, one for each lane.
    """
    prefix = prefix_of(key)
    if prefix.startswith(SEPARATOR):
        if JOIN in operators and prefix.strip(SEPARATOR) in lanes:
            yield key
        return
    stream, _, node = prefix.partition(SEPARATOR)
    name = node.rstrip("/")
    if stream not in lanes:
        return
    if name == PASSED:
        if not BEGIN_LATE.isdisjoint(operators):
            yield key
    elif name in operators and name not in BY_LANE:
        yield key
    elif name in operators:
        entry = key[len(prefix) :]
        if entry.startswith(FOLDED):
            return
        source = _source_of(entry)
        found = [lane_of(stream, source)] if source else lanes[stream]
        for lane in found:
            if lane is not None:
                yield f"{prefix}{lane}/{entry}" if len(lanes[stream]) > 1 else key


def prefix_of(key: str) -> str:
    """Return the prefix of the node to which a key belongs (`topology.flow.node`)."""
    begin = key.find(SEPARATOR, 1) + 1
    return key[:begin] if key.startswith(SEPARATOR) else key[: key.find("/", begin) + 1]


def _source_of(key: str) -> str:
    """Return the source of a key of REORDER or CLOCK, or "" if the key concerns all sources."""
    if key.startswith(LOST):
        return key.split("/", 3)[3]
    if key.startswith(RECENT):
        return key.split("/", 2)[2]
    return key.partition("/")[2]


def renumber_offsets(state: Mapping[str, Plain], numbers: Mapping[int, int]) -> State:
    """Return a stage's state with other offsets of its held events.

    `numbers` has the new offset of each old one.
    """
    found: State = {}
    for key, value in state.items():
        begin = len(prefix_of(key))
        query, behind, part = key[begin:].partition(SEPARATOR)
        if not (key.startswith(SEPARATOR) and part.startswith((ABSENT, WIDE))):
            found[key] = value
            continue
        kind, number, side = part.split("/")
        if int(number) in numbers:
            name = f"{kind}/{numbers[int(number)]}/{side}"
            found[f"{key[:begin]}{query}{behind}{name}"] = value
    return found
