"""Define the fields of a record that an audit needs, and the order of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from agents.watch.deaths import Deaths
from topology.base.outcome import Malformed


class AuditRow(NamedTuple):
    """A record as an audit needs it.

    Attributes:
        source: The name of the source.
        seq: The sequence number; None if the source has none.
        epoch: The epoch; None if the record has none.
        ts_ns: The reported timestamp.
        arrival_ns: The arrival; None if it is not known.
        partition: The number of the partition.
        offset: The offset, or the number of the line in a file.
        digest: A checksum of the value, or 0 if it is not known (`topology.order.reorder.recent`).
            In a
            row without a number it is that of the row's id, or 0 if it has none.
    """

    source: str
    seq: int | None
    epoch: int | None
    ts_ns: int
    arrival_ns: int | None = None
    partition: int = 0
    offset: int = 0
    digest: int = 0


AuditInput = Iterable[AuditRow | Malformed]
"""The rows in order, with a Malformed in place of a row that could not be read."""


@dataclass(frozen=True, slots=True)
class OrderRule:
    """The rule by which rows of several partitions were put in order.

    Attributes:
        partitions: The numbers of the partitions.
        apart: Whether the partitions were not put in one order. Each then has its own order, and a
            watermark is the smallest of all partitions.
    """

    partitions: tuple[int, ...] = (0,)
    apart: bool = False


ONE_ORDER: Final = OrderRule()


@dataclass(slots=True)
class Unread:
    """The rows that could not be read.

    Attributes:
        count: The number of these rows.
        deaths: The count of each reason, with its first row.
    """

    count: int = 0
    deaths: Deaths = field(default_factory=Deaths)

    def rows(
        self, inputs: AuditInput, advance: Callable[[int], object] = lambda _: None
    ) -> Iterator[AuditRow]:
        """Yield the rows that could be read, and count the others; call `advance(1)` for each."""
        for each in inputs:
            advance(1)
            if isinstance(each, AuditRow):
                yield each
            else:
                self.add(each)

    def add(self, fault: Malformed) -> None:
        """Count one more row that could not be read."""
        self.count += 1
        self.deaths.add(fault)
