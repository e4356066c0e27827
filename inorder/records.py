"""Define the outputs of inorder as typed records, and read them from JSON and Kafka messages.

Outputs come from a replay, the test kit, or the topics of a worker:

    OrderedEvent                            an event in order, or a late event that is emitted
    GapRecord                               sequence numbers that are declared missing
    LateRecord, DuplicateRecord, DeadRecord an event that is left out of the order, and why
    WindowRecord, MatchRecord, JoinRecord   a result, or its correction
    MatchSetRecord                          the same for all matches that end with one event
    OverflowRecord                          a query had more results than its bound allows
    RetractRecord                           a retracted result in a compacted topic

`record_of` reads a line of `inorder replay`, or the value of a record on a topic of results, gaps,
late events, duplicates or dead letters. It also accepts the message of a Kafka client. For a topic
of a query with `upsert`, pass the message, because a retracted result has no value there.
`ordered_event` reads a record of `events.ordered`. The inputs (`inorder.inputs`) can be imported
from here too. Times are in ns since 1970. This module imports only the standard library and orjson.

A result is identified by its `id`. Its revisions count from 0, and the highest one is valid. `op`
is `emit`, `update` or `retract`. A revision that is `final` is the last one. `current` returns the
current results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

from inorder import rfc3339
from inorder.contract import DATA, RETRACT, UNIT_NS, Contract, HeaderContract, retraction_line
from inorder.inputs import ClockOffset as ClockOffset
from inorder.inputs import ClockSample as ClockSample
from inorder.inputs import RawEvent as RawEvent

Line = Mapping[str, Any]
"""A JSON object, such as a line of `inorder replay`."""

REF_TIME: Final = "refTs"


class EventPlace(NamedTuple):
    """The identity of an event: the number `seq` of the epoch `epoch` of a source."""

    source: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class OrderedEvent:
    """An event in order, or a late event that is emitted.

    Attributes:
        stream: The stream of the event.
        source: The source of the event.
        epoch: The source's epoch.
        seq: The event's sequence number.
        ts_ns: The reported timestamp.
        ref_time_ns: The corrected timestamp.
        error_ns: The time error: the maximum difference of the event time from `ref_time_ns`.
        type: The type of the event.
        payload: The content of the event.
        late: The reason why the event is late, or empty if it is in order.
        at_ns: The time at which the event was emitted.
    """

    stream: str
    source: str
    epoch: int
    seq: int
    ts_ns: int
    ref_time_ns: int
    error_ns: int
    type: str
    payload: Any
    late: str
    at_ns: int

    @property
    def place(self) -> EventPlace:
        """The identity of the event."""
        return EventPlace(self.source, self.epoch, self.seq)


@dataclass(frozen=True, slots=True)
class GapRecord:
    """A gap: the sequence numbers `first` to `last` are declared missing.

    Attributes:
        stream: The stream of the source.
        source: The source of the missing events.
        epoch: The source's epoch.
        first: The first missing number.
        last: The last missing number.
        reason: `timeout`, `overflow`, `jump` or `end`.
        at_ns: The time of the declaration.
    """

    stream: str
    source: str
    epoch: int
    first: int
    last: int
    reason: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class _NotOrdered:
    """An event that is left out of the order; a field is None if it is unknown.

    Attributes:
        stream: The stream of the event.
        source: The source of the event.
        epoch: The source's epoch.
        seq: The event's sequence number.
        reason: The reason, as a keyword.
        at_ns: The time of the decision.
        line: The line number in a recording, from 1.
    """

    stream: str | None
    source: str | None
    epoch: int | None
    seq: int | None
    reason: str
    at_ns: int
    line: int | None


@dataclass(frozen=True, slots=True)
class LateRecord(_NotOrdered):
    """An event that arrived too late and is not emitted."""


@dataclass(frozen=True, slots=True)
class DuplicateRecord(_NotOrdered):
    """An event that was seen before; its reason is `copy`, or `conflict` if its content differs."""


@dataclass(frozen=True, slots=True)
class DeadRecord(_NotOrdered):
    """An event that cannot be used.

    Attributes:
        detail: The fault, and what to write instead.
    """

    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A result of a query; its times are in [start_ns, end_ns).

    Attributes:
        id: The identity of the result over all its revisions.
        query: The name of the query.
        op: `emit`, `update` or `retract`.
        revision: The number of the revision, from 0.
        final: Whether no further revision follows.
        confidence: The result's certainty, as a keyword.
        start_ns: The beginning of the result.
        end_ns: The end of the result, exclusive.
        values: Plain JSON values by name.
        key: The key to which the result belongs, or None.
        stream: The stream, or empty.
        at_ns: The time at which this revision was emitted.
    """

    id: str
    query: str
    op: str
    revision: int
    final: bool
    confidence: str
    start_ns: int
    end_ns: int
    values: Mapping[str, Any]
    key: Any
    stream: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class WindowRecord(_Found):
    """A window's result, or its correction.

    Attributes:
        low: The lowest possible values, given the time errors of the events.
        high: The highest possible values, given the time errors of the events.
        expected: The expected values, given the time errors of the events.
    """

    low: Mapping[str, Any]
    high: Mapping[str, Any]
    expected: Mapping[str, Any]


