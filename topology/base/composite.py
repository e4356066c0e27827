"""COMPOSITE: combines several operators, its parts, into one operator.

The next deadline of a composite is the earliest of its parts, and it holds the events of all parts.
The keys of its state begin with the prefix of their part. A subclass defines how batches and time
pass through the parts, and which parts get a held event back after a restart. If a restored state
has keys of a part that no longer exists, the next `changes()` deletes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from topology.base.event import Event
from topology.base.field_use import FieldUse
from topology.base.native import mypyc_attr
from topology.base.operator import TURN, Changes, Figures, Operator, Plain, State

SEPARATOR: Final = "\n"
"""The character that ends a prefix, unless a subclass overrides `prefix_of`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class CompositePart:
    """A part of a composite: an operator, its display name, and the prefix of its state's keys."""

    def __init__(self, name: str, operator: Operator, prefix: str) -> None:
        self.name = name
        self.operator = operator
        self.prefix = prefix

    def iter_held(self) -> Iterable[Event]:
        """Return the events of the composite's input that the operator keeps."""
        return self.operator.iter_held()

    def event_for(self, event: Event) -> Event:
        """Return the event that the operator gets for a kept event of the composite's input."""
        return event


@mypyc_attr(allow_interpreted_subclasses=True)
class Composite(Operator):
    """An operator that consists of other operators, its parts, and calls them in their order."""

    def __init__(self, parts: Sequence[CompositePart]) -> None:
        assert len({part.prefix for part in parts}) == len(parts), "keys of one part"
        self._parts: list[CompositePart] = list(parts)
        self._stale: Changes = {}

    def prefix_of(self, key: str) -> str:
        return key[: key.find(SEPARATOR, 1) + 1]

    def holders_of(self, event: Event) -> Sequence[CompositePart]:
        """Return the parts that get a held event back on restore: all of them, by default."""
        return self._parts

    # -- time and state ----------------------------------------------------------------------------

    def next_deadline_ns(self) -> int | None:
        due = [part.operator.next_deadline_ns() for part in self._parts]
        return min((ns for ns in due if ns is not None), default=None)

    def seal(self) -> None:
        for part in self._parts:
            part.operator.seal()

    def close(self) -> None:
        for part in self._parts:
            part.operator.close()

    def snapshot(self) -> State:
        return {
            part.prefix + key: value
            for part in self._parts
            for key, value in part.operator.snapshot().items()
        }

    def changes(self) -> Changes:
        changes, self._stale = self._stale, {}
        for part in self._parts:
            for key, value in part.operator.changes().items():
                changes[part.prefix + key] = value
        return changes

    def source_of(self, key: str) -> str:
        prefix = self.prefix_of(key)
        parts = [part.operator for part in self._parts if part.prefix == prefix]
        return parts[0].source_of(key[len(prefix) :]) if parts else ""

    def renumber(self, numbers: Mapping[int, int]) -> None:
        for part in self._parts:
            part.operator.renumber(numbers)

    def iter_held(self) -> Iterable[Event]:
        """Return the events that any part holds, each once."""
        held = {id(event): event for part in self._parts for event in part.iter_held()}
        return held.values()

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        states: dict[str, State] = {part.prefix: {} for part in self._parts}
        for key, value in state.items():
            prefix = self.prefix_of(key)
            if prefix in states:
                states[prefix][key[len(prefix) :]] = value
            else:
                self._stale[key] = None
        events: dict[str, list[Event]] = {part.prefix: [] for part in self._parts}
        for number, event in enumerate(held):
            for part in self.holders_of(event):
                events[part.prefix].append(part.event_for(event))
            if not number % TURN:
                yield 0
        for part in self._parts:
            yield from part.operator.restoring(states[part.prefix], events[part.prefix])

    # -- for people --------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """Return the figures of the parts, named `<part>_<figure>`."""
        return {
            f"{part.name}_{figure}": value
            for part in self._parts
            for figure, value in part.operator.figures().items()
        }

    def field_uses(self) -> list[FieldUse]:
        return [use for part in self._parts for use in part.operator.field_uses()]

    def explain(self) -> dict[str, Any]:
        """Return the explanation of each part by its name, without parts that have none."""
        return {
            part.name: explained
            for part in self._parts
            if (explained := part.operator.explain()) is not None
        }

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Any] | None:
        """Return each part's answer by the part's name; None if no part knows the source."""
        answers = {part.name: part.operator.locate(source, epoch, seq) for part in self._parts}
        return {name: each for name, each in answers.items() if each is not None} or None

    def counts_of(self, source: str) -> Figures:
        """Return the source's counts from the first part that has any, or an empty dict."""
        found = (part.operator.counts_of(source) for part in self._parts)
        return next(filter(None, found), {})
