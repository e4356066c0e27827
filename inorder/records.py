"""What goes in and what comes out, typed.

In: `RawEvent`, `ClockSample`, `ClockOffset`, as a line of `inorder replay` has them.

Out, from a replay, the test kit, or the topics of a worker:

    OrderedEvent                            an event in its place, or late and let pass
    GapRecord                               numbers that are declared missing
    LateRecord, DuplicateRecord, DeadRecord an event that is not in the order, and why
    WindowRecord, MatchRecord, JoinRecord   a result, or its correction
    MatchSetRecord                          the same, of all matches that end with one event
    OverflowRecord                          a query had more results than its bound allows
    RetractRecord                           a result is taken back, in a topic that is a table

`record_of` reads a line of `inorder replay`, or the value of a record on a topic of results, gaps,
late, duplicates or dead. It also takes the message of a Kafka client, which a topic of a query with
`upsert` needs: what is taken back has no value there. `ordered_event` reads a record of
`events.ordered`. Times are ns since 1970. Python and orjson alone are imported here.

A result is known by its `id`; its revisions count from 0, and the highest is the latest truth:
`op` is `emit`, `update` or `retract`. After `final` no further revision comes. `current` keeps the
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
"""A JSON object as the black-box interface has it."""

REF_TIME: Final = "refTs"


class EventPlace(NamedTuple):
    """Which event: the number `seq` of the epoch `epoch` of a source."""

    source: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class OrderedEvent:
    """The true time lies within `error_ns` of `ref_time_ns`. `late` is the reason why the event
    is outside the order, "" if it is not; `at_ns` when it was released."""

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
        return EventPlace(self.source, self.epoch, self.seq)


@dataclass(frozen=True, slots=True)
class GapRecord:
    """The numbers `first` to `last` are declared missing: `timeout`, `overflow`, `jump`, `end`."""

    stream: str
    source: str
    epoch: int
    first: int
    last: int
    reason: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class _NotOrdered:
    """None is what is unknown. `line` is the place in a recording, from 1."""

    stream: str | None
    source: str | None
    epoch: int | None
    seq: int | None
    reason: str
    at_ns: int
    line: int | None


@dataclass(frozen=True, slots=True)
class LateRecord(_NotOrdered):
    """The event came too late and is not passed on."""


@dataclass(frozen=True, slots=True)
class DuplicateRecord(_NotOrdered):
    """The event has been seen: `copy`, or `conflict` where its content differs."""


@dataclass(frozen=True, slots=True)
class DeadRecord(_NotOrdered):
    """The event cannot be used; `detail` is the reason and what to write instead."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """`values` are plain JSON values by name; times lie in [start_ns, end_ns)."""

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
    """`low` and `high` bound the values that the true times allow, `expected` is their mean."""

    low: Mapping[str, Any]
    high: Mapping[str, Any]
    expected: Mapping[str, Any]


class EventOfResult(NamedTuple):
    """An event that a result is made of. `stream` is empty where the query has one only."""

    alias: str
    source: str
    epoch: int
    seq: int
    ref_time_ns: int
    stream: str = ""


@dataclass(frozen=True, slots=True)
class MatchRecord(_Found):
    """`events` in the order of time."""

    events: tuple[EventOfResult, ...]


class RangeOfResult(NamedTuple):
    """The `size` events from `first` to `last` that may be `alias`."""

    alias: str
    size: int
    first: EventOfResult
    last: EventOfResult


@dataclass(frozen=True, slots=True)
class MatchSetRecord(_Found):
    """`count` matches, each a choice out of the `ranges` (AS SETS). `joined`: what an update has
    brought into them."""

    count: int
    ranges: tuple[RangeOfResult, ...]
    joined: tuple[RangeOfResult, ...]


@dataclass(frozen=True, slots=True)
class JoinRecord(_Found):
    """`events` in the order of the sides; a side without a partner is left out. `probability`:
    that they belong together, by the errors of their times."""

    events: tuple[EventOfResult, ...]
    probability: float


@dataclass(frozen=True, slots=True)
class RetractRecord(_Found):
    """The result is taken back: `op` is `retract`, `values` are empty. Only topics of queries with
    `upsert` have it; elsewhere a retract is a record of its kind."""


@dataclass(frozen=True, slots=True)
class OverflowRecord:
    """More results begin with `event` than the query may emit: the `shown` ones are not all."""

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
    """From a JSON object, its text, or a Kafka client's message with such a value. ValueError for
    what is none of ours."""
    values: Any = line
    if hasattr(line, "headers"):
        values = _called(line.value)
        if values is None:
            values = retraction_line(_called(line.key), _called(line.headers))
    if isinstance(values, bytes | str):
        values = orjson.loads(values)
    read = _READ.get(values.get("kind", "")) if isinstance(values, Mapping) else None
    if read is None:
        raise ValueError(f"no line of inorder's: its `kind` is none of {', '.join(_READ)}")
    try:
        return read(values)
    except (KeyError, TypeError) as wrong:
        raise ValueError(f"a line of kind {values['kind']} without {wrong}") from None


def ordered_event(
    record: Any, value: bytes | None = None, contract: Contract | None = None
) -> OrderedEvent | None:
    """A record of `events.ordered`: the message of a Kafka client (confluent-kafka, aiokafka,
    kafka-python), or its headers and its `value`. None for one that holds no event (a watermark,
    whose value is null). The payload is parsed where it is JSON, and text else. ValueError for what
    no worker has written."""
    headers: Iterable[tuple[str, bytes | None]] = record
    if hasattr(record, "headers"):
        headers, value = _called(record.headers) or (), _called(record.value)
    found = {name: (text or b"").decode() for name, text in headers}
    names = (contract or HeaderContract()).names()
    if REF_TIME not in found:
        raise ValueError(f"no record of an ordered topic: the header {REF_TIME} is missing")
    if found.get(names.kind, DATA) != DATA:
        return None
    try:
        ref_time_ns = int(found[REF_TIME])
        return OrderedEvent(
            stream=found.get(names.stream) or "default",
            source=found[names.source],
            epoch=int(found.get(names.epoch) or 0),
            seq=int(found[names.seq]),
            ts_ns=_ts_ns(found.get(names.ts), contract, ref_time_ns),
            ref_time_ns=ref_time_ns,
            error_ns=int(found["err"]),
            type=found.get(names.type, ""),
            payload=_payload(value),
            late=found.get("late", ""),
            at_ns=int(found["at"]),
        )
    except KeyError as missing:
        raise ValueError(f"a record of an ordered topic without the header {missing}") from None


def current(records: Iterable[Record]) -> dict[str, Found]:
    """The current results after all these, by id: each one's highest revision, but for those
    that are taken back."""
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


def _called(part: Any) -> Any:
    """A part of a message, which some clients have as a method, others as an attribute."""
    return part() if callable(part) else part


def _ts_ns(text: str | None, contract: Contract | None, otherwise_ns: int) -> int:
    if not text:
        return otherwise_ns
    try:
        return int(text) * UNIT_NS[contract.ts_unit if contract else "ns"]
    except ValueError:
        found = rfc3339.parse_ns(text.encode())
        return otherwise_ns if found is None else found


def _payload(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value.decode(errors="replace")


def _said(kind: Any, line: Line, /, **given: Any) -> dict[str, Any]:
    """Return the values of a record of this kind by the names of its fields: those `given`, and
    those of the line, whose keys have no unit."""
    return given | {name: line[key] for name, key in _keys(kind) if name not in given}


@cache
def _keys(kind: Any) -> list[tuple[str, str]]:
    return [(field.name, field.name.removesuffix("_ns")) for field in fields(kind)]


def _event(line: Line) -> OrderedEvent:
    late = line.get("reason", "late") if line["late"] else ""
    return OrderedEvent(**_said(OrderedEvent, line, epoch=line["epoch"] or 0, late=late))


def _not_ordered(line: Line) -> dict[str, Any]:
    return _said(_NotOrdered, line, line=line.get("line"))


def _found(line: Line) -> dict[str, Any]:
    return _said(_Found, line, key=line.get("key"), stream=line.get("stream", ""))


def _member(values: Line) -> EventOfResult:
    place = (values["alias"], values["source"], values["epoch"], values["seq"], values["ref_time"])
    return EventOfResult(*place, values.get("stream", ""))


def _window(line: Line) -> WindowRecord:
    bounds = {name: line.get(name, {}) for name in ("low", "high", "expected")}
    return WindowRecord(**_found(line), **bounds)


def _match(line: Line) -> MatchRecord:
    return MatchRecord(**_found(line), events=tuple(map(_member, line["events"])))


def _match_set(line: Line) -> MatchSetRecord:
    found = _found({"values": {}, **line})
    ranges, joined = _ranges(line["ranges"]), _ranges(line.get("joined", ()))
    return MatchSetRecord(**found, count=line["count"], ranges=ranges, joined=joined)


def _ranges(values: Sequence[Line]) -> tuple[RangeOfResult, ...]:
    return tuple(
        RangeOfResult(
            each["alias"],
            each["count"],
            _member({"alias": each["alias"], **each["first"]}),
            _member({"alias": each["alias"], **each["last"]}),
        )
        for each in values
    )


def _join(line: Line) -> JoinRecord:
    events = tuple(map(_member, line["events"]))
    return JoinRecord(**_found(line), events=events, probability=line["probability"])


_READ: Final[Mapping[str, Callable[[Line], Record]]] = {
    "event": _event,
    "gap": lambda line: GapRecord(**_said(GapRecord, line, epoch=line["epoch"] or 0)),
    "late": lambda line: LateRecord(**_not_ordered(line)),
    "duplicate": lambda line: DuplicateRecord(**_not_ordered(line)),
    "dead": lambda line: DeadRecord(**_not_ordered(line), detail=line.get("detail", "")),
    "window": _window,
    "match": _match,
    "match_set": _match_set,
    "join": _join,
    "overflow": lambda line: OverflowRecord(
        **_said(OverflowRecord, line, event=_member(line["event"]))
    ),
    RETRACT: lambda line: RetractRecord(**_found({"values": {}, **line})),
}
