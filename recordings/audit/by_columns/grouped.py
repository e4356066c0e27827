"""Compute running maxima of rows that are grouped, by whole columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Groups(NamedTuple):
    """Rows in the order of their groups, and within a group in the order of the table.

    Attributes:
        order: The index of each row in the table.
        number: The number of each row's group, from 0.
        starts: The place of the first row of each group.
    """

    order: Ints
    number: Ints
    starts: Ints

    @property
    def begins(self) -> Flags:
        """Whether a row is the first one of its group."""
        flags = np.zeros(len(self.order), np.bool_)
        flags[self.starts] = True
        return flags

    @property
    def ends(self) -> Ints:
        """The place after the last row of each group."""
        return np.append(self.starts, len(self.order))[1:]


def group_rows(*keys: Ints) -> Groups:
    """Group rows by the keys, the first of which is the main one."""
    order = np.lexsort(keys[::-1]) if len(keys) > 1 else np.argsort(keys[0], kind="stable")
    changes = np.zeros(len(order), np.bool_)
    for key in keys:
        ordered = key[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    changes[:1] = True
    return Groups(order.astype(np.int64), np.cumsum(changes) - 1, np.flatnonzero(changes))


def running_max(values: Ints, groups: Groups) -> Ints:
    """Return the largest value of each row's group up to the row; rows are in their groups."""
    if not len(values):
        return values
    distinct, rank = np.unique(values, return_inverse=True)
    base = groups.number * len(distinct)  # Ranks cannot exceed int64 as sums of values would.
    return distinct[np.maximum.accumulate(base + rank) - base]


def shift(values: Ints, first: int) -> Ints:
    """Return the value before each row, which is `first` for the first one."""
    before = np.empty_like(values)
    before[:1] = first
    before[1:] = values[:-1]
    return before
