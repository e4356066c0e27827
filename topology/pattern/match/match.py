"""A match of an alternative: which entries stand for which component.

`bound[j]` are the entries of component j in the order of their keys, empty where an optional
one is absent. Two matches are the same if alternative and bound entries are the same.

Where many matches of a unit hold long stretches of the same entries, they hold them as `Stretch`es
over one frozen copy: 1 M matches with groups of 167 take 0.3 GB, where copies alone would be 1.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from topology.pattern.store.entry import Entry, Identity, key_of

Bound = tuple[Sequence[Entry], ...]


class Stretch(Sequence[Entry]):
    """`whole[low:high]`, without the copy. It equals the tuple of its entries."""

    __slots__ = ("high", "low", "whole")

    def __init__(self, whole: tuple[Entry, ...], low: int, high: int) -> None:
        self.whole = whole
        self.low = low
        self.high = high

    def __len__(self) -> int:
        return self.high - self.low

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return self.whole[self.low : self.high][at]
        return self.whole[range(self.low, self.high)[at]]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.whole[self.low : self.high])

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, Stretch) else other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class Match:
    """`first` and `last` are found where the maker does not know them."""

    __slots__ = ("alternative", "bound", "first", "last")

    def __init__(
        self,
        alternative: int,
        bound: Bound,
        first: Entry | None = None,
        last: Entry | None = None,
    ) -> None:
        self.alternative = alternative
        self.bound = bound
        self.first = first or min((entries[0] for entries in bound if entries), key=key_of)
        self.last = last or max((entries[-1] for entries in bound if entries), key=key_of)

    @property
    def content(self) -> tuple[int, tuple[tuple[Identity, ...], ...]]:
        """What distinguishes it from every other match, whatever arrived when."""
        members = tuple(tuple(entry.identity for entry in entries) for entries in self.bound)
        return (self.alternative, members)

    def is_as(self, other: Match) -> bool:
        """Whether both are of the same entries for the same components."""
        return self.alternative == other.alternative and self.bound == other.bound

    def ways(self) -> Sequence[Match]:
        """Return the match of each alternative that finds it; several only of a `TwinMatch`."""
        return (self,)

    def labelled(self) -> Iterator[tuple[int, Entry]]:
        """Return the members in the order of their keys, each with the index of its component."""
        pairs = [(j, entry) for j, entries in enumerate(self.bound) for entry in entries]
        pairs.sort(key=lambda pair: pair[1].key)
        return iter(pairs)

    def __repr__(self) -> str:
        return f"<Match {self.alternative} {self.bound}>"


def in_order(matches: Sequence[Match]) -> list[Match]:
    """By end, start, alternative, and then component by component, by the keys of the entries:
    the order in which a search from the first component on finds them."""
    return sorted(matches, key=_place)


def _place(match: Match) -> tuple[Any, ...]:
    members = tuple(tuple(entry.key for entry in entries) for entries in match.bound)
    return (match.last.key, match.first.key, match.alternative, members)
