"""What detectors find, as results (topology.model.result).

The events of a result are those that the detector named, or the one at which it was emitted;
`start_ns` is what the detector gave, or that event's time. A result is uncertain where the event
at which it was emitted may truly lie before one that was read before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.answer.frontier import FOR_EVER
from topology.answer.stability import Stability
from topology.detector.unit import Record
from topology.model.result import (
    CONFIRMED,
    RETRACT,
    UNCERTAIN,
    UNPROVEN,
    UNSETTLED,
    UPDATE,
    DetectorResult,
)
from topology.query.numbers import scalar_of
from topology.query.results import ResultEmitter


class DetectorEmitter(ResultEmitter):
    """`stability`: where a result is to say how stable it is; `newest_ns`: the newest event, and
    `watermark_ns`: W. `proven_ns`: results of later items are emitted only because the input
    has ended (`Operator.seal`). `settled_ns`: what later items read might still have changed."""

    def __init__(
        self, stream: str, query: str, *, is_keyed: bool, stability: Stability | None = None
    ) -> None:
        super().__init__()
        self._stability = stability
        self.newest_ns = 0
        self.proven_ns = self.settled_ns = FOR_EVER
        self.watermark_ns = 0
        self._stream = stream
        self._query = query
        self._is_keyed = is_keyed

    def emit(self, records: Sequence[Record]) -> None:
        for record in records:
            self.count(record.op)
            output = record.output
            stands_ppm = None if self._stability is None else self._stability_ppm(record)
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
                    stands_ppm=stands_ppm,
                )
            )

    def _confidence(self, record: Record) -> str:
        if record.output.cause[0] > self.proven_ns and record.op != RETRACT:
            return UNPROVEN
        if record.output.cause[0] > self.settled_ns and record.op != RETRACT:
            return UNPROVEN if record.output.unsure else UNSETTLED
        return UNCERTAIN if record.output.unsure else CONFIRMED

    def _stability_ppm(self, record: Record) -> int | None:
        """None of what is final, or taken back."""
        assert self._stability is not None
        cause_ns = record.output.cause[0]
        is_merged = cause_ns <= self.watermark_ns
        if record.op == RETRACT or (record.op == UPDATE and record.output.is_own):
            if not record.final:
                self._stability.changed(is_merged=is_merged)
            if record.op == RETRACT:
                return None
        if record.final:
            return None
        age_ns, ahead_ns = self.newest_ns - cause_ns, self.newest_ns - self.watermark_ns
        return self._stability.emitted(age_ns, ahead_ns, is_merged=is_merged)
