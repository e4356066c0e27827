"""NODE: an operator at its place in a flow graph, and how nodes get their state back.

A node has a place, with which its operator marks the events it holds, and a prefix, with which its
keys of the state begin:

    <stream>\\n<operator>/    a node in the chain of a stream
    \\n<stream>\\n            a node where several streams meet, by the first of them

No name of a stream is empty, and none holds a line feed.

Proved by: tests/topology/flow/test_graph.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from topology.flow.join_input import JoinInput
from topology.model.event import Event
from topology.model.operator import TURN, Changes, Operator, Plain, State

SEPARATOR: Final = "\n"


class Node:
    """`edges`: where what leaves it goes besides the next node of its chain."""

    __slots__ = ("edges", "name", "operator", "place", "prefix")

    def __init__(self, name: str, operator: Operator, place: int, prefix: str) -> None:
        self.name = name
        self.operator = operator
        self.place = place
        self.prefix = prefix
        self.edges: list[JoinInput] = []


def snapshot_of(nodes: Iterable[Node]) -> State:
    return _prefixed((node, node.operator.snapshot()) for node in nodes)


def changes_of(nodes: Iterable[Node]) -> Changes:
    return _prefixed((node, node.operator.changes()) for node in nodes)


def _prefixed(states: Iterable[tuple[Node, State]]) -> State:
    return {node.prefix + key: value for node, state in states for key, value in state.items()}


def restoring_nodes(
    nodes: Sequence[Node],
    state: Mapping[str, Plain],
    held: Iterable[Event],
    node_of: Callable[[Event], Node | None],
    gone: Changes,
) -> Iterator[int]:
    """`restoring` of all (topology.model.operator). Keys of a node that is no more go into `gone`,
    and events that no node takes are held no longer."""
    states: dict[str, State] = {node.prefix: {} for node in nodes}
    for key, value in state.items():
        prefix = prefix_of(key)
        if prefix in states:
            states[prefix][key[len(prefix) :]] = value
        else:
            gone[key] = None
    events: dict[str, list[Event]] = {node.prefix: [] for node in nodes}
    for number, event in enumerate(held):
        node = node_of(event)
        event.held_by = 0 if node is None else node.place
        if node is not None:
            events[node.prefix].append(event)
        if not number % TURN:
            yield 0
    for node in nodes:
        yield from node.operator.restoring(states[node.prefix], events[node.prefix])


def prefix_of(key: str) -> str:
    begin = key.find(SEPARATOR, 1) + 1
    return key[:begin] if key.startswith(SEPARATOR) else key[: key.find("/", begin) + 1]
