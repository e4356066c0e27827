"""Divides the state of a drained chain by operator, and puts it together for other stages.

Each operator is in exactly one stage, and gets the same events at the same instants wherever the
chain is cut. So its state moves with it, key by key. Only the keys of REORDER and CLOCK differ: a
task of several lanes has them by the lane's number (`topology.flow.by_lane`). Here they are kept by
the input partition. The alignment has nothing to hand over: nothing waits in it, and it begins
where all lanes are.

`passed/` is recorded in each stage with queries. Those of a drained chain are equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from topology.config.stages import JOIN
from topology.flow.lanes import Place
from topology.flow.registry import BEGIN_LATE, BY_LANE, places_of
from topology.flow.share import prefix_of
from topology.model.composite import SEPARATOR
from topology.model.operator import Plain, State
from topology.query.passed import PASSED

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
            prefix = prefix_of(key)
            stream, name = _parse_prefix(prefix)
            if stream not in lanes:
                continue  # The alignment, or a stream that has no records in this task.
            if name in BY_LANE:
                place, entry = _split_lane(key[len(prefix) :], lanes[stream])
                self._by_place.setdefault((prefix, place), {})[entry] = value
            else:
                self._whole[key] = value

    def share(self, operators: Sequence[str], lanes: LanesOf) -> State:
        """Return the state of these operators in a task that has these streams and lanes."""
        found: State = {}
        names = places_of(operators).keys()
        for key, value in self._whole.items():
            stream, name = _parse_prefix(prefix_of(key))
            if stream in lanes and _is_in(name, names):
                found[key] = value
        for (prefix, place), entries in self._by_place.items():
            stream, name = _parse_prefix(prefix)
            if name not in names:
                continue
            own = lanes.get(stream, ())
            for number, lane in own:
                if lane == place:
                    begin = f"{prefix}{number}/" if len(own) > 1 else prefix
                    found |= {begin + entry: value for entry, value in entries.items()}
        return found


def _parse_prefix(prefix: str) -> tuple[str, str]:
    """Return the stream and the name of a node; a junction's are its first stream and JOIN."""
    if prefix.startswith(SEPARATOR):
        return prefix.strip(SEPARATOR), JOIN
    stream, _, node = prefix.partition(SEPARATOR)
    return stream, node.rstrip("/")


def _is_in(name: str, names: Collection[str]) -> bool:
    return not BEGIN_LATE.isdisjoint(names) if name == PASSED else name in names


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
