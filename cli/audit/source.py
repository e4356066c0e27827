"""What an audit reads, whatever it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from cli.taken import SAMPLE, Taken
from recordings.audit.row import AuditInput, OrderRule


@dataclass(slots=True)
class AuditSource:
    """What an audit reads. `first`: the first records as text. `said`: about their order.
    `section`: keys of the stream beside those of the mapping. `partitions`: of a topic."""

    name: str
    mapping: Taken
    rows: AuditInput
    order: OrderRule
    arrives: bool
    first: list[str]
    said: list[str]
    section: dict[str, Any]
    command: str
    partitions: int = 1


def with_sample(rows: Iterable[Any]) -> tuple[list[Any], Iterator[Any]]:
    """The first `SAMPLE` rows, and all of them."""
    rows = iter(rows)
    sample = list(islice(rows, SAMPLE))
    return sample, chain(sample, rows)
