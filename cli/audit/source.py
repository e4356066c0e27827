"""What an audit reads, whatever it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from cli.audit.mapping import AuditMapping
from producers.recording.audit.row import AuditInput, OrderRule

SAMPLE: Final = 5_000
"""Records that a proposal is made from."""


@dataclass(slots=True)
class AuditSource:
    """What an audit reads. `first`: the first records as text. `said`: about their order."""

    name: str
    mapping: AuditMapping
    rows: AuditInput
    order: OrderRule
    arrives: bool
    first: list[str]
    said: list[str]
    topic_lines: list[str]
    command: str


def with_sample(rows: Iterable[Any]) -> tuple[list[Any], Iterator[Any]]:
    """The first `SAMPLE` rows, and all of them."""
    rows = iter(rows)
    sample = list(islice(rows, SAMPLE))
    return sample, chain(sample, rows)
