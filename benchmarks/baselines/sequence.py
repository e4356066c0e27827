"""Define the patterns that the baselines support, and the code that they share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MAX_RUNS: Final = 300_000
"""The largest number of partial or complete matches; beyond it a baseline raises Exploded."""

Members = tuple[tuple[int, ...], ...]
"""The times of a match's events, by component; a time identifies an event."""


class Exploded(Exception):
    """The error for more matches than `MAX_RUNS`."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """A pattern: component j has type `types[j]`, and takes one or more events if `groups[j]`."""

    types: tuple[str, ...]
    groups: tuple[bool, ...]
    within: int
    any: bool

    @classmethod
    def of(cls, text: str, within: int, *, any_: bool) -> Sequence:
        """Return the pattern given in the usual short form, such as `ab+c`."""
        types = tuple(letter.upper() for letter in text if letter != "+")
        groups = tuple(f"{type_.lower()}+" in text for type_ in types)
        return cls(types, groups, within, any_)

    def steps(self, bound: Members, type_: str) -> list[Members]:
        """Return the components of the run to which an event of this type can be added.

        A new component comes before a repeated one. The caller adds the event's time to the last
        component.
        """
        j = len(bound)
        found = []
        if j < len(self.types) and self.types[j] == type_:
            found.append((*bound, ()))
        if j and self.groups[j - 1] and self.types[j - 1] == type_:
            found.append(bound)
        return found

    def extend(self, bound: Members, type_: str, time: int) -> list[Members]:
        return [(*step[:-1], (*step[-1], time)) for step in self.steps(bound, type_)]

    def is_complete(self, bound: Members) -> bool:
        return len(bound) == len(self.types)


def select_maximal(matches: Iterable[Members]) -> set[Members]:
    """Return the matches that no other match with the same end contains."""
    found = set(matches)
    if all(len(part) == 1 for match in found for part in match):
        return found
    sets = {
        match: frozenset((j, t) for j, part in enumerate(match) for t in part) for match in found
    }
    return {m for m in found if not any(sets[m] < other for other in sets.values())}
