"""What an audit needs of a record, and where rows of it come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from agents.watch.deaths import Deaths
from topology.model.outcome import Malformed


class AuditRow(NamedTuple):
    """One record. `seq` is None of a source that numbers nothing, `epoch` where none is given,
    `arrival_ns` where nothing says when it arrived."""

    source: str
    seq: int | None
    epoch: int | None
    ts_ns: int
    arrival_ns: int | None = None
    partition: int = 0
    offset: int = 0


AuditInput = Iterable[AuditRow | Malformed]
"""Rows in order, and what could not be read, in its place."""


@dataclass(frozen=True, slots=True)
class OrderRule:
    """How rows of several partitions came in order. `apart`: nothing does it, so that each
    partition is in its own order, and a watermark is the least of `partitions`."""

    partitions: tuple[int, ...] = (0,)
    apart: bool = False


ONE_ORDER: Final = OrderRule()


@dataclass(slots=True)
class Unread:
    """What could not be read: how many, by reason the first of each."""

    count: int = 0
    deaths: Deaths = field(default_factory=Deaths)

    def rows(
        self, inputs: AuditInput, advance: Callable[[int], object] = lambda _: None
    ) -> Iterator[AuditRow]:
        """The rows alone; the rest is counted here. `advance` gets 1 for each of both."""
        for each in inputs:
            advance(1)
            if isinstance(each, AuditRow):
                yield each
            else:
                self.count += 1
                self.deaths.add(each)
