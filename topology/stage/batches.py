"""Cuts an input into batches and sets the time of each; no other module does so.

A batch ends between two instants. Its time is the arrival of the next item (an event, a malformed
record or a clock report), because nothing can arrive before that. So every instant ends within its
own batch, together with the decisions at its end. All deadlines before the next arrival fire in the
batch, each at its own time, over all streams and operators. So the outcomes of a batch do not
depend on where other batches end. The last batch has the time of its own last arrival; then the
input ends.

An instant with more than `MOST_AT_ONCE` items is cut anyway. The next arrival is then at the same
time, and the instant continues in the next batch.

A caller that cannot look ahead, such as a worker, gives the arrival of its last record instead. The
instant then stays open, and its outcomes are emitted in two steps, unchanged and with the same
`at`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.records.line_reader import Content

BATCH: Final = 256
"""The smallest number of items in a batch, except in the last one.

The outcomes do not depend on it.
"""

MOST_AT_ONCE: Final = 65_536


class InputBatch(NamedTuple):
    """A batch of an input.

    `until_ns` is the arrival of the next item; None means that the input is over.
    """

    contents: list[Content]
    until_ns: int | None


def batches(contents: Iterable[Content]) -> Iterator[InputBatch]:
    """Yield all items in batches, in the order of arrival.

    A clock report has the arrival time of the item before it.
    """
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
