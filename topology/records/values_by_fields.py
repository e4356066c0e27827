"""Reads a record's value, or a line, from one mapping, as the `fields` of streams say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from topology.base.paths import Path
from topology.records.line_reader import Row
from topology.records.mapped_rows import MappedRows
from topology.records.values import follow_path


@dataclass(slots=True)
class ValuesByFields:
    """A reader of records' values by the `fields` of the only stream that has some.

    Attributes:
        others: The names of the other streams.
        source: The path of the source in a value, or () if it is elsewhere.
        payload: The path of the part of a value that queries read.
        rows: The reader of the other fields.
    """

    others: frozenset[str]
    source: Path
    payload: Path
    rows: MappedRows

    def row_of(self, number: int, given: Mapping[str, Any], near_ns: int) -> Row:
        """Return the row of a mapping, which is a value or a line.

        Args:
            number: The number of the row.
            given: The mapping.
            near_ns: The arrival of a value that names none, in ns.
        """
        value = self._value_of(given)
        if value is None:
            return Row(number, given)
        row = self.rows.row(number, value, near_ns)
        if row.fault is None:
            row = row._replace(values={**row.values, "payload": follow_path(value, self.payload)})
        arrival = None if value is given or row.values.get("arrival") else given.get("arrival")
        return row if arrival is None else row._replace(values={**row.values, "arrival": arrival})

    def _value_of(self, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the value in a mapping, or None if the mapping is a line."""
        inside = given.get("payload")
        is_line = given.get("source") is not None or given.get("clock") is not None
        stream = given.get("stream")
        is_of_another = isinstance(stream, str) and stream in self.others
        if is_of_another or (is_line and inside is not None):
            return None
        if self.source and follow_path(given, self.source) is not None:
            return given
        if is_line:
            return None
        return inside if isinstance(inside, Mapping) else given
