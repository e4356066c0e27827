"""Results of one query, as values; and how many there were.

Proved by: tests/topology/window/test_examples.py, tests/topology/window/test_finality.py
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, NamedTuple

from topology.model.result import (
    CONFIRMED,
    EMIT,
    RETRACT,
    UNCERTAIN,
    UPDATE,
    WindowResult,
    result_id,
)
from topology.query.frontier import Frontier
from topology.query.numbers import scalar_of
from topology.window.config import WindowConfig
from topology.window.unsure.measure import Measured

DIGEST_BYTES: Final = 6


class Told(NamedTuple):
    """What was said of a window last: its revision, and all else by digest."""

    revision: int
    digest: int


class Teller:
    """Confirmed is what is sure, closed, and touched by no gap and no waiver that the frontier
    knows of. What says nothing that was not said before is not told again. `results` waits for
    whoever takes it."""

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
        before: Told | None,
        measured: Measured,
        *,
        is_closed: bool,
        is_final: bool,
    ) -> Told:
        """`number` stands for the window among those of its key; `before` is what was told of it
        last."""
        is_sure = is_closed and measured.is_sure and not self._frontier.is_incomplete(span_ns[1])
        confidence = CONFIRMED if is_sure else UNCERTAIN
        digest = _digest(span_ns, measured, is_sure=is_sure, is_final=is_final)
        if before is not None and before.digest == digest:
            return before
        if before is None:
            op, revision = EMIT, 0
            self.emitted += 1
        else:
            op, revision = UPDATE, before.revision + 1
            self.updated += 1
        result = self._result(key, number, span_ns, revision, op)
        result.final = is_final
        result.confidence = confidence
        result.values, result.expected = measured.values, measured.expected
        result.low, result.high = measured.low, measured.high
        self.results.append(result)
        return Told(revision, digest)

    def retract(self, key: str, number: int, span_ns: tuple[int, int], told: Told) -> None:
        """The window is no more: its events belong to another. That is final."""
        self.retracted += 1
        result = self._result(key, number, span_ns, told.revision + 1, RETRACT)
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


def _digest(span_ns: tuple[int, int], measured: Measured, *, is_sure: bool, is_final: bool) -> int:
    """Equal for what is equal; the same in every run. Sure values are their own bounds, and what is
    expected: most are sure, and the same numbers need not be written four times."""
    said: list[Any] = [*span_ns, is_sure, is_final, measured.is_sure, *measured.values.values()]
    if not measured.is_sure:
        for others in (measured.low, measured.high, measured.expected):
            said += others.values()
    digest = blake2b(repr(said).encode(), digest_size=DIGEST_BYTES).digest()
    return int.from_bytes(digest, "big")
