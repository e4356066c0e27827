"""Store the rows of an audit on disk for its second pass: clock correction and the engine.

A row takes `ROW_BYTES` in a temporary file, which is deleted when it is closed or the process ends.
Memory: `PAGE_ROWS` rows.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple

from recordings.audit.row import AuditRow

NONE: Final = -(1 << 63)
_ROW: Final = struct.Struct("<qqqqqiiI?")
ROW_BYTES: Final = _ROW.size
PAGE_ROWS: Final = 16_384


class SpooledRow(NamedTuple):
    """A row of the spool; `arrival_ns`, `seq` and `epoch` are NONE if they are absent.

    Attributes:
        at_ns: The time of the arrival clock after the row.
        copy: Whether the row is a duplicate.
    """

    ts_ns: int
    at_ns: int
    arrival_ns: int
    seq: int
    epoch: int
    machine: int
    partition: int
    digest: int
    copy: bool


class Spool:
    """A file of rows, which is written once and then read any number of times."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)
        self._page = bytearray()

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(
        self,
        ts_ns: int,
        at_ns: int,
        arrival_ns: int | None,
        seq: int | None,
        epoch: int | None,
        machine: int,
        partition: int,
        digest: int,
        copy: bool,
    ) -> None:
        self._page += _ROW.pack(
            ts_ns,
            at_ns,
            NONE if arrival_ns is None else arrival_ns,
            NONE if seq is None else seq,
            NONE if epoch is None else epoch,
            machine,
            partition,
            digest,
            copy,
        )
        if len(self._page) >= PAGE_ROWS * ROW_BYTES:
            self._flush()

    def put(self, rows: bytes) -> None:
        """Add rows in the packed form that `pages` yields."""
        self._flush()
        self._file.write(rows)

    def rows(self) -> Iterator[SpooledRow]:
        return map(SpooledRow._make, self.values())

    def values(self) -> Iterator[tuple[int, int, int, int, int, int, int, int, bool]]:
        """Yield the fields of each row, which is cheaper than rows."""
        for page in self.pages():
            yield from _ROW.iter_unpack(page)

    def pages(self) -> Iterator[bytes]:
        """Yield the packed rows, `PAGE_ROWS` at a time."""
        self._flush()
        self._file.seek(0)
        while page := self._file.read(PAGE_ROWS * ROW_BYTES):
            yield page

    def read_audit_rows(self, names: list[str]) -> Iterator[AuditRow]:
        """Yield the rows in the order in which they were written, without their offsets.

        `names` has the sources by number.
        """
        for ts_ns, _, arrival_ns, seq, epoch, machine, partition, digest, _ in self.values():
            sent, of, came_ns = (None if n == NONE else n for n in (seq, epoch, arrival_ns))
            yield AuditRow(names[machine], sent, of, ts_ns, came_ns, partition, 0, digest)

    def _flush(self) -> None:
        self._file.write(self._page)
        self._page.clear()
