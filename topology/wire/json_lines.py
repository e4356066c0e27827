"""Events, reports and results as the JSON objects of the black-box interface.

Kinds `event`, `gap`, `late`, `duplicate`, `dead`, `window`, `match`, `match_set`, `join`,
`overflow`; keys in the documented order, what is beyond them behind. Null means what is
unknown, also for an epoch that REORDER has not settled. Times are integer nanoseconds. `line` is
the line number of a replay; readers of Kafka have none and add topic, partition and offset instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeVar

import orjson

from topology.model.event import DATA, Event
from topology.model.outcome import Duplicate, Gap, Late, Malformed, Report, Step
from topology.model.payload import writable
from topology.model.result import (
    UPDATE,
    Finding,
    JoinResult,
    MatchResult,
    MatchSetResult,
    Member,
    MemberRange,
    Overflow,
    Result,
    WindowResult,
)

JsonObject = dict[str, Any]
Said = TypeVar("Said")

MEMBER: Final = ("alias", "source", "epoch", "seq", "ref_time")
PARTNER: Final = ("alias", "stream", "source", "epoch", "seq", "ref_time")
"""The names that a `Member` and a `Partner` have in a line, in the order of their fields."""


def _settled(epoch: int | None) -> int | None:
    return epoch if epoch is not None and epoch >= 0 else None


def event_line(event: Event) -> JsonObject:
    """A late one has its cause as `reason`, behind the documented keys."""
    line = {
        "kind": "event",
        "source": event.source,
        "seq": event.seq,
        "epoch": _settled(event.epoch),
        "stream": event.stream,
        "ts": event.ts_ns,
        "ref_time": event.ref_time_ns,
        "error": event.error_ns,
        "type": event.type,
        "payload": event.value,
        "late": event.late != "",
        "at": event.at_ns,
    }
    return line | {"reason": event.late} if event.late else line


def gap_line(gap: Gap) -> JsonObject:
    return {
        "kind": "gap",
        "stream": gap.stream,
        "source": gap.source,
        "epoch": _settled(gap.epoch),
        "first": gap.first,
        "last": gap.last,
        "reason": gap.reason,
        "at": gap.at_ns,
        "known_at": gap.known_at_ns,
        "ts_before": gap.ts_before_ns,
        "ts_after": gap.ts_after_ns,
    }


def _unordered(kind: str, event: Event, reason: str, at_ns: int, line: int | None) -> JsonObject:
    return {
        "kind": kind,
        "stream": event.stream,
        "source": event.source,
        "epoch": _settled(event.epoch),
        "seq": event.seq,
        "reason": reason,
        "line": line,
        "at": at_ns,
    }


def late_line(late: Late, line: int | None) -> JsonObject:
    """`by`: how late, ns; 0 where unknown."""
    return _unordered("late", late.event, late.reason, late.at_ns, line) | {"by": late.by_ns}


def duplicate_line(duplicate: Duplicate, line: int | None) -> JsonObject:
    """The reason is `conflict` where time, type or payload differ, else `copy`."""
    reason = "conflict" if duplicate.conflict else "copy"
    return _unordered("duplicate", duplicate.event, reason, duplicate.at_ns, line)


def dead_line(dead: Malformed, line: int | None) -> JsonObject:
    """`detail` says what was wrong and what to write instead."""
    return {
        "kind": "dead",
        "stream": dead.stream,
        "source": dead.source,
        "epoch": _settled(dead.epoch),
        "seq": dead.seq,
        "reason": dead.reason,
        "line": line,
        "at": dead.at_ns,
        "detail": dead.detail,
    }


def report_line(report: Report, *, replayed: bool) -> JsonObject:
    """Any report; `replayed`: offsets are line numbers."""
    match report:
        case Gap():
            return gap_line(report)
        case Late():
            return late_line(report, report.event.offset if replayed else None)
        case Duplicate():
            return duplicate_line(report, report.event.offset if replayed else None)
        case Malformed():
            return dead_line(report, report.offset if replayed else None)


def result_line(result: Finding) -> JsonObject:
    """A window, a match, a row of a join, or an overflow. `stream` comes after the documented
    keys; so do what is `expected` of a window, and a match's `key`."""
    if isinstance(result, Overflow):
        return {
            "kind": "overflow",
            "query": result.query,
            "event": None if result.member is None else _member(result.member),
            "shown": result.shown,
            "at": result.at_ns,
            "stream": result.stream,
        }
    if isinstance(result, WindowResult):
        return {
            **_head("window", result),
            "key": result.key,
            "start": result.start_ns,
            "end": result.end_ns,
            "values": result.values,
            "low": result.low,
            "high": result.high,
            "at": result.at_ns,
            "stream": result.stream,
            "expected": result.expected,
        }
    if isinstance(result, JoinResult):
        return {
            **_head("join", result),
            "key": result.key,
            "start": result.start_ns,
            "end": result.end_ns,
            "events": [dict(zip(PARTNER, each, strict=True)) for each in result.partners],
            "values": result.values,
            "probability": result.probability,
            "at": result.at_ns,
            "stream": result.stream,
        }
    if isinstance(result, MatchSetResult):
        return _match_set_line(result)
    assert isinstance(result, MatchResult)
    return {
        **_head("match", result),
        "start": result.start_ns,
        "end": result.end_ns,
        "events": [_member(member) for member in result.members],
        "values": result.values,
        "at": result.at_ns,
        "stream": result.stream,
        "key": result.key,
    }


def _match_set_line(result: MatchSetResult) -> JsonObject:
    """Only an update says what has `joined`."""
    line = {
        **_head("match_set", result),
        "start": result.start_ns,
        "end": result.end_ns,
        "count": result.count,
        "ranges": [_range(each) for each in result.ranges],
    }
    if result.op == UPDATE:
        line["joined"] = [_range(each) for each in result.joined]
    line |= {"at": result.at_ns, "stream": result.stream, "key": result.key}
    return line


def step_lines(step: Step) -> list[JsonObject]:
    """All outcomes of a replay's step, as `in_time` has them."""
    return in_time(step, partial(report_line, replayed=True), event_line, result_line)


def in_time(
    step: Step,
    report_as: Callable[[Report], Said],
    event_as: Callable[[Event], Said],
    result_as: Callable[[Finding], Said],
) -> list[Said]:
    """All outcomes in the order of their instant; at one instant reports come first, since they
    arise earlier in the chain, and results last."""
    outcomes = [(report.at_ns, report_as(report)) for report in step.reports]
    outcomes += [(event.at_ns, event_as(event)) for event in step.released if event.kind == DATA]
    outcomes += [(finding.at_ns, result_as(finding)) for finding in step.results]
    outcomes.sort(key=itemgetter(0))
    return [said for _, said in outcomes]


def line_json(line: JsonObject, option: int = 0) -> bytes:
    """As JSON, whatever its payload and values: what no JSON reader of 64 bits takes is null."""
    try:
        return orjson.dumps(line, option=option)
    except TypeError:  # an integer too large, or nested too deep
        return orjson.dumps(writable(line), option=option)


def _member(member: Member) -> JsonObject:
    return dict(zip(MEMBER, member, strict=True))


def _range(members: MemberRange) -> JsonObject:
    first, last = _member(members.first), _member(members.last)
    del first["alias"], last["alias"]
    return {"alias": members.alias, "count": members.size, "first": first, "last": last}


def _head(kind: str, result: Result) -> JsonObject:
    return {
        "kind": kind,
        "id": result.id,
        "query": result.query,
        "op": result.op,
        "revision": result.revision,
        "final": result.final,
        "confidence": result.confidence,
    }