class EventOfResult(NamedTuple):
    """An event that is part of a result; `stream` is empty if the query has only one stream."""

    alias: str
    source: str
    epoch: int
    seq: int
    ref_time_ns: int
    stream: str = ""


@dataclass(frozen=True, slots=True)
class MatchRecord(_Found):
    """A match of a pattern, or its correction.

    Attributes:
        events: The events of the match, in the order of their times.
    """

    events: tuple[EventOfResult, ...]


class RangeOfResult(NamedTuple):
    """The `size` events from `first` to `last`, each of which may be the event named `alias`."""

    alias: str
    size: int
    first: EventOfResult
    last: EventOfResult


@dataclass(frozen=True, slots=True)
class MatchSetRecord(_Found):
    """All matches that end with one event (AS SETS), or a correction of this set.

    Attributes:
        count: The number of matches. Each is a choice of events from the ranges.
        ranges: The events to choose from.
        joined: The events that this update has added to the ranges.
    """

    count: int
    ranges: tuple[RangeOfResult, ...]
    joined: tuple[RangeOfResult, ...]


@dataclass(frozen=True, slots=True)
class JoinRecord(_Found):
    """A row of a join, or its correction.

    Attributes:
        events: The events in the order of the join's sides. A side without a partner is left out.
        probability: The probability that the events belong together, given their time errors.
    """

    events: tuple[EventOfResult, ...]
    probability: float


@dataclass(frozen=True, slots=True)
class RetractRecord(_Found):
    """A retracted result: `op` is `retract`, and `values` is empty.

    It occurs only in topics of queries with `upsert`. Elsewhere a retraction has the class of its
    result, for example WindowRecord.
    """


@dataclass(frozen=True, slots=True)
class OverflowRecord:
    """A report that `event` begins more results than the query may emit.

    Attributes:
        query: The name of the query.
        event: The event with which the results begin.
        shown: The number of results that were emitted; there are more.
        stream: The stream, or empty.
        at_ns: The time of the report.
    """

    query: str
    event: EventOfResult
    shown: int
    stream: str
    at_ns: int


Found = WindowRecord | MatchRecord | MatchSetRecord | JoinRecord
Record = (
    OrderedEvent
    | GapRecord
    | LateRecord
    | DuplicateRecord
    | DeadRecord
    | Found
    | OverflowRecord
    | RetractRecord
)


def record_of(line: Any) -> Record:
    """Return the record that a line or a message contains.

    Args:
        line: A JSON object, its text, or the message of a Kafka client with such a value.

    Raises:
        ValueError: The line is not a record of inorder.
    """
    values: Any = line
    if hasattr(line, "headers"):
        values = _part_of(line.value)
        if values is None:
            values = retraction_line(_part_of(line.key), _part_of(line.headers))
    if isinstance(values, bytes | str):
        values = orjson.loads(values)
    read = _READ.get(values.get("kind", "")) if isinstance(values, Mapping) else None
    if read is None:
        raise ValueError(f"not a record of inorder: its `kind` is not one of {', '.join(_READ)}")
    try:
        return read(values)
    except KeyError as wrong:
        raise ValueError(f"a line of kind {values['kind']} lacks {wrong}") from None
    except TypeError as wrong:
        raise ValueError(f"a line of kind {values['kind']} has a wrong value: {wrong}") from None


def ordered_event(
    record: Any, value: bytes | None = None, contract: Contract | None = None
) -> OrderedEvent | None:
    """Return the event that a record of `events.ordered` contains.

    Args:
        record: The message of a Kafka client (confluent-kafka, aiokafka, kafka-python), or the
            headers of the record.
        value: The record's value, if `record` has only the headers. It is parsed if it is JSON,
            and decoded as text otherwise.
        contract: The names of the headers. None: those of the preset `plain`.

    Returns:
        The event, or None if the record contains none. An example is a watermark, whose value is
        null.

    Raises:
        ValueError: The record was not written by a worker.
    """
    headers: Iterable[tuple[str, bytes | None]] = record
    if hasattr(record, "headers"):
        headers, value = _part_of(record.headers) or (), _part_of(record.value)
    found = {name: (text or b"").decode() for name, text in headers}
    names = (contract or HeaderContract()).names()
    if REF_TIME not in found:
        raise ValueError(f"not a record of an ordered topic: the header {REF_TIME} is missing")
    if found.get(names.kind, DATA) != DATA:
        return None
    try:
        ref_time_ns = int(found[REF_TIME])
        return OrderedEvent(
            stream=found.get(names.stream) or "default",
            source=found[names.source],
            epoch=int(found.get(names.epoch) or 0),
            seq=int(found[names.seq]),
            ts_ns=_parse_ts_ns(found.get(names.ts), contract, ref_time_ns),
            ref_time_ns=ref_time_ns,
            error_ns=int(found["err"]),
            type=found.get(names.type, ""),
            payload=_decode_payload(value),
            late=found.get("late", ""),
            at_ns=int(found["at"]),
        )
    except KeyError as missing:
        raise ValueError(f"a record of an ordered topic lacks the header {missing}") from None


