"""Reads the values of foreign records by a mapping, into rows of inorder's own form."""

from __future__ import annotations

from typing import Any

from topology.base.outcome import Malformed
from topology.records.field_reader import NO_HEADERS, FieldReader
from topology.records.line_reader import UNREAD_FIELDS, Row
from topology.records.mapping import Fields
from topology.records.reasons import WireFault, fault_of
from topology.records.times import Twice, read_instant_ns, reading_of
from topology.records.values import Picking, ValueFault
from topology.records.where import Where


class MappedRows:
    """A reader of values, each of which becomes a row without a payload."""

    def __init__(self, reader: FieldReader, arrivals: Arrivals) -> None:
        self._reader = reader
        self.arrivals = arrivals

    def row(self, number: int, value: Any, near_ns: int = 0) -> Row:
        """Return the row of a value.

        Args:
            number: The number of the row.
            value: The value, as the reader decodes it.
            near_ns: The arrival of a value that names none, in ns, or 0 if it is not known. A
                local time that occurs twice is the instant nearer to it.
        """
        arrival_ns = self.arrivals.of(value)
        came_ns = 0 if isinstance(arrival_ns, WireFault) else arrival_ns or near_ns
        found = self._reader.read(NO_HEADERS, None, value, came_ns, 0, number)
        values = self._reader.values_of(found)
        if isinstance(found, Malformed):
            fault = WireFault(found.reason, found.detail)
            read = {name: each for name, each in values.items() if each is not None}
            known = UNREAD_FIELDS | read if found.source else {}
            return Row(number, known, fault, ts_is_instant=True)
        if isinstance(arrival_ns, WireFault):
            return Row(number, values, arrival_ns, ts_is_instant=True)
        values["arrival"] = arrival_ns
        if self._reader.fields.id is not None:
            values["id"] = self._reader.find_id(NO_HEADERS, None, value)
        return Row(number, values, ts_is_instant=True)


class Arrivals:
    """A reader of the arrival time, in ns, of each row of a file.

    Rows stand in the order of their arrival. So of the two instants of a local time that occurs
    twice, the first one that is not before the row before is meant.

    Attributes:
        last_ns: The arrival of the last row that has one.
    """

    def __init__(self, where: Where | None, fields: Fields, pickings: Picking) -> None:
        self._where = where
        self._pick = None if where is None else pickings([where.path])
        self._time = reading_of(fields)
        self.last_ns: int | None = None

    def of(self, value: Any) -> int | WireFault | None:
        """Return the arrival of a row, None if it has none, or why its value is not a time."""
        if self._pick is None:
            return None
        try:
            (given,) = self._pick(value)
        except ValueFault as wrong:
            return WireFault(wrong.reason, wrong.detail)
        if given is None:
            return None
        how = self._time.for_arrival(given)
        found_ns = read_instant_ns(given, how)
        if isinstance(found_ns, str):
            return fault_of("arrival", found_ns, f"`{self._where}`", self._time.describe())
        if isinstance(found_ns, Twice):
            is_second = self.last_ns is not None and found_ns.early_ns < self.last_ns
            found_ns = found_ns.late_ns if is_second else found_ns.early_ns
        self.last_ns = found_ns
        return found_ns
