"""How much may wait for a checkpoint, so that its cut does not keep the loop for long, and its
commit is over long before the brokers would abort it.

A cut takes what has changed from all operators at one instant. Its cost is that of the changes:
next to nothing for many records of few sources, 20 us for each source that has changed. With
the bound of `MAX_BATCH` alone, 100,000 sources that speak at once would keep the loop, and with
it everybody else, for half a second at a time and more. A commit sends outputs and changes; over a
slow link 64 MiB take longer than `transaction_timeout`, and the brokers abort what is sent.

So both are timed. After a cut of more than `CUT_S`, or a commit of more than a quarter of
`transaction_timeout`, so much waits for the next as fits into that time. Where they are quick it is
twice as much each time that the bound was of use, up to `MAX_BATCH` and `MOST_BYTES`. A partition
begins with little, for how quick commits are is not known then. What the quickest commit took is
taken for what each takes, however small, up to the same quarter, and not counted. A commit that
fails halves what the next may bring. What comes out is the same for every cut.

The garbage collector is off meanwhile. A cut makes lists by the hundred thousand, encodes
them and drops them: none of them is in a cycle, and a collector that walks them again and again
takes a fifth of the time and more.
"""

from __future__ import annotations

import gc
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from agents.stage.delivery import COMMIT_TIMEOUT_S

CUT_S: Final = 0.1
QUICK: Final = 0.25
"""A share of the time that is allowed."""

COMMIT: Final = 0.25
"""A share of `transaction_timeout`, or of the time after which a commit is given up here."""

MAX_BATCH: Final = 20_000
"""Records of one transaction at most."""

PIECE: Final = 500
"""Records worked on in one go."""

FEWEST: Final = 1_000
"""Records that may wait at least, as far as cuts are slow; a transaction has a cost of its own."""

FEWEST_SENT: Final = 100
LEAST_BYTES: Final = 1 << 16
"""The same, as far as commits are slow."""

FIRST_BYTES: Final = 1 << 20
MOST_BYTES: Final = 64 << 20
"""Payload of all outputs together."""


@dataclass
class Fit:
    """`amount` may wait: so much as takes `limit_s`, between `least` and `most`."""

    limit_s: float
    least: int
    amount: int
    most: int = MAX_BATCH

    def took(self, seconds: float, amount: int) -> None:
        if seconds > self.limit_s and amount:
            self._set(int(amount * self.limit_s / seconds))
        elif seconds < QUICK * self.limit_s and 2 * amount >= self.amount:
            self._set(2 * self.amount)

    def halve(self) -> None:
        self._set(self.amount // 2)

    def _set(self, amount: int) -> None:
        self.amount = min(self.most, max(self.least, amount))


class CutSize:
    """How much may wait for the next checkpoint of a partition. It outlives the partition, for what
    a commit that failed has taught counts for the next owner."""

    def __init__(self, transaction_timeout_ns: int) -> None:
        self._commit_s = COMMIT * min(transaction_timeout_ns / 1e9, COMMIT_TIMEOUT_S)
        self._quickest_s = self._commit_s
        self._cut = Fit(CUT_S, FEWEST, MAX_BATCH)
        self._sent = Fit(self._commit_s, FEWEST_SENT, FEWEST)
        self._bytes = Fit(self._commit_s, LEAST_BYTES, FIRST_BYTES, MOST_BYTES)

    @property
    def records(self) -> int:
        return min(self._cut.amount, self._sent.amount)

    @property
    def bytes(self) -> int:
        return self._bytes.amount

    def pieces(self, records: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Cut into pieces of `PIECE` records at most, and of no more records or payload than may
        wait for a checkpoint; a larger record is a piece of its own."""
        sizes = list(accumulate([len(record.value or b"") for record in records], initial=0))
        first = 0
        while first < len(records):
            fits = bisect_right(sizes, sizes[first] + self.bytes) - 1
            end = max(first + 1, min(first + PIECE, first + self.records, fits))
            yield records[first:end]
            first = end

    @contextmanager
    def timed(self, records: int) -> Iterator[None]:
        """Around a cut after so many records."""
        began_s = time.monotonic()
        with uncollected():
            yield
        self._cut.took(time.monotonic() - began_s, records)

    def committed(self, seconds: float, records: int, payload_bytes: int) -> None:
        """A transaction took so long."""
        self._quickest_s = min(self._quickest_s, seconds)
        self._sent.took(seconds - self._quickest_s, records)
        self._bytes.took(seconds - self._quickest_s, payload_bytes)

    def failed(self) -> None:
        """A transaction did; as a rule it took too long."""
        self._sent.halve()
        self._bytes.halve()


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector, where that is at work."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
