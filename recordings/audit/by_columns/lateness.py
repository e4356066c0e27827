"""Find by columns how far records are behind the newest of their stream and of their source."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from recordings.audit.by_columns.grouped import Flags, Groups, Ints, running_max, shift
from recordings.audit.plain_jobs import NEVER_NS


class Lateness(NamedTuple):
    """How far records are behind.

    Attributes:
        late_ns: For each group, how far each late record was behind the newest of all, in order.
        newcomer_behind_ns: How far the first record of a group was behind the newest of all, at
            most.
        fall_ns: How far each row was behind the newest of its group, or 0. Rows are in groups.
        newest_ns: The newest timestamp of each group.
    """

    late_ns: list[array[int]]
    newcomer_behind_ns: int
    fall_ns: Ints
    newest_ns: Ints


def lateness_of(ts_ns: Ints, groups: Groups, copy: Flags) -> Lateness:
    """Return how far rows with these timestamps are behind; duplicates do not count."""
    kept_ns = np.where(copy, NEVER_NS, ts_ns)
    before_ns = shift(np.maximum.accumulate(kept_ns), NEVER_NS)
    first = groups.order[groups.starts]
    first = first[first > 0]  # The very first row is behind none.
    newcomer_ns = (before_ns[first] - ts_ns[first]).max(initial=0)
    late_ns = _measure_behind(ts_ns, before_ns, copy)[groups.order]
    order = groups.order
    newest_ns = running_max(kept_ns[order], groups)
    own_ns = shift(newest_ns, NEVER_NS)
    own_ns[groups.starts] = NEVER_NS
    return Lateness(
        [*split_by_group(late_ns, late_ns > 0, groups)],
        int(newcomer_ns),
        _measure_behind(ts_ns[order], own_ns, copy[order]),
        newest_ns[groups.ends - 1],
    )


def _measure_behind(ts_ns: Ints, before_ns: Ints, copy: Flags) -> Ints:
    is_behind = ~copy & (before_ns > ts_ns)
    return np.where(is_behind, before_ns, 0) - np.where(is_behind, ts_ns, 0)


def split_by_group(values: Ints, chosen: Flags, groups: Groups) -> Iterator[array[int]]:
    """Yield the chosen values of each group."""
    found = values[chosen]
    begin = 0
    for end in np.cumsum(chosen)[groups.ends - 1].tolist():
        yield to_array(found[begin:end])
        begin = end


def to_array(values: Ints) -> array[int]:
    found = array("q")
    found.frombytes(values.astype(np.int64).tobytes())
    return found
