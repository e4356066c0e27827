"""Turns the outputs of detectors into results (`topology.base.result`).

The events of a result are those that the detector named, or the event at which it was emitted; a
timer's result may have none. `start_ns` comes from the detector, or is the time of the item. A
result is uncertain if the event at which it was emitted is `unsure`, or may be earlier than one
that was read before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.answer.frontier import FOR_EVER
from topology.answer.query.numbers import scalar_of
from topology.answer.query.results import ResultEmitter
from topology.base.result import CONFIRMED, RETRACT, UNCERTAIN, UNPROVEN, UNSETTLED, DetectorResult
from topology.queries.detector.unit import Record


class DetectorEmitter(ResultEmitter):
    """An emitter of a detector's results, which sets their confidence.

    Attributes:
        proven_ns: The time after which results are emitted only because the input has ended
            (`Operator.seal`).
        settled_ns: The time after which the results that the detector reads could still have
            changed if the input had not ended.
    """

    def __init__(self, stream: str, query: str, *, is_keyed: bool) -> None:
        super().__init__(stream, query, is_keyed=is_keyed)
        self.proven_ns = self.settled_ns = FOR_EVER

    def emit(self, records: Sequence[Record]) -> None:
        for record in records:
            output = record.output
            self.add(
                DetectorResult(
                    self.now_ns,
                    self._stream,
                    self._query,
                    output.id,
                    record.op,
                    record.revision,
                    record.final,
                    self._confidence_of(record),
                    output.start_ns,
                    output.end_ns,
                    output.values,
                    output.members,
                    scalar_of(record.key) if self._is_keyed else None,
                )
            )

    def _confidence_of(self, record: Record) -> str:
        if record.output.cause[0] > self.proven_ns and record.op != RETRACT:
            return UNPROVEN
        if record.output.cause[0] > self.settled_ns and record.op != RETRACT:
            return UNPROVEN if record.output.unsure else UNSETTLED
        return UNCERTAIN if record.output.unsure else CONFIRMED
