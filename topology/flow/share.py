"""Extracts the part of a replay's state that belongs to one partition of one stage.

A replay runs all operators as one stage (`topology.flow.replay`). Workers run each stage
separately, and each partition of it. Each operator of the replay is an operator of exactly one
stage, and gets the same events at the same instants. So its whole state belongs to that stage, with
the events that it holds. Their `held_by` gets the bit that the operator has there. Only REORDER,
and CLOCK after it, may run in several partitions, each with its own sources. The state of a source
then goes to the source's partition. State that concerns all sources goes to each partition.

In their states, operators identify held events by offset. Most operators rebuild these parts of
their state from the events. Marks of joins are not rebuilt, so `renumbered` replaces their offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from topology.config import Topology
from topology.config.stages import JOIN, REORDER
from topology.flow.registry import BEGIN_LATE, CLOCK, places_of
from topology.flow.replay import SavedReplay
from topology.join.marks import ABSENT, WIDE
from topology.model.composite import SEPARATOR
from topology.model.event import Event, twin
from topology.model.operator import Plain, State
from topology.query.passed import PASSED
from topology.reorder.lost import LOST
from topology.reorder.recent import RECENT

IsOfPartition = Callable[[str, str], bool]
"""A function that returns whether a source, given by stream and name, belongs to the partition."""

BY_SOURCE: Final = (REORDER, CLOCK)


def share_of(
    saved: SavedReplay,
    topology: Topology,
    operators: Sequence[str],
    streams: Collection[str],
    is_of_partition: IsOfPartition,
) -> SavedReplay:
    """Return the part of a saved state that belongs to the operators of a stage and these streams.

    For REORDER and CLOCK it has only the sources for which `is_of_partition` is true.
    """
    places = places_of(operators)
    names = {place: name for name, place in places_of(topology.operators).items()}
    state = {
        key: value
        for key, value in saved.state.items()
        if _belongs(key, places.keys(), streams, is_of_partition)
    }
    held: list[Event] = []
    for event in saved.held:
        if event.stream not in streams:
            continue
        holders = [name for place, name in names.items() if event.held_by & place]
        copy = twin(event)
        copy.held_by = sum([places[name] for name in holders if name in places])
        if copy.held_by and (
            not {*BY_SOURCE} & {*holders} or is_of_partition(event.stream, event.source)
        ):
            held.append(copy)
    return SavedReplay(saved.now_ns, state, held, saved.words)


def _belongs(
    key: str,
    operators: Collection[str],
    streams: Collection[str],
    is_of_partition: IsOfPartition,
) -> bool:
    prefix = _prefix_of(key)
    if prefix.startswith(SEPARATOR):
        return JOIN in operators and prefix.strip(SEPARATOR) in streams
    stream, _, node = prefix.partition(SEPARATOR)
    name = node.rstrip("/")
    if name == PASSED:
        return stream in streams and not BEGIN_LATE.isdisjoint(operators)
    if stream not in streams or name not in operators:
        return False
    source = _source_of(key[len(prefix) :]) if name in BY_SOURCE else ""
    return not source or is_of_partition(stream, source)


def _prefix_of(key: str) -> str:
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


def renumbered(state: Mapping[str, Plain], numbers: Mapping[int, int]) -> State:
    """Return a stage's state with other offsets of its held events.

    `numbers` has the new offset of each old one.
    """
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
