"""HELD: results that wait to be told, and those whose revisions are counted anew since they did.

Only what was not told yet waits: an emit. Updates and retracts of what was told pass at once, so
nothing wrong is left standing. What waits is told once it is final, or when all is released; one
that is taken back meanwhile nobody hears of.

A result that has waited has revisions of its own, without a hole, until it is final or until they
are the operator's again; nothing is kept for others.

A result is kept as a plain value. One that no codec carries, deeper than `MAX_DEPTH` or with an
integer beyond 64 bit, is not kept but told.

Bounds: `MAX_HELD` results and `MAX_HELD_BYTES`; what comes beyond is told as it comes. Where there
is no room for another, the first half of those that do not stand is forgotten, by their ends;
should one of these come again, its revisions go on with a hole.

What leaves follows from what is kept, never from the order in which it came to be kept.

Cost: a microsecond for a result; one that waits besides, the size of it.

Proved by: tests/topology/flow/test_held.py, tests/topology/flow/test_answers.py
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from topology.model.operator import Plain
from topology.model.result import (
    EMIT,
    RETRACT,
    UPDATE,
    Finding,
    JoinResult,
    MatchResult,
    MatchSetResult,
    Member,
    MemberRange,
    Partner,
    Result,
    WindowResult,
)

MAX_HELD: Final = 10_000
MAX_HELD_BYTES: Final = 4 << 20
"""What waits of a query takes no more, as it is written down, nearly."""
MAX_DEPTH: Final = 64

_NUMBER_BYTES: Final = 9
_FITS: Final = 1 << 63
_SHAPES: Final = {
    each.__name__: each for each in (WindowResult, MatchResult, MatchSetResult, JoinResult)
}
_FIELDS: Final = {name: [each.name for each in fields(shape)] for name, shape in _SHAPES.items()}


class Waiting:
    """`revision`: of what was told last, -1 for nothing; `result`: what waits, None if nothing
    does, and its size; `end_ns`: as it was found last."""

    __slots__ = ("end_ns", "result", "revision", "size_bytes")

    def __init__(self, revision: int, end_ns: int) -> None:
        self.revision = revision
        self.end_ns = end_ns
        self.result: Result | None = None
        self.size_bytes = 0


class Held:
    """What one query keeps."""

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        self.changed: dict[str, None] | None = None
        """Ids of which `waiting` says something else than when this was last emptied; None:
        nobody asks."""
        self.results = self.size_bytes = 0
        """That wait."""
        self.told_at_once = 0
        """That were to wait, and for which there was no room; no part of the state."""
        self._taken_back: dict[str, None] = {}
        """Ids of those that do not stand."""

    def take(self, result: Result, left: list[Finding], *, waits: bool) -> None:
        """What leaves goes into `left`."""
        known = self.waiting.get(result.id)
        if known is not None:
            self._take_again(known, result, left, waits=waits)
        elif not waits or result.final or result.op != EMIT:
            left.append(result)
        else:
            known = Waiting(result.revision - 1, result.end_ns)
            if self._has_place() and self._keep(known, result):
                self.waiting[result.id] = known
                self._note(result.id)
            else:
                self.told_at_once += 1
                left.append(result)

    def _take_again(
        self, known: Waiting, result: Result, left: list[Finding], *, waits: bool
    ) -> None:
        id_, revision = result.id, result.revision
        self._note(id_)
        self._taken_back.pop(id_, None)
        known.end_ns = result.end_ns
        waited = known.result is not None
        self._let_go(known)
        if result.op == RETRACT:
            self._taken_back[id_] = None
            if not waited:
                _tell(known, result, RETRACT, left)
        elif not waited and result.op == UPDATE:
            _tell(known, result, UPDATE, left)
        elif not waits or result.final:
            _tell(known, result, EMIT, left)
        elif not self._keep(known, result):
            self.told_at_once += 1
            _tell(known, result, EMIT, left)
        if result.final or (known.result is None and known.revision == revision):
            self._forget(id_)  # final, or as the operator counts again

    def release(self, now_ns: int, left: list[Finding]) -> None:
        """Tell all that waits."""
        due = [(each.end_ns, id_) for id_, each in self.waiting.items() if each.result is not None]
        for _, id_ in sorted(due):
            known = self.waiting[id_]
            result = known.result
            assert result is not None
            self._let_go(known)
            revision, result.at_ns = result.revision, now_ns
            _tell(known, result, EMIT, left)
            self._note(id_)
            if known.revision == revision:
                self._forget(id_)

    def _has_place(self) -> bool:
        if len(self.waiting) >= MAX_HELD:
            gone = sorted((self.waiting[id_].end_ns, id_) for id_ in self._taken_back)
            for _, id_ in gone[: (len(gone) + 1) // 2]:
                self._forget(id_)
        return len(self.waiting) < MAX_HELD

    def _keep(self, known: Waiting, result: Result) -> bool:
        size_bytes = _size_of(result)
        if size_bytes < 0 or self.size_bytes + size_bytes > MAX_HELD_BYTES:
            return False
        known.result, known.size_bytes = result, size_bytes
        self.results += 1
        self.size_bytes += size_bytes
        return True

    def _let_go(self, known: Waiting) -> None:
        if known.result is not None:
            self.results -= 1
            self.size_bytes -= known.size_bytes
            known.result, known.size_bytes = None, 0

    def _forget(self, id_: str) -> None:
        del self.waiting[id_]
        self._taken_back.pop(id_, None)
        self._note(id_)

    def _note(self, id_: str) -> None:
        if self.changed is not None:
            self.changed[id_] = None

    def dump(self, id_: str) -> Plain:
        """None if nothing is kept of it."""
        each = self.waiting.get(id_)
        if each is None:
            return None
        result = None if each.result is None else _dumped(each.result)
        return [each.revision, each.end_ns, id_ in self._taken_back, result]

    def load(self, id_: str, plain: Plain) -> None:
        revision, end_ns, is_taken_back, result = plain
        known = self.waiting[id_] = Waiting(revision, end_ns)
        if is_taken_back:
            self._taken_back[id_] = None
        if result is not None:
            known.result = _loaded(result)
            known.size_bytes = max(_size_of(known.result), 0)
            self.results += 1
            self.size_bytes += known.size_bytes


def _tell(known: Waiting, result: Result, op: str, left: list[Finding]) -> None:
    known.revision += 1
    result.op, result.revision = op, known.revision
    left.append(result)


def _size_of(result: Result) -> int:
    """Bytes, nearly; -1 if it cannot be kept."""
    size_bytes = 0
    for name in _FIELDS[type(result).__name__]:
        more_bytes = _size_of_value(getattr(result, name), MAX_DEPTH)
        if more_bytes < 0:
            return -1
        size_bytes += more_bytes
    return size_bytes


def _size_of_value(value: Any, depth: int) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else 4 * len(value)
    if isinstance(value, int):
        return _NUMBER_BYTES if -_FITS <= value < _FITS else -1
    if value is None or isinstance(value, float):
        return _NUMBER_BYTES
    if depth == 0:
        return -1
    if isinstance(value, dict):
        parts = [each for pair in value.items() for each in pair]
    elif isinstance(value, list | tuple):
        parts = list(value)
    else:
        return -1
    size_bytes = len(parts)
    for each in parts:
        more_bytes = _size_of_value(each, depth - 1)
        if more_bytes < 0:
            return -1
        size_bytes += more_bytes
    return size_bytes


def _dumped(result: Result) -> Plain:
    names = _FIELDS[type(result).__name__]
    return [type(result).__name__, *[getattr(result, name) for name in names]]


def _loaded(plain: Plain) -> Result:
    shape, *parts = plain
    found = dict(zip(_FIELDS[shape], parts, strict=True))
    if "members" in found:
        found["members"] = [Member(*each) for each in found["members"]]
    if "partners" in found:
        found["partners"] = [Partner(*each) for each in found["partners"]]
    for name in ("ranges", "joined"):
        if name in found:
            found[name] = [_range(each) for each in found[name]]
    result: Result = _SHAPES[shape](**found)
    return result


def _range(plain: Plain) -> MemberRange:
    alias, size, first, last = plain
    return MemberRange(alias, size, Member(*first), Member(*last))
