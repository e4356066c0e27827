"""Events, reports and results to the JSON objects of the black-box interface.

The kinds are `event`, `gap`, `late`, `duplicate`, `dead`, `window`, `match`, `match_set`, `join`,
and `overflow`. Documented keys come first, in the documented order; all others follow. Null means
unknown, as for an epoch that REORDER has not settled. Times are integer nanoseconds. `line` is the
line number of a replay. Readers of Kafka have none, and add topic, partition and offset.
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

KEYED: Final = (WindowResult, JoinResult)
"""The results whose key comes before their times."""

MEMBER: Final = ("alias", "source", "epoch", "seq", "ref_time")
PARTNER: Final = ("alias", "stream", "source", "epoch", "seq", "ref_time")
"""The names of the fields of a `Member` and of a `Partner` in a line."""


def _settled(epoch: int | None) -> int | None:
    return epoch if epoch is not None and epoch >= 0 else None


def event_line(event: Event) -> JsonObject:
    """Return the line of an event. A late one also has its cause as `reason`."""
    line: JsonObject = {
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
    if event.late:
        line["reason"] = event.late
    return line


def report_line(report: Report, *, replayed: bool) -> JsonObject:
    """Return the line of a report. `replayed`: offsets are line numbers.

    `by` of a late event is 0 where unknown. A duplicate is a `conflict` if time, type or payload
    differ. `detail` of a dead letter says what is wrong and what to write instead.
    """
    match report:
        case Gap():
            return {
                "kind": "gap",
                "stream": report.stream,
                "source": report.source,
                "epoch": _settled(report.epoch),
                "first": report.first,
                "last": report.last,
                "reason": report.reason,
                "at": report.at_ns,
                "known_at": report.known_at_ns,
                "ts_before": report.ts_before_ns,
                "ts_after": report.ts_after_ns,
            }
        case Late():
            line = _unordered("late", report, report.event, report.reason, replayed)
            line["by"] = report.by_ns
            return line
        case Duplicate():
            reason = "conflict" if report.conflict else "copy"
            return _unordered("duplicate", report, report.event, reason, replayed)
        case Malformed():
            line = _unordered("dead", report, report, report.reason, replayed)
            line["detail"] = report.detail
            return line


def _unordered(
    kind: str, report: Report, item: Event | Malformed, reason: str, is_replayed: bool
) -> JsonObject:
    return {
        "kind": kind,
        "stream": item.stream,
        "source": item.source,
        "epoch": _settled(item.epoch),
        "seq": item.seq,
        "reason": reason,
        "line": item.offset if is_replayed else None,
        "at": report.at_ns,
    }


def result_line(result: Finding) -> JsonObject:
    """Return the line of a window, a match, a row of a join, or an overflow.

    Only an update says what has `joined` a set of matches.
    """
    found: JsonObject
    match result:
        case WindowResult():
            found = {"values": result.values, "low": result.low, "high": result.high}
            line = _result("window", result, found)
            line["expected"] = result.expected
            return line
        case Overflow():
            return {
                "kind": "overflow",
                "query": result.query,
                "event": None if result.member is None else _member(result.member),
                "shown": result.shown,
                "at": result.at_ns,
                "stream": result.stream,
            }
        case JoinResult():
            events = [dict(zip(PARTNER, each, strict=True)) for each in result.partners]
            found = {"events": events, "values": result.values, "probability": result.probability}
            return _result("join", result, found)
        case MatchSetResult():
            found = {"count": result.count, "ranges": [_range(each) for each in result.ranges]}
            if result.op == UPDATE:
                found["joined"] = [_range(each) for each in result.joined]
            line = _result("match_set", result, found)
        case _:
            assert isinstance(result, MatchResult)
            events = [_member(member) for member in result.members]
            line = _result("match", result, {"events": events, "values": result.values})
    line["key"] = result.key
    return line


def _result(kind: str, result: Result, found: JsonObject) -> JsonObject:
    line: JsonObject = {
        "kind": kind,
        "id": result.id,
        "query": result.query,
        "op": result.op,
        "revision": result.revision,
        "final": result.final,
        "confidence": result.confidence,
    }
    if isinstance(result, KEYED):
        line["key"] = result.key
    line["start"] = result.start_ns
    line["end"] = result.end_ns
    line.update(found)
    line["at"] = result.at_ns
    line["stream"] = result.stream
    return line


def _member(member: Member) -> JsonObject:
    return dict(zip(MEMBER, member, strict=True))


def _range(members: MemberRange) -> JsonObject:
    first, last = _member(members.first), _member(members.last)
    del first["alias"], last["alias"]
    return {"alias": members.alias, "count": members.size, "first": first, "last": last}


def step_lines(step: Step) -> list[JsonObject]:
    """Return the lines of a replay's step, in the order of `in_time`."""
    return in_time(step, partial(report_line, replayed=True), event_line, result_line)


def in_time(
    step: Step,
    report_as: Callable[[Report], Said],
    event_as: Callable[[Event], Said],
    result_as: Callable[[Finding], Said],
) -> list[Said]:
    """Return all outcomes in the order of their instant. At one instant reports come first, since
    they arise earlier in the chain, and results last."""
    outcomes = [(report.at_ns, report_as(report)) for report in step.reports]
    outcomes += [(event.at_ns, event_as(event)) for event in step.released if event.kind == DATA]
    outcomes += [(finding.at_ns, result_as(finding)) for finding in step.results]
    outcomes.sort(key=itemgetter(0))
    return [said for _, said in outcomes]


def line_json(line: JsonObject, option: int = 0) -> bytes:
    """Return any line as JSON. A value that no JSON reader of 64 bits takes becomes null."""
    try:
        return orjson.dumps(line, option=option)
    except TypeError:  # An integer is too large, or the line is nested too deep.
        return orjson.dumps(writable(line), option=option)
