"""Converts events, reports and results to JSON objects, called lines, in the documented format.

The kinds are `event`, `gap`, `late`, `duplicate`, `dead`, `window`, `match`, `match_set`, `join`,
and `overflow`. Documented keys come first, in the documented order; all others follow. Null means
unknown, for example an epoch that REORDER has not assigned. Times are integer nanoseconds. `line`
is the line number in a replay. Readers of Kafka replace it by topic, partition and offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeVar

import orjson

from topology.base.event import DATA, Event
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Report, Step
from topology.base.payload import to_writable
from topology.base.result import (
    UPDATE,
    DetectorResult,
    Finding,
    JoinResult,
    MatchResult,
    MatchSetResult,
    Member,
    MemberRange,
    Overflow,
    WindowResult,
)

JsonObject = dict[str, Any]
Said = TypeVar("Said")

HEAD: Final = ("id", "query", "op", "revision", "final", "confidence")
SPAN: Final = ("start_ns", "end_ns")
TAIL: Final = ("at_ns", "stream")
MATCH: Final = (*HEAD, *SPAN, "members", "values", *TAIL, "key")
GAP: Final = ("stream", "source", "epoch", "first", "last", "reason", "at_ns", "known_at_ns")
FIELDS: Final[Mapping[type[Gap | Finding], tuple[str, Sequence[str]]]] = {
    Gap: ("gap", (*GAP, "ts_before_ns", "ts_after_ns")),
    WindowResult: ("window", (*HEAD, "key", *SPAN, "values", "low", "high", *TAIL, "expected")),
    MatchResult: ("match", MATCH),
    DetectorResult: ("match", MATCH),
    MatchSetResult: ("match_set", (*HEAD, *SPAN, "count", "ranges", "joined", *TAIL, "key")),
    JoinResult: ("join", (*HEAD, "key", *SPAN, "partners", "values", "probability", *TAIL)),
    Overflow: ("overflow", ("query", "member", "shown", *TAIL)),
}
"""The kind of the line of each type, and the fields that the line shows, in order."""

CALLED: Final = {"member": "event", "members": "events", "partners": "events"}
"""The keys of fields whose key is not simply their name without `_ns`, by field."""


def _make_form(kind: str, fields: Sequence[str]) -> tuple[JsonObject, list[str], Any]:
    names = [CALLED.get(name, name.removesuffix("_ns")) for name in fields]
    return {"kind": kind, **dict.fromkeys(names)}, names, attrgetter(*fields)


FORMS: Final = {shown: _make_form(*said) for shown, said in FIELDS.items()}
"""For each type: an empty line, its keys, and a function that reads the values of these keys.

Filling a copy of the empty line is twice as fast as building a line from pairs.
"""

MEMBER: Final = ("alias", "source", "epoch", "seq", "ref_time")
PARTNER: Final = ("alias", "stream", "source", "epoch", "seq", "ref_time")
"""The keys of an event that is named in a line: a `Member` (`MEMBER`) and a `Partner`."""


def _hide_unknown(epoch: int | None) -> int | None:
    return epoch if epoch is not None and epoch >= 0 else None


def _make_line(shown: Gap | Finding) -> JsonObject:
    empty, names, values_of = FORMS[type(shown)]
    line = empty.copy()
    line.update(zip(names, values_of(shown), strict=True))
    return line


def make_event_line(event: Event) -> JsonObject:
    """Return the line of an event. If the event is late, `reason` is the cause."""
    line: JsonObject = {
        "kind": "event",
        "source": event.source,
        "seq": event.seq,
        "epoch": _hide_unknown(event.epoch),
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


def make_report_line(report: Report, *, replayed: bool) -> JsonObject:
    """Return the line of a report. `replayed` means that offsets are line numbers.

    In a late event's line, `by` is 0 if the lateness is unknown. The reason of a duplicate is
    `conflict` if its time, type or payload differs from the first event's. The `detail` of a dead
    letter describes the fault and the remedy.
    """
    if isinstance(report, Gap):
        return _make_line(report) | {"epoch": _hide_unknown(report.epoch)}
    item = report if isinstance(report, Malformed) else report.event
    line: JsonObject = {
        "kind": "dead",
        "stream": item.stream,
        "source": item.source,
        "epoch": _hide_unknown(item.epoch),
        "seq": item.seq,
        "reason": "",
        "line": item.offset if replayed else None,
        "at": report.at_ns,
    }
    match report:
        case Late():
            return line | {"kind": "late", "reason": report.reason, "by": report.by_ns}
        case Duplicate():
            return line | {"kind": "duplicate", "reason": "conflict" if report.conflict else "copy"}
        case Malformed():
            return line | {"reason": report.reason, "detail": report.detail}


def make_result_line(result: Finding) -> JsonObject:
    """Return the line of a window, a match, a row of a join, or an overflow.

    The line of a set of matches has `joined` only if it is an update.
    """
    line = _make_line(result)
    match result:
        case Overflow():
            line["event"] = None if result.member is None else _to_member(result.member)
        case MatchResult():
            line["events"] = [_to_member(member) for member in result.members]
        case JoinResult():
            line["events"] = [dict(zip(PARTNER, each, strict=True)) for each in result.partners]
        case MatchSetResult():
            line["ranges"] = [_to_range(each) for each in result.ranges]
            line["joined"] = [_to_range(each) for each in result.joined]
            if result.op != UPDATE:
                del line["joined"]
    return line


def _to_member(member: Member) -> JsonObject:
    return dict(zip(MEMBER, member, strict=True))


def _to_range(members: MemberRange) -> JsonObject:
    first, last = _to_member(members.first), _to_member(members.last)
    del first["alias"], last["alias"]
    return {"alias": members.alias, "count": members.size, "first": first, "last": last}


def make_step_lines(step: Step) -> list[JsonObject]:
    """Return the lines of a step of a replay, in the order of `sort_outputs`."""
    return sort_outputs(
        step, partial(make_report_line, replayed=True), make_event_line, make_result_line
    )


def sort_outputs(
    step: Step,
    report_as: Callable[[Report], Said],
    event_as: Callable[[Event], Said],
    result_as: Callable[[Finding], Said],
) -> list[Said]:
    """Return all outputs of the step, converted by these functions, in the order of `at_ns`.

    At the same instant reports come first, because they arise earlier in the chain, and results
    last. Control events are left out.
    """
    outcomes = [(report.at_ns, report_as(report)) for report in step.reports]
    outcomes += [(event.at_ns, event_as(event)) for event in step.released if event.kind == DATA]
    outcomes += [(finding.at_ns, result_as(finding)) for finding in step.results]
    outcomes.sort(key=itemgetter(0))
    return [said for _, said in outcomes]


def encode_line(line: JsonObject, option: int = 0) -> bytes:
    """Return a line as JSON bytes, with null for values that a 64-bit JSON reader cannot read."""
    try:
        return orjson.dumps(line, option=option)
    except TypeError:  # An integer is too large, or the line is nested too deeply.
        return orjson.dumps(to_writable(line), option=option)
