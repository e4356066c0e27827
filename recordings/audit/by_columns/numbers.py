"""Track the sequence numbers of all sources by columns, with the results of `audit.numbers`.

Only numbers other than the next one of their source are handled one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recordings.audit.by_columns.grouped import Flags, Ints, grouped, running_max, shifted
from recordings.audit.columns import Columns
from recordings.audit.machine import Machine
from recordings.audit.numbers import NumberedEpochs
from recordings.audit.spool import NONE
from recordings.audit.wraps import NEAR_ZERO, NEVER, PARTS, WIDTHS, Falls

_LAST_PART = PARTS - 1


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
    groups = grouped(source, epoch)
    seq, source, epoch = seq[groups.order], source[groups.order], epoch[groups.order]
    row = having[groups.order]
    high = shifted(running_max(seq, groups), 0)
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
    groups = grouped(source)
    ordered, number = source[groups.order], seq[groups.order]
    largest = np.maximum.reduceat(number, groups.starts)
    bits, below = np.full(len(largest), NEVER), np.full(len(largest), WIDTHS[-1])
    for width, narrower in reversed([*zip(WIDTHS, (0, *WIDTHS[:-1]), strict=True)]):
        fits = largest >> width == 0
        bits[fits], below[fits] = width, narrower
    written = columns.epoch[having][groups.order]
    starts, ends = groups.starts.tolist(), groups.ends.tolist()
    is_written = np.maximum.reduceat(written, groups.starts) > 0
    counts = _counts_of_falls(number, groups.number, bits, below)
    for at, (of, width) in enumerate(
        zip(ordered[groups.starts].tolist(), bits.tolist(), strict=True)
    ):
        falls = epochs[of].falls
        if is_written[at]:
            part = slice(starts[at], ends[at])
            _note_written(falls, number[part].tolist(), written[part].tolist())
        else:
            falls.bits = width
            falls.count, falls.others, falls.tops = (each[at] for each in counts)


def _note_written(falls: Falls, numbers: list[int], epochs: list[int]) -> None:
    newest = 0
    for number, epoch in zip(numbers, epochs, strict=True):
        if epoch > newest:
            newest = epoch
            falls.height = 0
        falls.note(number)


def _counts_of_falls(
    number: Ints, group: Ints, bits: Ints, below: Ints
) -> tuple[list[int], list[int], list[int]]:
    """Return the wraps, the restarts and the largest numbers of each group.

    A number counts from the first one that needs the bits of its source, which are more than
    `below`.
    """
    groups = len(bits)
    wide = (below[group] == 0) | (number >> below[group] > 0)
    first = np.full(groups, len(number))
    at = np.flatnonzero(wide)
    np.minimum.at(first, group[at], at)
    counts = np.arange(len(number)) >= first[group]
    width = bits[group]
    top = (np.int64(1) << (width - 1)) - 1  # Half of the largest number, which is 2 * top + 1.
    tops = np.bincount(group[(number >> 1 == top) & (number & 1 == 1)], minlength=groups)
    part = number >> (width - PARTS.bit_length() + 1)
    low, high = part < NEAR_ZERO, part == _LAST_PART
    middle = (part >= PARTS // 4) & (part < PARTS - PARTS // 4)
    shown = np.flatnonzero(counts & (low | high | middle))
    group, low, high = group[shown], low[shown], high[shown]
    place = np.arange(len(shown))
    begins = np.searchsorted(group, np.arange(groups))[group]
    before = shifted(np.maximum.accumulate(np.where(high, -1, place)), -1)
    top_before = shifted(np.maximum.accumulate(np.where(high, place, -1)), -1)
    is_first = before < begins
    is_top = (top_before >= begins) & (top_before > before)
    is_middle = ~is_first & ~low[before]
    wraps = low & is_top & (is_first | is_middle)
    restarts = low & ~is_top & is_middle
    counted = np.bincount(group[wraps], minlength=groups)
    others = np.bincount(group[restarts], minlength=groups)
    return counted.tolist(), others.tolist(), tops.tolist()
