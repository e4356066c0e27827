"""SHARE: what of a whole replay's state belongs to one partition of one stage.

A replay runs all operators as one stage (`topology.flow.replay`), a worker each stage for itself,
and of that one partition after another. Each operator of the one is an operator of exactly one
stage of the other, and takes the same events at the same instants. So its state belongs there
whole, as do the events that it holds, under the place that it has in that stage. Only REORDER, and
CLOCK behind it, may stand in several partitions, each with sources of its own: there what is known
of a source goes to the one that the source lies in, and what is known of all goes to each.

Operators name held events by offset in their states and make these anew from the events. Marks of
joins outlive that, so they are `renumbered` apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from topology.config import Topology
from topology.config.stages import JOIN, REORDER
from topology.flow.registry import CLOCK, places_of
from topology.flow.replay import SavedReplay
from topology.join.marks import ABSENT, WIDE
from topology.model.composite import SEPARATOR
from topology.model.event import Event, twin
from topology.model.operator import Plain, State
from topology.reorder.lost import LOST

Lies = Callable[[str, str], bool]
"""Whether a source (stream, source) lies in the partition."""

BY_SOURCE: Final = (REORDER, CLOCK)


def share_of(
    saved: SavedReplay,
    topology: Topology,
    operators: Sequence[str],
    streams: Collection[str],
    lies: Lies,
) -> SavedReplay:
    """What a replay has saved of these operators, which are those of a stage, and of these streams;
    in REORDER and CLOCK of the sources that lie here."""
    places = places_of(operators)
    names = {place: name for name, place in places_of(topology.operators).items()}
    state = {
        key: value
        for key, value in saved.state.items()
        if _belongs(key, places.keys(), streams, lies)
    }
    held: list[Event] = []
    for event in saved.held:
        if event.stream not in streams:
            continue
        holders = [name for place, name in names.items() if event.held_by & place]
        copy = twin(event)
        copy.held_by = sum([places[name] for name in holders if name in places])
        if copy.held_by and (not {*BY_SOURCE} & {*holders} or lies(event.stream, event.source)):
            held.append(copy)
    return SavedReplay(saved.now_ns, state, held, saved.words)


def _belongs(
    key: str,
    operators: Collection[str],
    streams: Collection[str],
    lies: Lies,
) -> bool:
    prefix = _prefix_of(key)
    if prefix.startswith(SEPARATOR):
        return JOIN in operators and prefix.strip(SEPARATOR) in streams
    stream, _, node = prefix.partition(SEPARATOR)
    name = node.rstrip("/")
    if stream not in streams or name not in operators:
        return False
    source = _source_of(key[len(prefix) :]) if name in BY_SOURCE else ""
    return not source or lies(stream, source)


def _prefix_of(key: str) -> str:
    """That of the node (topology.flow.node)."""
    begin = key.find(SEPARATOR, 1) + 1
    return key[:begin] if key.startswith(SEPARATOR) else key[: key.find("/", begin) + 1]


def _source_of(key: str) -> str:
    """Whose key of REORDER or CLOCK it is; "" where it is about all sources."""
    if key.startswith(LOST):
        return key.split("/", 3)[3]
    return key.partition("/")[2]


def renumbered(state: Mapping[str, Plain], numbers: Mapping[int, int]) -> State:
    """The state of a stage whose held events were given other offsets, new ones by old ones."""
    found: State = {}
    for key, value in state.items():
        begin = len(_prefix_of(key))
        query, behind, part = key[begin:].partition(SEPARATOR)
        if not (key.startswith(SEPARATOR) and part.startswith((ABSENT, WIDE))):
            found[key] = value
            continue
        kind, number, side = part.split("/")
        if int(number) in numbers:
            name = f"{kind}/{numbers[int(number)]}/{side}"
            found[f"{key[:begin]}{query}{behind}{name}"] = value
    return found
