"""What detectors find, as results (topology.model.result).

Its events are those that the detector named, or the one at which it told; `start_ns` is what the
detector said, or that event's time. It is uncertain where the event at which it was told may truly
lie before one that was read before it.

Proved by: tests/topology/speculate/test_operator.py
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.model.result import CONFIRMED, UNCERTAIN, DetectorResult
from topology.query.numbers import scalar_of
from topology.query.results import ResultEmitter
from topology.speculate.unit import Record


class DetectorEmitter(ResultEmitter):
    def __init__(self, stream: str, query: str, *, is_keyed: bool) -> None:
        super().__init__()
        self._stream = stream
        self._query = query
        self._is_keyed = is_keyed

    def tell(self, records: Sequence[Record]) -> None:
        for record in records:
            self.count(record.op)
            output = record.output
            self.results.append(
                DetectorResult(
                    self.now_ns,
                    self._stream,
                    self._query,
                    output.id,
                    record.op,
                    record.revision,
                    record.final,
                    UNCERTAIN if output.unsure else CONFIRMED,
                    output.start_ns,
                    output.end_ns,
                    output.values,
                    output.members,
                    scalar_of(record.key) if self._is_keyed else None,
                )
            )
