"""Divides the state of a drained chain by operator, and puts it together for other stages.

Each operator is in exactly one stage, and gets the same events at the same instants wherever the
chain is cut. So its state moves with it, key by key. Only the keys of REORDER and CLOCK differ: a
task of several lanes has them by the lane's number (`topology.stage.by_lane`). Here they are kept
by the input partition. The alignment has nothing to hand over: nothing waits in it, and it begins
where all lanes are.

`passed/` is recorded in each stage with queries. Those of a drained chain are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from topology.base.operator import Plain, State
from topology.stage.lanes import Place
from topology.stage.node import split_key
from topology.stage.registry import BY_LANE, nodes_with_state

LanesOf = Mapping[str, Sequence[tuple[int, Place]]]
"""The lanes of each stream in one task: the number of each, and its input partition."""


class OperatorStates:
    """The states of operators, taken from the tasks of one layout for those of another one."""

    def __init__(self) -> None:
        self._whole: State = {}
        self._by_place: dict[tuple[str, Place], State] = {}
        """The states of REORDER and CLOCK, by the prefix of the node and the input partition."""

    def add(self, state: Mapping[str, Plain], lanes: LanesOf) -> None:
        """Add the state of the streams of a task, which has these lanes."""
        for key, value in state.items():
            node = split_key(key)
            if node.stream not in lanes:
                continue  # The alignment, or a stream that has no records in this task.
            if node.name in BY_LANE:
                place, entry = _split_lane(node.entry, lanes[node.stream])
                self._by_place.setdefault((node.prefix, place), {})[entry] = value
            else:
                self._whole[key] = value

    def share(self, operators: Sequence[str], lanes: LanesOf) -> State:
        """Return the state of these operators in a task that has these streams and lanes."""
        found: State = {}
        names = nodes_with_state(operators)
        for key, value in self._whole.items():
            node = split_key(key)
            if node.stream in lanes and node.name in names:
                found[key] = value
        for (prefix, place), entries in self._by_place.items():
            node = split_key(prefix)
            if node.name not in names:
                continue
            own = lanes.get(node.stream, ())
            for number, lane in own:
                if lane == place:
                    begin = f"{prefix}{number}/" if len(own) > 1 else prefix
                    found |= {begin + entry: value for entry, value in entries.items()}
        return found


def _split_lane(entry: str, lanes: Sequence[tuple[int, Place]]) -> tuple[Place, str]:
    """Return the input partition of an entry of REORDER or CLOCK, and its key there.

    Without a prefix it is that of the first lane, as in `ByLane.restoring`.
    """
    number, _, rest = entry.partition("/")
    if len(lanes) > 1:
        for lane, place in lanes:
            if number == f"{lane}":
                return place, rest
    return lanes[0][1], entry


def find_divided_streams(tasks: Mapping[Place, LanesOf]) -> Iterator[str]:
    """Yield each stream that several of these tasks may have."""
    seen: set[str] = set()
    for lanes in tasks.values():
        yield from seen & lanes.keys()
        seen |= lanes.keys()
