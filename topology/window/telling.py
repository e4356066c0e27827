"""Results of one query, as values; and how many there were."""

from __future__ import annotations

from topology.result import (
    CONFIRMED,
    EMIT,
    RETRACT,
    UNCERTAIN,
    UPDATE,
    WindowResult,
    result_id,
)
from topology.window.config import WindowConfig
from topology.window.frontier import Frontier
from topology.window.measure import Measured
from topology.window.numbers import scalar_of

NEW = -1
"""The revision before the first."""


class Teller:
    """Confirmed is what is sure, closed, and touched by no gap and no waiver that the frontier
    knows of. `results` waits for whoever takes it."""

    def __init__(self, stream: str, config: WindowConfig, frontier: Frontier) -> None:
        self._stream = stream
        self._query = config.query
        self._is_keyed = config.key is not None
        self._fingerprint = config.fingerprint
        self._frontier = frontier
        self.results: list[WindowResult] = []
        self.now_ns = 0
        self.emitted = 0
        self.updated = 0
        self.retracted = 0

    def tell(
        self,
        key: str,
        number: int,
        span_ns: tuple[int, int],
        revision: int,
        measured: Measured,
        *,
        is_closed: bool,
        is_final: bool,
    ) -> None:
        """`number` stands for the window among those of its key; `revision` is the last one
        told, NEW for none."""
        if revision == NEW:
            op = EMIT
            self.emitted += 1
        else:
            op = UPDATE
            self.updated += 1
        is_sure = is_closed and measured.is_sure and not self._frontier.is_incomplete(span_ns[1])
        result = self._result(key, number, span_ns, revision + 1, op)
        result.final = is_final
        result.confidence = CONFIRMED if is_sure else UNCERTAIN
        result.values, result.low, result.high = measured.values, measured.low, measured.high
        self.results.append(result)

    def retract(self, key: str, number: int, span_ns: tuple[int, int], revision: int) -> None:
        """The window is no more: its events belong to another. That is final."""
        self.retracted += 1
        result = self._result(key, number, span_ns, revision + 1, RETRACT)
        result.final = True
        self.results.append(result)

    def _result(
        self, key: str, number: int, span_ns: tuple[int, int], revision: int, op: str
    ) -> WindowResult:
        told_key = scalar_of(key) if self._is_keyed else None
        return WindowResult(
            self.now_ns,
            self._stream,
            self._query,
            result_id(self._fingerprint, key.encode(), str(number).encode()),
            op,
            revision,
            False,  # noqa: FBT003
            UNCERTAIN,
            span_ns[0],
            span_ns[1],
            {},
            key=told_key,
        )
