"""Replaces a result that is too large for its topic by an `Overflow` of its query.

A result may contain several values, each as large as a payload. So a result of two events may
exceed the bound, although each of the events respects it. A result whose line has more than
`topics.max_record_bytes` is left out, and an `Overflow` of its query reports this. An earlier
revision that was emitted is retracted; the retraction only identifies the result. A later revision
that fits is emitted as usual. The names of sources, the keys and the events count like values.

The decision depends on the result alone, so a replay leaves out the same results.

Cost: O(values) per result. A result that may be too large is written as a line once more.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from topology.base.result import (
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
from topology.records.json_lines import FIELDS, encode_line, make_result_line

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
"""The fields of each kind of result that may be large; a retraction leaves them out."""
CONTENT_OF: Final = {kind: attrgetter(*names) for kind, names in CONTENT.items() if len(names) > 1}
"""A function for each kind of result that returns the values of these fields."""

NESTED: Final = (dict, list, tuple)
HEAD_CHARS: Final = 400
"""The maximum number of characters in a line apart from its content and its names."""
PLAIN_CHARS: Final = 30
"""The maximum number of characters in a number with its separators."""
BYTES_PER_CHAR: Final = 6
"""The maximum number of bytes that JSON takes for a character, which may be escaped."""


def replace_large(found: list[Finding], most_bytes: int) -> list[Finding]:
    """Return the findings, without those that are too large.

    Each finding that is too large is replaced by a retraction of its earlier revision, an overflow,
    or both.
    """
    most_chars = most_bytes // BYTES_PER_CHAR
    left: list[Finding] = []
    for each in found:
        if (
            isinstance(each, Result)
            and _max_chars(each) > most_chars
            and len(encode_line(make_result_line(each))) > most_bytes
        ):
            _replace(each, left)
        else:
            left.append(each)
    return left


def _replace(result: Result, left: list[Finding]) -> None:
    op, last = result.op, _last_member(result)
    if op != EMIT:
        result.op = RETRACT
        for name in CONTENT[type(result)]:
            content = getattr(result, name)
            setattr(result, name, None if name == "key" else type(content)())
        left.append(result)
    if op != RETRACT:
        found_by = result.found_by
        left.append(Overflow(result.at_ns, result.stream, result.query, last, 0, found_by))


def _last_member(result: Result) -> Member | None:
    if isinstance(result, MatchSetResult):
        return result.ranges[-1].last if result.ranges else None
    if isinstance(result, MatchResult):
        return result.members[-1] if result.members else None
    if isinstance(result, JoinResult) and result.partners:
        last = result.partners[-1]
        return Member(last.alias, *last[2:])
    return None


def _max_chars(result: Result) -> int:
    """Return an upper bound of the number of characters in the result's line."""
    size = HEAD_CHARS + len(result.stream) + len(result.query)
    left: list[Any] = [CONTENT_OF[type(result)](result)]
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
