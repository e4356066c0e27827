"""Makes the results of one window query, and counts them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from topology.answer.frontier import Frontier
from topology.answer.query.numbers import scalar_of
from topology.answer.query.results import NO_NEWS, CurrentResult, ResultEmitter, confidence_of
from topology.base.result import EMIT, UNCERTAIN, ResultIds, WindowResult, frame
from topology.queries.window.settings import WindowQuery
from topology.queries.window.unsure.measure import Measured, Named
from topology.state.saved import FLAG, INT, record

DIGEST_BYTES: Final = 6


Current = CurrentResult[int]
"""A current result; its content is a digest of everything in the result except its revision."""


class WindowEmitter(ResultEmitter):
    """An emitter of window results.

    A result is confirmed if it is certain, its window is closed, and no event of the window may be
    missing.
    """

    def __init__(self, stream: str, query: WindowQuery, frontier: Frontier) -> None:
        super().__init__(stream, query.name, is_keyed=query.key is not None)
        self._names = [*query.outputs]
        self._ids = ResultIds(frame(query.fingerprint()))
        self._frontier = frontier
        self.prefix = ""
        """A prefix of the numbers that identify windows."""

    def emit(
        self,
        key: str,
        number: int,
        span_ns: tuple[int, int],
        before: Current | None,
        measured: Measured,
        *,
        is_closed: bool,
        is_final: bool,
        is_proven: bool,
    ) -> Current:
        """Emit the result of a window if it is new or has changed; return the current result.

        `number` identifies the window among those of its key. `before` is its current result, which
        is updated and returned; if it is None, a new one is made. `is_proven`: whether events
        decided the result, not only the end of the input. The end alone makes no result certain or
        final, so it is no reason to emit one once more.
        """
        is_incomplete = self._frontier.is_incomplete(span_ns[1])
        is_sure = is_proven and is_closed and measured.is_sure and not is_incomplete
        is_final = is_final and is_proven
        digest = _digest(span_ns, measured, is_sure=is_sure, is_final=is_final)
        current = CurrentResult(digest) if before is None else before
        op = current.show(digest, is_news=current.content != digest, is_final=is_final)
        if op == NO_NEWS:
            return current
        confidence = confidence_of(is_sure=is_sure, is_proven=is_proven)
        self._put(key, self._name(number), span_ns, op, current, confidence, measured[:4])
        return current

    def emit_plain(
        self,
        keys: Sequence[str],
        values_of: Sequence[list[Any]],
        start_ns: int,
        end_ns: int,
        *,
        is_final: bool,
    ) -> bool:
        """Emit the results of windows that have none yet, and return whether these are certain.

        The results equal those of `emit`. The windows must be certain, closed, and identified by
        their starts.
        """
        is_sure = not self._frontier.is_incomplete(end_ns)
        is_proven = end_ns <= self._frontier.proven_ns
        confidence = confidence_of(is_sure=is_sure, is_proven=is_proven)
        named, current = self._name(start_ns), CurrentResult(0, 0, live=True, final=is_final)
        for key, said in zip(keys, values_of, strict=True):
            values = {name: said[i] for i, name in enumerate(self._names)}
            four = values, values, values, values
            self._put(key, named, (start_ns, end_ns), EMIT, current, confidence, four)
        return is_sure

    def retract(
        self,
        key: str,
        number: int,
        span_ns: tuple[int, int],
        current: Current,
        *,
        is_final: bool = True,
    ) -> None:
        """Retract the result of a window whose events now belong to another, or that is open again.

        If the window is open again, the retraction is not final.
        """
        op = current.retract(is_final=is_final)
        self._put(key, self._name(number), span_ns, op, current, UNCERTAIN, ({}, {}, {}, {}))

    def _name(self, number: int) -> bytes:
        """Return the bytes that distinguish a window from others of its key."""
        return frame(f"{self.prefix}{number}".encode())

    def _put(
        self,
        key: str,
        named: bytes,
        span_ns: tuple[int, int],
        op: str,
        current: Current,
        confidence: str,
        four: tuple[Named, Named, Named, Named],
    ) -> None:
        """Add a result; `four` has its values, lower bounds, upper bounds and expected values."""
        values, low, high, expected = four
        self.add(
            WindowResult(
                self.now_ns,
                self._stream,
                self._query,
                self._ids.of(frame(key.encode()) + named),
                op,
                current.revision,
                current.final,
                confidence,
                span_ns[0],
                span_ns[1],
                values,
                scalar_of(key) if self._is_keyed else None,
                low,
                high,
                expected,
            )
        )


def make_plain_result(span_ns: tuple[int, int], measured: Measured, *, is_sure: bool) -> Current:
    """Return the current result, not final, that `emit` would have made for a plain window."""
    return current_of(0, _digest(span_ns, measured, is_sure=is_sure, is_final=False))


def current_of(revision: int, content: int, live: bool = True) -> Current:
    return CurrentResult(content, revision, live=live)


CURRENT: Final = record(current_of, revision=INT, content=INT, live=FLAG)


def _digest(span_ns: tuple[int, int], measured: Measured, *, is_sure: bool, is_final: bool) -> int:
    """Return a digest that is equal for equal results, and the same in every run.

    Certain values equal their bounds and expected values, and most values are certain. So the
    digest does not repeat them four times.
    """
    values, *others = measured[:4]
    is_alone = measured.is_sure or all(other == values for other in others)
    content: list[Any] = [*span_ns, is_sure, is_final, is_alone, *values.values()]
    if not is_alone:
        for other in others:
            content += other.values()
    digest = blake2b(repr(content).encode(), digest_size=DIGEST_BYTES).digest()
    return int.from_bytes(digest, "big")
