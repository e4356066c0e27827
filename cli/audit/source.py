"""Defines the input of an audit, which comes from a file or a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cli.taken import Taken
from recordings.audit.columns import Columns
from recordings.audit.row import AuditInput, OrderRule
from recordings.proposal import FILE_PARTITIONS


@dataclass(slots=True)
class AuditSource:
    """The input of an audit, with the mapping by which its records are read.

    Attributes:
        columns: The same rows as columns, if they could be read so.
        first: The first records as text.
        said: Remarks about the order of the records.
        section: Keys of the proposed stream other than those of the mapping.
        partitions: Number of partitions of the topic, or the number proposed for a file.
    """

    name: str
    mapping: Taken
    rows: AuditInput
    order: OrderRule
    arrives: bool
    first: list[str]
    said: list[str]
    section: dict[str, Any]
    command: str
    partitions: int = FILE_PARTITIONS
    columns: Columns | None = None
