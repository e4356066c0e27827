"""Limits the work that waits for a checkpoint, by the time that cuts and commits take.

A cut collects all changes from all operators at one instant. Its cost is that of the changes: very
little for many records of few sources, and 20 us for each source that has changed. With `MAX_BATCH`
as the only bound, 100,000 sources that send at once would block the event loop for half a second. A
commit sends outputs and changes. Over a slow link 64 MiB take longer than `transaction_timeout`,
and the brokers abort the transaction.

So both are timed. The limit is `CUT_S` for a cut. For a commit it is a quarter of
`transaction_timeout`, or of `COMMIT_TIMEOUT_S` if that is shorter. After one that took longer, the
next checkpoint takes only as much work as fits into the limit. After a quick one that used at least
half of the bound, the bound doubles, up to `MAX_BATCH` and `MOST_BYTES`. The first bound of a
partition is small, because the speed of its commits is not known yet. The time of the quickest
commit counts as the fixed cost of every commit, up to the same quarter. Only the time beyond it
counts against the limit. A failed commit halves the bounds. The results are the same for every size
of checkpoint.

A batch is processed in pieces, between which the process answers. A costly query may take a second
for each event. So the number of records in a piece is adapted to `PIECE_S` in the same way. The
first piece is a single record, because the cost is not known yet. No piece is shorter than that. So
a single record that takes longer than `stuck_after` counts as a hang. In a stage with MERGE and
queries, a record may let many buffered events go, which then belong to its piece. The supervisor
leaves a stage that computes alone for five minutes (`agents.process.supervisor`).

The garbage collector is off during a cut. A cut makes hundreds of thousands of lists, encodes them
and drops them, and none of them is in a cycle. A collector that traverses them repeatedly takes a
fifth of the time or more.
"""

from __future__ import annotations

import gc
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeVar

from agents.stage.delivery import COMMIT_TIMEOUT_S

Lane = TypeVar("Lane")

CUT_S: Final = 0.1
QUICK: Final = 0.25
"""Fraction of the limit up to which a cut or commit counts as quick."""

COMMIT: Final = 0.25
"""Fraction of `transaction_timeout`, or of `COMMIT_TIMEOUT_S` if that is shorter, for a commit."""

MAX_BATCH: Final = 20_000
"""Maximum number of records in one transaction."""

PIECE: Final = 500
"""Maximum number of records that are processed before other tasks get a turn."""

PIECE_S: Final = 0.5
"""Time that a piece may take, in seconds, unless it is a single record."""

FEWEST: Final = 1_000
"""Lower bound of the limit on records after slow cuts; each transaction has a fixed cost."""

FEWEST_SENT: Final = 100
LEAST_BYTES: Final = 1 << 16
"""Lower bound of the limit on payload bytes after slow commits; `FEWEST_SENT` is for records."""

FIRST_BYTES: Final = 1 << 20
MOST_BYTES: Final = 64 << 20
"""Maximum number of payload bytes in all outputs of one transaction."""


@dataclass
class Fit:
    """A bound between `least` and `most`, adapted so that the work takes up to about `limit_s`."""

    limit_s: float
    least: int
    amount: int
    most: int = MAX_BATCH

    def adapt(self, seconds: float, amount: int) -> None:
        if seconds > self.limit_s and amount:
            self._set(int(amount * self.limit_s / seconds))
        elif seconds < QUICK * self.limit_s and 2 * amount >= self.amount:
            self._set(2 * self.amount)

    def halve(self) -> None:
        self._set(self.amount // 2)

    def _set(self, amount: int) -> None:
        self.amount = min(self.most, max(self.least, amount))


class CheckpointSize:
    """The bounds on the work that may wait for a partition's next checkpoint.

    They outlive the partition's object, so a failed commit also makes the next checkpoints smaller.
    """

    def __init__(self, transaction_timeout_ns: int) -> None:
        self._commit_s = COMMIT * min(transaction_timeout_ns / 1e9, COMMIT_TIMEOUT_S)
        self._quickest_s = self._commit_s
        self._cut = Fit(CUT_S, FEWEST, MAX_BATCH)
        self._sent = Fit(self._commit_s, FEWEST_SENT, FEWEST)
        self._bytes = Fit(self._commit_s, LEAST_BYTES, FIRST_BYTES, MOST_BYTES)
        self._piece = Fit(PIECE_S, 1, 1, PIECE)

    @property
    def records(self) -> int:
        return min(self._cut.amount, self._sent.amount)

    @property
    def bytes(self) -> int:
        return self._bytes.amount

    def pieces(self, records: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Yield the records in pieces that fit the bounds.

        A piece has at most `PIECE` records, and no more records or payload than may wait for a
        checkpoint. It has fewer if the last pieces took long. A larger record is in a separate
        piece.
        """
        sizes = list(accumulate([len(record.value or b"") for record in records], initial=0))
        first = 0
        while first < len(records):
            fits = bisect_right(sizes, sizes[first] + self.bytes) - 1
            end = max(first + 1, min(first + self._piece.amount, first + self.records, fits))
            yield records[first:end]
            first = end

    def split_lanes(
        self, polled: Sequence[tuple[Lane, Sequence[Any]]]
    ) -> Iterator[list[tuple[Lane, Sequence[Any]]]]:
        """Yield the records of several lanes in pieces that fit the bounds.

        Each piece has the same share of the records of each lane, because the records of one poll
        are of about the same time. So few of them wait for other lanes.
        """
        if len(polled) == 1:
            ((lane, only),) = polled
            yield from ([(lane, piece)] for piece in self.pieces(only))
            return
        left = [len(records) for _, records in polled]
        in_all = sum(left)
        sizes = sum([len(record.value or b"") for _, records in polled for record in records])
        of_bytes = max(1, self.bytes * in_all // max(sizes, 1))
        while in_all_left := sum(left):
            budget = min(self._piece.amount, self.records, of_bytes)
            room, piece = budget, []
            for at, (lane, records) in enumerate(polled):
                share = min(-(-left[at] * budget // in_all_left), left[at], room)
                if share > 0:
                    first = len(records) - left[at]
                    piece.append((lane, records[first : first + share]))
                    left[at] -= share
                    room -= share
            yield piece

    def note_work(self, seconds: float, records: int) -> None:
        """Adapt the next pieces to the time that the work on one piece took."""
        self._piece.adapt(seconds, records)

    @contextmanager
    def measure_cut(self, records: int) -> Iterator[None]:
        """Time a cut of the changes by `records` records, with the garbage collector off."""
        began_s = time.monotonic()
        with pause_collector():
            yield
        self._cut.adapt(time.monotonic() - began_s, records)

    def note_commit(self, seconds: float, records: int, payload_bytes: int) -> None:
        """Adapt the limits to a commit that took `seconds`."""
        self._quickest_s = min(self._quickest_s, seconds)
        self._sent.adapt(seconds - self._quickest_s, records)
        self._bytes.adapt(seconds - self._quickest_s, payload_bytes)

    def note_failure(self) -> None:
        """Halve the bounds after a failed commit, which usually took too long."""
        self._sent.halve()
        self._bytes.halve()


@contextmanager
def pause_collector() -> Iterator[None]:
    """Turn the garbage collector off for the body, if it is on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
