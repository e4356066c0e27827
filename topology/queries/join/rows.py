"""Computes the rows of a join from the events that are kept.

A row has a cell (`relation`), and one event or null for each side. Rows with a null belong to an
*owner*: an event of the first side in a cell. In a FULL join an event of another side is an owner
too, and its only row contains nothing but the event. On each other side, the owner has partners, or
null if there are none. Its rows are all combinations of these.

Rows without a null are found when the last of their events arrives (`iter_joined`). Rows with a
null are computed on demand (`lacking`), and again after each event that may have changed them.

Events are partners by corrected timestamp. With BOUNDS all possible events are partners, and null
is added unless one of them is certain.

Cost: O(log n), plus one step for each event in reach and for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from topology.answer.settings import BOUNDS
from topology.queries.join.entry import JoinEntry
from topology.queries.join.index import JoinIndex
from topology.queries.join.relation import CERTAIN, PLAIN, POSSIBLE, Relation
from topology.queries.join.settings import FULL, JoinQuery

Owner = tuple[int, JoinEntry]
"""A cell and an event in it."""
Members = tuple[JoinEntry | None, ...]


class JoinRow(NamedTuple):
    """A row; `odds` is the probability that its events belong together and none is missing."""

    cell: int
    members: Members
    is_certain: bool
    odds: float


class Rows:
    """The rows of a join.

    Attributes:
        gains_rows: Whether an owner without a row may get one later.
    """

    gains_rows = False

    def __init__(self, query: JoinQuery, relation: Relation, index: JoinIndex) -> None:
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
        """Return, in order, the events of a side with at least the bond `least` to the owner."""
        relation = self._relation
        found = self._index.find_between(side, owner.key, *relation.reach(cell, owner))
        return [
            other
            for other in found
            if relation.bond(cell, owner, other) >= least and other.event is not owner.event
        ]

    def _find_related(self, entry: JoinEntry) -> Sequence[int]:
        """Return the sides on which the entry can have partners."""
        return (0,) if entry.side else range(1, self._sides)

    def find_bonded_owners(self, entry: JoinEntry) -> list[Owner]:
        """Return the events of related sides that may be partners of the entry, with their cells.

        The first side is related to all others. For an inner join of two sides the list is empty,
        because its rows are emitted at once and never computed again.
        """
        if not self._is_asked:
            return []
        return [
            (cell, other)
            for cell in self._relation.cells(entry, POSSIBLE)
            for side in self._find_related(entry)
            for other in self.partners(cell, entry, side, POSSIBLE)
        ]

    def find_touched(self, entry: JoinEntry, bonded: Iterable[Owner]) -> Iterator[Owner]:
        """Yield the owners among `bonded` with rows that the entry may change."""
        if entry.side or self._is_full:
            for cell, other in bonded:
                if cell in self._relation.cells(other, self._least):
                    yield cell, other

    def owners_of(self, entry: JoinEntry) -> list[Owner]:
        """Return the entry as an owner in each of its cells, if it may be one."""
        if entry.side and not self._is_full:
            return []
        return [(cell, entry) for cell in self._relation.cells(entry, self._least)]

    def begin_ns(self, owner: Owner) -> int:
        """Return the instant from which events decide about the rows of the owner."""
        return self._relation.reach(*owner)[0]

    # -- Rows --------------------------------------------------------------------------------------

    def iter_joined(self, entry: JoinEntry) -> Iterator[JoinRow]:
        """Yield the rows without a null that contain the entry."""
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
                    if row := self._make_row(cell, members, members):
                        yield row

    def lacking(self, owner: Owner) -> Iterator[JoinRow]:
        """Yield the rows with a null that the owner has now."""
        cell, entry = owner
        chosen: list[list[JoinEntry | None]] = [[None]] * self._sides
        chosen[entry.side] = [entry]
        possible: list[list[JoinEntry]] = [[]] * self._sides
        for side in self._find_related(entry):
            found = possible[side] = self.partners(cell, entry, side, POSSIBLE)
            bonds = [self._relation.bond(cell, entry, other) for other in found]
            options: list[JoinEntry | None] = [
                other
                for other, bond in zip(found, bonds, strict=True)
                if entry.side == 0 and bond >= self._least
            ]
            if max(bonds, default=0) < self._enough:
                options.append(None)
            if not options:  # The only row of another side's event is the event alone.
                return
            chosen[side] = options
        if all(options[-1] is not None for options in chosen):
            return
        absent = [self._odds_of_none(cell, entry, found) for found in possible]
        for members in product(*chosen):
            present = tuple([member for member in members if member is not None])
            if len(present) == self._sides:
                continue
            row = self._make_row(cell, members, present)
            if row is None:
                continue
            odds, is_certain = row.odds, row.is_certain
            for side, member in enumerate(members):
                if member is None:
                    odds *= absent[side]
                    is_certain = is_certain and not possible[side]
            yield JoinRow(cell, members, is_certain, odds)

    def _odds_of_none(self, cell: int, owner: JoinEntry, possible: list[JoinEntry]) -> float:
        """Return the probability that none of the `possible` events is a partner of the owner."""
        odds_of = self._relation.odds_of_bond
        return prod([1.0 - odds_of(cell, owner, other) for other in possible], start=1.0)

    def _make_row(
        self, cell: int, members: Members, present: tuple[JoinEntry, ...]
    ) -> JoinRow | None:
        """Return a row of these members, or None if they cannot be in one row.

        Without BOUNDS, corrected timestamps may still put them into one row; its odds are then 0.
        """
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
