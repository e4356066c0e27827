"""The rows of a join, from what is kept.

A row is a cell and one event or null of each side. An *owner* is what rows with a null belong to:
the first side's event in a cell; in a FULL join also another's, whose one row is itself alone.
Rows of an owner are the product over the other sides of its partners there, and null where there
is none. Those without a null are found when the last of their events arrives (`joined`); those
with a null are asked for (`lacking`), now and whenever an event may have changed them.

What counts as a partner: by reference time; with BOUNDS all that are possible, and then null too
unless one is certain.

Cost: O(log n) and one step for each event in reach, and for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from topology.answer.settings import BOUNDS
from topology.join.entry import JoinEntry
from topology.join.index import JoinIndex
from topology.join.relation import CERTAIN, PLAIN, POSSIBLE, Relation
from topology.join.settings import FULL, JoinSettings

Owner = tuple[int, JoinEntry]
"""A cell and the event."""
Members = tuple[JoinEntry | None, ...]


class JoinRow(NamedTuple):
    """`odds`: that its events belong together and none is missing."""

    cell: int
    members: Members
    is_certain: bool
    odds: float


class Rows:
    def __init__(self, query: JoinSettings, relation: Relation, index: JoinIndex) -> None:
        self._relation = relation
        self._index = index
        self._sides = len(query.streams)
        self._is_full = query.outer == FULL
        self._is_asked = query.is_outer or self._sides > 2
        self._least = POSSIBLE if query.uncertainty == BOUNDS else PLAIN
        self._enough = CERTAIN if query.uncertainty == BOUNDS else PLAIN
        streams = query.streams
        self._may_repeat = len(set(streams)) < len(streams)

    # -- Bonds -------------------------------------------------------------------------------------

    def partners(self, cell: int, owner: JoinEntry, side: int, least: int) -> list[JoinEntry]:
        """In order; at least so surely."""
        relation = self._relation
        found = self._index.between(side, owner.key, *relation.reach(cell, owner))
        return [
            other
            for other in found
            if relation.bond(cell, owner, other) >= least and other.event is not owner.event
        ]

    def _related(self, entry: JoinEntry) -> Sequence[int]:
        """Return the sides on which its partners are."""
        return (0,) if entry.side else range(1, self._sides)

    def bonded(self, entry: JoinEntry) -> list[Owner]:
        """The firsts to which it possibly belongs; of a first, the others. None where all rows are
        emitted at once and hold two events: there nobody asks for them again."""
        if not self._is_asked:
            return []
        return [
            (cell, other)
            for cell in self._relation.cells(entry, POSSIBLE)
            for side in self._related(entry)
            for other in self.partners(cell, entry, side, POSSIBLE)
        ]

    def touched(self, entry: JoinEntry, bonded: Iterable[Owner]) -> Iterator[Owner]:
        """The owners among these."""
        if entry.side or self._is_full:
            for cell, other in bonded:
                if cell in self._relation.cells(other, self._least):
                    yield cell, other

    def owners(self, entry: JoinEntry) -> list[Owner]:
        """That it is."""
        if entry.side and not self._is_full:
            return []
        return [(cell, entry) for cell in self._relation.cells(entry, self._least)]

    # -- Rows --------------------------------------------------------------------------------------

    def joined(self, entry: JoinEntry) -> Iterator[JoinRow]:
        """The rows without null that contain it."""
        for cell in self._relation.cells(entry, self._least):
            firsts = [entry]
            if entry.side:
                firsts = self.partners(cell, entry, 0, self._least)
            for first in firsts:
                others = [
                    [entry] if side == entry.side else self.partners(cell, first, side, self._least)
                    for side in range(1, self._sides)
                ]
                for members in product([first], *others):
                    if row := self._row(cell, members, members):
                        yield row

    def lacking(self, owner: Owner) -> Iterator[JoinRow]:
        """The rows with a null that it has now."""
        cell, entry = owner
        chosen: list[list[JoinEntry | None]] = [[None]] * self._sides
        chosen[entry.side] = [entry]
        possible: list[list[JoinEntry]] = [[]] * self._sides
        for side in self._related(entry):
            found = possible[side] = self.partners(cell, entry, side, POSSIBLE)
            bonds = [self._relation.bond(cell, entry, other) for other in found]
            options: list[JoinEntry | None] = [
                other
                for other, bond in zip(found, bonds, strict=True)
                if entry.side == 0 and bond >= self._least
            ]
            if max(bonds, default=0) < self._enough:
                options.append(None)
            if not options:  # the only row of another side's event is itself alone
                return
            chosen[side] = options
        if all(options[-1] is not None for options in chosen):
            return
        absent = [self._absent(cell, entry, found) for found in possible]
        for members in product(*chosen):
            present = tuple([member for member in members if member is not None])
            if len(present) == self._sides:
                continue
            row = self._row(cell, members, present)
            if row is None:
                continue
            odds, is_certain = row.odds, row.is_certain
            for side, member in enumerate(members):
                if member is None:
                    odds *= absent[side]
                    is_certain = is_certain and not possible[side]
            yield JoinRow(cell, members, is_certain, odds)

    def _absent(self, cell: int, owner: JoinEntry, possible: list[JoinEntry]) -> float:
        """The odds that none of them is a partner."""
        odds_of = self._relation.odds_of_bond
        return prod([1.0 - odds_of(cell, owner, other) for other in possible], start=1.0)

    def _row(self, cell: int, members: Members, present: tuple[JoinEntry, ...]) -> JoinRow | None:
        """None if its events cannot be in one row; by reference times they may be all the same."""
        if self._may_repeat and len({id(member.event) for member in present}) < len(present):
            return None
        relation, first = self._relation, present[0]
        if relation.is_certain(cell, first) and all(
            relation.bond(cell, first, other) == CERTAIN for other in present[1:]
        ):
            return JoinRow(cell, members, is_certain=True, odds=1.0)
        odds = relation.odds(cell, present)
        if not odds and self._least == POSSIBLE:
            return None
        return JoinRow(cell, members, is_certain=False, odds=odds)
