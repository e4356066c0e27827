"""Track the sequence numbers of all sources by columns, with the results of `audit.numbers`.

Only numbers other than the next one of their source are handled one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recordings.audit.by_columns.grouped import Flags, Ints, group_rows, running_max, shift
from recordings.audit.columns import Columns
from recordings.audit.machine import Machine
from recordings.audit.numbers import NumberedEpochs
from recordings.audit.spool import NONE
from recordings.audit.wraps import LASTS, Falls, bounds_of


class Numbered(NamedTuple):
    """The findings that the sequence number of each row shows.

    Attributes:
        copy: Whether the row is a duplicate.
        behind: Whether the row is out of sequence.
    """

    copy: Flags
    behind: Flags


def track_numbers(
    columns: Columns, epoch: Ints, at_ns: Ints, machines: Sequence[Machine]
) -> Numbered:
    """Record the numbers of all rows in their machines; `epoch` has the epochs as judged."""
    found = Numbered(*(np.zeros(len(columns), np.bool_) for _ in range(2)))
    having = np.flatnonzero(columns.seq != NONE)
    if not len(having):
        return found
    source, seq, epoch = columns.source[having], columns.seq[having], epoch[having]
    groups = group_rows(source, epoch)
    seq, source, epoch = seq[groups.order], source[groups.order], epoch[groups.order]
    row = having[groups.order]
    high = shift(running_max(seq, groups), 0)
    is_other = seq - 1 != high
    is_other[groups.starts] = False
    others = np.flatnonzero(is_other)
    bounds = np.searchsorted(others, groups.starts).tolist()
    bounds.append(len(others))
    at, number = others.tolist(), seq[others].tolist()
    highs, came_ns = high[others].tolist(), at_ns[row[others]].tolist()
    copies, behind = [], []
    firsts = zip(
        *(each[groups.starts].tolist() for each in (source, epoch, seq)),
        *(groups.starts.tolist(), groups.ends.tolist()),
        np.maximum.reduceat(seq, groups.starts).tolist(),
        strict=True,
    )
    for group, (of, of_epoch, first, begin, end, most) in enumerate(firsts):
        machine = machines[of]
        machine.numbered = True
        seen = machine.epochs.begin(of_epoch, first)
        passed = begin
        for n in range(bounds[group], bounds[group + 1]):
            seen.rise_to(highs[n], at[n] - passed - 1)
            passed = at[n]
            is_new = seen.take(number[n], came_ns[n])
            copies.append(not is_new)
            behind.append(is_new and number[n] < highs[n])
        seen.rise_to(most, end - passed - 1)
    found.copy[row[others]] = copies
    found.behind[row[others]] = behind
    _note_falls(columns, having, [machine.epochs for machine in machines])
    return found


def _note_falls(columns: Columns, having: Ints, epochs: Sequence[NumberedEpochs]) -> None:
    """Count the falls of the numbers of each source, as `Falls.note` does."""
    source, seq = columns.source[having], columns.seq[having]
    groups = group_rows(source)
    ordered, number = source[groups.order], seq[groups.order]
    largest = np.maximum.reduceat(number, groups.starts)
    lasts = np.array(LASTS)
    place = np.searchsorted(lasts, largest)
    last, below = lasts[place], np.where(place > 0, lasts[place - 1], -1)
    written = columns.epoch[having][groups.order]
    starts, ends = groups.starts.tolist(), groups.ends.tolist()
    is_written = np.maximum.reduceat(written, groups.starts) > 0
    telling = _find_telling(number, groups.number, last, below)
    numbers = number[telling].tolist()
    firsts = np.searchsorted(telling, groups.starts).tolist()
    zeros = np.bincount(groups.number[number == 0], minlength=len(last)).tolist()
    for at, of in enumerate(ordered[groups.starts].tolist()):
        falls = epochs[of].falls
        if is_written[at]:
            part = slice(starts[at], ends[at])
            _note_written(falls, number[part].tolist(), written[part].tolist())
            continue
        falls.begin(int(last[at]))
        for each in numbers[firsts[at] : (*firsts, len(numbers))[at + 1]]:
            falls.note(each)
        falls.zeros = zeros[at]


def _note_written(falls: Falls, numbers: list[int], epochs: list[int]) -> None:
    newest = 0
    for number, epoch in zip(numbers, epochs, strict=True):
        if epoch > newest:
            newest = epoch
            falls.height = 0
        falls.note(number)


def _find_telling(number: Ints, group: Ints, last: Ints, below: Ints) -> Ints:
    """Return the places of the numbers that `Falls.note` may count.

    A number counts from the first one on that exceeds `below`, the next smaller last number. A
    number in the same part as the one before tells nothing, unless it is 1, the last one, or close
    to it.
    """
    bounds = np.array([bounds_of(each) for each in last.tolist()]).reshape(-1, 4)
    low, top, middle, close = bounds[group].T
    last_of = last[group]
    part = np.where(number < low, 0, np.where(number >= top, 1, 3))
    part[(part == 3) & (middle <= number) & (number <= last_of - middle)] = 2
    is_telling = part != shift(part, -1)
    is_telling |= group != shift(group, -1)
    is_telling |= (number == 1) | (number == last_of) | (last_of - number < close)
    first = np.full(len(last), len(number))
    at = np.flatnonzero(number > below[group])
    np.minimum.at(first, group[at], at)
    begins = first[group]
    is_telling |= np.arange(len(number)) == begins
    return np.flatnonzero(is_telling & (np.arange(len(number)) >= begins))
