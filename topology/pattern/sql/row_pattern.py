"""A row pattern as it is written: what PATTERN's parentheses hold, and what is asked of it alone.

Nodes are values, as those of syntax.py. What they become: `topology.pattern.sql.lowering`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from topology.pattern.tree.syntax import NOWHERE, UNBOUNDED, Span


@dataclass(frozen=True, slots=True)
class Quantifier:
    """A quantifier; `maximum` may be UNBOUNDED. `reluctant`: fewer rows are preferred."""

    minimum: int = 1
    maximum: int = 1
    reluctant: bool = False


ONCE = Quantifier()


@dataclass(frozen=True, slots=True)
class RowVariable:
    """A row that is mapped to the variable, by its name as it is written first in PATTERN.
    `hidden`: it is excluded by {- -}."""

    name: str
    span: Span = NOWHERE
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class CountedRows:
    row: RowPattern
    count: Quantifier
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class RowSequence:
    rows: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class EitherRows:
    rows: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class PermutedRows:
    rows: tuple[RowPattern, ...]
    span: Span = NOWHERE


RowPattern = RowVariable | CountedRows | RowSequence | EitherRows | PermutedRows


def below(row: RowPattern) -> tuple[RowPattern, ...]:
    if isinstance(row, RowVariable):
        return ()
    return (row.row,) if isinstance(row, CountedRows) else row.rows


def variables(row: RowPattern) -> Iterator[RowVariable]:
    """In the order of the text."""
    if isinstance(row, RowVariable):
        yield row
    for each in below(row):
        yield from variables(each)


def shortest(row: RowPattern) -> int:
    """The fewest rows it matches."""
    match row:
        case RowVariable():
            return 1
        case CountedRows(inner, count):
            return shortest(inner) * count.minimum
        case EitherRows(rows):
            return min(map(shortest, rows))
        case RowSequence(rows) | PermutedRows(rows):
            return sum(map(shortest, rows))


def fewest_beside(row: RowPattern, *, behind: bool) -> dict[str, int]:
    """By variable, how many rows of the match lie at least before each of its rows (behind)."""
    found: dict[str, int] = {}
    _beside(row, 0, behind, found)
    return found


def _beside(row: RowPattern, beside: int, behind: bool, found: dict[str, int]) -> None:
    match row:
        case RowVariable(name):
            found[name] = min(beside, found.get(name, beside))
        case RowSequence(rows):
            for each in reversed(rows) if behind else rows:
                _beside(each, beside, behind, found)
                beside += shortest(each)
        case _:
            for each in below(row):
                _beside(each, beside, behind, found)


def can_follow_another(row: RowPattern, name: str, is_first: bool = True) -> bool:
    """Whether a row of the variable may lie behind the first row of a match."""
    match row:
        case RowVariable(own):
            return own == name and not is_first
        case CountedRows(inner, count):
            return can_follow_another(inner, name, is_first and count.maximum == 1)
        case EitherRows(rows):
            return any(can_follow_another(each, name, is_first) for each in rows)
        case RowSequence(rows):
            return any(
                can_follow_another(each, name, is_first and number == 0)
                for number, each in enumerate(rows)
            )
        case PermutedRows(rows):
            return any(can_follow_another(each, name, len(rows) == 1 and is_first) for each in rows)


def times(outer: Quantifier, inner: Quantifier) -> Quantifier | None:
    """`(A inner) outer` as one count of A, None where it is none."""
    if ONCE in (outer, inner):
        return inner if outer == ONCE else outer
    if outer.reluctant != inner.reluctant:
        return None
    if (outer.minimum, outer.maximum) == (0, 1) and inner.minimum <= 1:
        return Quantifier(0, inner.maximum, inner.reluctant)
    endless = inner.maximum == UNBOUNDED and outer.maximum == UNBOUNDED
    if endless and inner.minimum <= 1 and outer.minimum <= 1:
        return Quantifier(min(inner.minimum, outer.minimum), UNBOUNDED, inner.reluctant)
    return None


def renamed(row: RowPattern, names: Mapping[str, str]) -> RowPattern:
    """With each variable by the name that `names` has for it."""
    match row:
        case RowVariable(name):
            return replace(row, name=names[name])
        case _:
            return _with_below(row, [renamed(each, names) for each in below(row)])


def hidden(row: RowPattern) -> RowPattern:
    """With all of its rows excluded."""
    if isinstance(row, RowVariable):
        return replace(row, hidden=True)
    return _with_below(row, [hidden(each) for each in below(row)])


def _with_below(row: RowPattern, rows: Sequence[RowPattern]) -> RowPattern:
    if isinstance(row, CountedRows):
        return replace(row, row=rows[0])
    assert not isinstance(row, RowVariable)
    return replace(row, rows=tuple(rows))
