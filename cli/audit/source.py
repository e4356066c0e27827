"""What an audit reads, whatever it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cli.taken import Taken
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
