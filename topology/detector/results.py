"""What detectors find, as results (topology.model.result).

The events of a result are those that the detector named, or the one at which it was emitted;
`start_ns` is what the detector gave, or that event's time. A result is uncertain where the event
at which it was emitted may truly lie before one that was read before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.answer.frontier import FOR_EVER
from topology.detector.unit import Record
from topology.model.result import (
    CONFIRMED,
    RETRACT,
    UNCERTAIN,
    UNPROVEN,
    UNSETTLED,
    DetectorResult,
)
from topology.query.numbers import scalar_of
from topology.query.results import ResultEmitter


class DetectorEmitter(ResultEmitter):
    """`proven_ns`: results of later items are emitted only because the input has ended
    (`Operator.seal`). `settled_ns`: what later items read might still have changed."""

    def __init__(self, stream: str, query: str, *, is_keyed: bool) -> None:
        super().__init__()
        self.proven_ns = self.settled_ns = FOR_EVER
        self._stream = stream
        self._query = query
        self._is_keyed = is_keyed

    def emit(self, records: Sequence[Record]) -> None:
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
                    self._confidence(record),
                    output.start_ns,
                    output.end_ns,
                    output.values,
                    output.members,
                    scalar_of(record.key) if self._is_keyed else None,
                )
            )

    def _confidence(self, record: Record) -> str:
        if record.output.cause[0] > self.proven_ns and record.op != RETRACT:
            return UNPROVEN
        if record.output.cause[0] > self.settled_ns and record.op != RETRACT:
            return UNPROVEN if record.output.unsure else UNSETTLED
        return UNCERTAIN if record.output.unsure else CONFIRMED
