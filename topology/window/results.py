"""Results of one query, as values; and how many there were."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from topology.answer.frontier import Frontier
from topology.model.kept import FLAG, INT, record
from topology.model.result import EMIT, UNCERTAIN, ResultIds, WindowResult, framed
from topology.query.beginning import QueryBeginning
from topology.query.numbers import scalar_of
from topology.query.results import NO_NEWS, CurrentResult, ResultEmitter, confidence_of
from topology.window.settings import WindowSettings, fingerprint
from topology.window.unsure.measure import Measured, Named

DIGEST_BYTES: Final = 6


Current = CurrentResult[int]
"""Its content is a digest of all that a result holds besides its revision."""


class WindowEmitter(ResultEmitter):
    """A result is confirmed if it is sure, closed, and touched by no gap and no waiver that the
    frontier knows of."""

    def __init__(
        self, stream: str, query: WindowSettings, frontier: Frontier, beginning: QueryBeginning
    ) -> None:
        """What begins before `since_ns` of the `beginning` is not emitted."""
        super().__init__()
        self._stream = stream
        self._query = query.name
        self._is_keyed = query.key is not None
        self._names = [*query.outputs]
        self._ids = ResultIds(framed(fingerprint(query)))
        self._frontier = frontier
        self.beginning = beginning
        self.prefix = ""
        """Numbers that identify windows."""

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
        """`number` identifies the window among those of its key; `before` is its current result,
        which is given back, or a new one. `is_proven`: not by the end of the input alone."""
        is_sure = is_closed and measured.is_sure and not self._frontier.is_incomplete(span_ns[1])
        digest = _digest(span_ns, measured, is_sure=is_sure, is_final=is_final)
        current = CurrentResult(digest) if before is None else before
        op = current.show(digest, is_news=current.content != digest, is_final=is_final)
        if op == NO_NEWS:
            return current
        confidence = confidence_of(is_sure=is_sure, is_proven=is_proven)
        self._put(key, self._named(number), span_ns, op, current, confidence, measured[:4])
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
        """As `emit`, of windows that were not emitted before and are sure, closed and known by
        their start. True if they are confirmed."""
        is_sure = not self._frontier.is_incomplete(end_ns)
        is_proven = end_ns <= self._frontier.proven_ns
        confidence = confidence_of(is_sure=is_sure, is_proven=is_proven)
        named = self._named(start_ns)
        for key, said in zip(keys, values_of, strict=True):
            values = {name: said[i] for i, name in enumerate(self._names)}
            result = WindowResult(  # Not by `_put`: this is the plain way.
                self.now_ns,
                self._stream,
                self._query,
                self._ids.of(framed(key.encode()) + named),
                EMIT,
                0,
                is_final,
                confidence,
                start_ns,
                end_ns,
                values,
                scalar_of(key) if self._is_keyed else None,
                values,
                values,
                values,
            )
            self.results.append(result)
        self.counts[EMIT] += len(keys)
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
        """The window is no more: its events belong to another. Not final: it is open again."""
        op = current.retract(is_final=is_final)
        self._put(key, self._named(number), span_ns, op, current, UNCERTAIN, ({}, {}, {}, {}))

    def _named(self, number: int) -> bytes:
        """Return what distinguishes a window from others of its key."""
        return framed(f"{self.prefix}{number}".encode())

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
        """`four`: values, low, high and what is expected."""
        values, low, high, expected = four
        self.counts[op] += 1
        self.results.append(
            WindowResult(
                self.now_ns,
                self._stream,
                self._query,
                self._ids.of(framed(key.encode()) + named),
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


def emitted_plain(span_ns: tuple[int, int], measured: Measured, *, is_sure: bool) -> Current:
    """What `emit` would have given where `emit_plain` emitted this, not final."""
    return current_of(0, _digest(span_ns, measured, is_sure=is_sure, is_final=False))


def current_of(revision: int, content: int, live: bool = True) -> Current:
    return CurrentResult(content, revision, live=live)


CURRENT: Final = record(current_of, revision=INT, content=INT, live=FLAG)


def _digest(span_ns: tuple[int, int], measured: Measured, *, is_sure: bool, is_final: bool) -> int:
    """Equal for what is equal; the same in every run. Sure values are their own bounds, and what is
    expected: most are sure, and the same numbers need not be written four times."""
    values, *others = measured[:4]
    is_alone = measured.is_sure or all(other == values for other in others)
    content: list[Any] = [*span_ns, is_sure, is_final, is_alone, *values.values()]
    if not is_alone:
        for other in others:
            content += other.values()
    digest = blake2b(repr(content).encode(), digest_size=DIGEST_BYTES).digest()
    return int.from_bytes(digest, "big")
