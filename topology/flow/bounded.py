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
    WindowResult,
)
from topology.wire.json_lines import line_json, result_line

HEAD_CHARS: Final = 200
"""At most, of what is in every line, and of a member besides its name."""
PLAIN_CHARS: Final = 30
"""A number, and what is around it."""
BYTES_PER_CHAR: Final = 6
"""At most: JSON has an escape for what is not to be written."""


def bounded(found: list[Finding], most_bytes: int) -> list[Finding]:
    """What of it is not too large, and what is said of the others."""
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
        _empty(result)
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


def _empty(result: Result) -> None:
    result.values = {}
    if isinstance(result, WindowResult):
        result.key, result.low, result.high, result.expected = None, {}, {}, {}
    elif isinstance(result, MatchSetResult):
        result.key, result.ranges, result.joined = None, [], []
    elif isinstance(result, MatchResult):
        result.key, result.members = None, []
    elif isinstance(result, JoinResult):
        result.key, result.partners = None, []


def _chars(result: Result) -> int:
    """As many as its line has, or more."""
    size = 2 * HEAD_CHARS + len(result.stream) + len(result.query) + _of_values(result.values)
    if isinstance(result, WindowResult):
        size += _of_value(result.key)
        for values in (result.low, result.high, result.expected):
            size += _of_values(values)
    elif isinstance(result, MatchSetResult):
        size += _of_value(result.key)
        for each in (*result.ranges, *result.joined):
            size += 2 * HEAD_CHARS + len(each.first.source) + len(each.last.source)
    elif isinstance(result, MatchResult):
        size += _of_value(result.key)
        for member in result.members:
            size += HEAD_CHARS + len(member.source)
    elif isinstance(result, JoinResult):
        size += _of_value(result.key)
        for partner in result.partners:
            size += HEAD_CHARS + len(partner.source) + len(partner.stream)
    return size


def _of_values(values: dict[str, Any]) -> int:
    size = 0
    for name, value in values.items():
        size += PLAIN_CHARS + len(name)
        if isinstance(value, str | dict | list | tuple):
            size += _of_value(value)
    return size


def _of_value(value: Any) -> int:
    size = 0
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, dict):
            left += each.keys()
            left += each.values()
        elif isinstance(each, list | tuple):
            left += each
        size += PLAIN_CHARS
    return size
