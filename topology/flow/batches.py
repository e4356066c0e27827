"""BATCHES: how an input is cut, and what time each batch is given. This is the one place for it.

A batch ends between two instants, and its time is the arrival of what comes next: nothing else
will arrive before. So every instant is over within its own batch, and what is decided when it is
over is said beside what was said within it. What a batch says thus does not depend on where the
others end: the deadlines before the next arrival fire in it, each at its own time, over all streams
and operators. The last batch ends with its own last arrival; then the input ends.

An instant of more than `MOST_AT_ONCE` is cut all the same; the arrival that comes next is then the
same, and the instant goes on.

What cannot look ahead (a worker, whose next record has not come yet) gives the arrival of the last
one. The instant goes on then, and its outcomes are said in two steps: the same outcomes, with the
same `at`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from topology.model.event import Event
from topology.model.outcome import Malformed
from topology.wire.line_reader import Content

BATCH: Final = 256
"""Taken at a time, or a few more; the answer does not depend on it."""

MOST_AT_ONCE: Final = 65_536


class InputBatch(NamedTuple):
    """`until_ns`: when the next one arrives; None: the input is over."""

    contents: list[Content]
    until_ns: int | None


def batches(contents: Iterable[Content]) -> Iterator[InputBatch]:
    """All of it, in the order of arrival. A clock line stays with the line before it."""
    batch: list[Content] = []
    last_ns = None
    for content in contents:
        at_ns = content.at_ns if isinstance(content, Event | Malformed) else last_ns
        if (len(batch) >= BATCH and at_ns != last_ns) or len(batch) >= MOST_AT_ONCE:
            yield InputBatch(batch, at_ns)
            batch = []
        batch.append(content)
        last_ns = at_ns
    if batch:
        yield InputBatch(batch, None)
