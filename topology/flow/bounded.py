"""BOUNDED: a result that no topic takes is none, and its query overflows.

Values are as large as payloads, and there may be many in a result: what two events of a source
make may be beyond the bound that each of them keeps. A result whose line has more than
`topics.max_record_bytes` is left out, and an `Overflow` of its query says so. What was emitted of
it before is retracted, with nothing in it but who it is; a later revision that is small again is as
any other. Sources' names, keys and events count as values do.

What leaves follows from the result alone, so a replay leaves out the same.

Cost: a look at each value of a result, and its line once more where it may be too large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from topology.model.result import (
    EMIT,
    RETRACT,
    DetectorResult,
    Finding,
    JoinResult,
    MatchResult,
    MatchSetResult,
    Member,
    Overflow,
    Result,
    WindowResult,
)
from topology.wire.json_lines import line_json, result_line

CONTENT: Final[Mapping[type[Result], Sequence[str]]] = {
    WindowResult: ("values", "key", "low", "high", "expected"),
    MatchResult: ("values", "key", "members"),
    DetectorResult: ("values", "key", "members"),
    MatchSetResult: ("values", "key", "ranges", "joined"),
    JoinResult: ("values", "key", "partners"),
}
"""The fields of a result that may be large, and are left out of a retraction."""

NESTED: Final = (dict, list, tuple)
HEAD_CHARS: Final = 400
"""The most that every line has besides the content."""
PLAIN_CHARS: Final = 30
"""A number, and what is around it."""
BYTES_PER_CHAR: Final = 6
"""At most: JSON has an escape for what is not to be written."""


def bounded(found: list[Finding], most_bytes: int) -> list[Finding]:
    """Return the findings that are not too large, and what is said instead of the others."""
    most_chars = most_bytes // BYTES_PER_CHAR
    left: list[Finding] = []
    for each in found:
        if (
            isinstance(each, Result)
            and _chars(each) > most_chars
            and len(line_json(result_line(each))) > most_bytes
        ):
            _take_away(each, left)
        else:
            left.append(each)
    return left


def _take_away(result: Result, left: list[Finding]) -> None:
    event, found_by = _last_of(result), result.found_by
    overflow = Overflow(result.at_ns, result.stream, result.query, event, 0, found_by)
    is_known, was_retract = result.op != EMIT, result.op == RETRACT
    if is_known:
        result.op = RETRACT
        for name in CONTENT[type(result)]:
            content = getattr(result, name)
            setattr(result, name, None if name == "key" else type(content)())
        left.append(result)
    if not was_retract:
        left.append(overflow)


def _last_of(result: Result) -> Member | None:
    if isinstance(result, MatchSetResult):
        return result.ranges[-1].last if result.ranges else None
    if isinstance(result, MatchResult):
        return result.members[-1] if result.members else None
    if isinstance(result, JoinResult) and result.partners:
        last = result.partners[-1]
        return Member(last.alias, last.source, last.epoch, last.seq, last.ref_time_ns)
    return None


def _chars(result: Result) -> int:
    """Return as many as its line has, or more."""
    parts = [getattr(result, name) for name in CONTENT[type(result)]]
    return HEAD_CHARS + len(result.stream) + len(result.query) + _of_parts(parts)


def _of_parts(value: Any) -> int:
    size = 0
    left = [value]
    while left:
        each = left.pop()
        parts = [*each, *each.values()] if isinstance(each, dict) else each
        size += PLAIN_CHARS * len(parts)
        for part in parts:
            if isinstance(part, str):
                size += len(part)
            elif isinstance(part, NESTED):
                left.append(part)
    return size