def current(records: Iterable[Record]) -> dict[str, Found]:
    """Return the current results by id: the highest revision of each that is not retracted.

    Args:
        records: The records, in any order.
    """
    newest: dict[str, Found | RetractRecord] = {}
    for record in records:
        if isinstance(record, Found | RetractRecord):
            before = newest.get(record.id)
            if before is None or record.revision > before.revision:
                newest[record.id] = record
    return {
        id_: found
        for id_, found in newest.items()
        if not isinstance(found, RetractRecord) and found.op != RETRACT
    }


def _part_of(part: Any) -> Any:
    """Return a part of a message, which is a method in some clients and an attribute in others."""
    return part() if callable(part) else part


def _parse_ts_ns(text: str | None, contract: Contract | None, otherwise_ns: int) -> int:
    if not text:
        return otherwise_ns
    try:
        return int(text) * UNIT_NS[contract.ts_unit if contract else "ns"]
    except ValueError:
        found = rfc3339.parse_ns(text.encode())
        return otherwise_ns if found is None else found


def _decode_payload(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value.decode(errors="replace")


def _pick(kind: Any, line: Line, /, **given: Any) -> dict[str, Any]:
    """Return the fields of a record class: the values `given`, and the others from the line.

    The keys of the line have no unit in their names.
    """
    return given | {name: line[key] for name, key in _keys(kind) if name not in given}


@cache
def _keys(kind: Any) -> list[tuple[str, str]]:
    return [(field.name, field.name.removesuffix("_ns")) for field in fields(kind)]


def _event_from(line: Line) -> OrderedEvent:
    late = line.get("reason", "late") if line["late"] else ""
    return OrderedEvent(**_pick(OrderedEvent, line, epoch=line["epoch"] or 0, late=late))


def _unordered_fields(line: Line) -> dict[str, Any]:
    return _pick(_NotOrdered, line, line=line.get("line"))


def _result_fields(line: Line) -> dict[str, Any]:
    return _pick(_Found, line, key=line.get("key"), stream=line.get("stream", ""))


def _member_from(values: Line) -> EventOfResult:
    place = (values["alias"], values["source"], values["epoch"], values["seq"], values["ref_time"])
    return EventOfResult(*place, values.get("stream", ""))


def _window_from(line: Line) -> WindowRecord:
    bounds = {name: line.get(name, {}) for name in ("low", "high", "expected")}
    return WindowRecord(**_result_fields(line), **bounds)


def _match_from(line: Line) -> MatchRecord:
    return MatchRecord(**_result_fields(line), events=tuple(map(_member_from, line["events"])))


def _match_set_from(line: Line) -> MatchSetRecord:
    found = _result_fields({"values": {}, **line})
    ranges, joined = _ranges_from(line["ranges"]), _ranges_from(line.get("joined", ()))
    return MatchSetRecord(**found, count=line["count"], ranges=ranges, joined=joined)


def _ranges_from(values: Sequence[Line]) -> tuple[RangeOfResult, ...]:
    return tuple(
        RangeOfResult(
            each["alias"],
            each["count"],
            _member_from({"alias": each["alias"], **each["first"]}),
            _member_from({"alias": each["alias"], **each["last"]}),
        )
        for each in values
    )


def _join_from(line: Line) -> JoinRecord:
    events = tuple(map(_member_from, line["events"]))
    return JoinRecord(**_result_fields(line), events=events, probability=line["probability"])


_READ: Final[Mapping[str, Callable[[Line], Record]]] = {
    "event": _event_from,
    "gap": lambda line: GapRecord(**_pick(GapRecord, line, epoch=line["epoch"] or 0)),
    "late": lambda line: LateRecord(**_unordered_fields(line)),
    "duplicate": lambda line: DuplicateRecord(**_unordered_fields(line)),
    "dead": lambda line: DeadRecord(**_unordered_fields(line), detail=line.get("detail", "")),
    "window": _window_from,
    "match": _match_from,
    "match_set": _match_set_from,
    "join": _join_from,
    "overflow": lambda line: OverflowRecord(
        **_pick(OverflowRecord, line, event=_member_from(line["event"]))
    ),
    RETRACT: lambda line: RetractRecord(**_result_fields({"values": {}, **line})),
}
