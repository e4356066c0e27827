"""What detectors find, as results (topology.model.result).

Its events are those that the detector named, or the one at which it told; `start_ns` is what the
detector said, or that event's time. It is uncertain where the event at which it was told may truly
lie before one that was read before it.

Proved by: tests/topology/speculate/test_operator.py
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.model.result import CONFIRMED, RETRACT, UNCERTAIN, UPDATE, DetectorResult
from topology.query.numbers import scalar_of
from topology.query.results import ResultEmitter
from topology.speculate.stands import Standing
from topology.speculate.unit import Record


class DetectorEmitter(ResultEmitter):
    """`standing`: where a result is to say how likely it stands; `newest_ns`: the newest event, and
    `watermark_ns`: W."""

    def __init__(
        self, stream: str, query: str, *, is_keyed: bool, standing: Standing | None = None
    ) -> None:
        super().__init__()
        self._standing = standing
        self.newest_ns = 0
        self.watermark_ns = 0
        self._stream = stream
        self._query = query
        self._is_keyed = is_keyed

    def tell(self, records: Sequence[Record]) -> None:
        for record in records:
            self.count(record.op)
            output = record.output
            stands_ppm = None if self._standing is None else self._stands(record)
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
                    stands_ppm=stands_ppm,
                )
            )

    def _stands(self, record: Record) -> int | None:
        """None of what is final, or taken back."""
        assert self._standing is not None
        cause_ns = record.output.cause[0]
        is_merged = cause_ns <= self.watermark_ns
        if record.op == RETRACT or (record.op == UPDATE and record.output.is_own):
            if not record.final:
                self._standing.changed(is_merged=is_merged)
            if record.op == RETRACT:
                return None
        if record.final:
            return None
        age_ns, ahead_ns = self.newest_ns - cause_ns, self.newest_ns - self.watermark_ns
        return self._standing.told(age_ns, ahead_ns, is_merged=is_merged)
