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

from typing import Any, Final

from topology.model.result import (
    EMIT,
    RETRACT,
    Finding,
    JoinResult,
    MatchResult,
    MatchSetResult,
    Member,
    Overflow,
    Result,
)
from topology.wire.json_lines import FIELDS, line_json, result_line

LARGE: Final = (
    "values",
    "key",
    "low",
    "high",
    "expected",
    "members",
    "ranges",
    "joined",
    "partners",
)
CONTENT: Final = {
    kind: [name for name in names if name in LARGE] for kind, (_, names) in FIELDS.items()
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
    op, last = result.op, _last_of(result)
    if op != EMIT:
        result.op = RETRACT
        for name in CONTENT[type(result)]:
            content = getattr(result, name)
            setattr(result, name, None if name == "key" else type(content)())
        left.append(result)
    if op != RETRACT:
        found_by = result.found_by
        left.append(Overflow(result.at_ns, result.stream, result.query, last, 0, found_by))


def _last_of(result: Result) -> Member | None:
    if isinstance(result, MatchSetResult):
        return result.ranges[-1].last if result.ranges else None
    if isinstance(result, MatchResult):
        return result.members[-1] if result.members else None
    if isinstance(result, JoinResult) and result.partners:
        last = result.partners[-1]
        return Member(last.alias, *last[2:])
    return None


def _chars(result: Result) -> int:
    """Return as many as its line has, or more."""
    size = HEAD_CHARS + len(result.stream) + len(result.query)
    left: list[Any] = [[getattr(result, name) for name in CONTENT[type(result)]]]
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
