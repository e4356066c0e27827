"""Recorded lines as what they stand for: events, clock samples, declared offsets.

    {"source": "s1", "seq": 17, "ts": …, "arrival": …, "type": "A", "stream": "default",
     "epoch": 0, "payload": {"x": 1}}
    {"kind": "heartbeat" | "bye", "source": "s1", "seq": 18, "ts": …}
    {"clock": "s1", "t1": …, "t2": …, "t3": …, "t4": …}
    {"clock": "s1", "at": …, "offset": …, "error": …}    (offset null: no longer declared)

`source` and `seq` are required; null counts as absent, and keys that are not named
here are ignored. In a stream with `reorder.rule: time` the number of an event is its `offset`, as
in a dump, or else that of its line, whatever `seq` says or does not say. Under `without_seq:
by_time` a line without `seq` has the complement of that number, which is below 0, until REORDER
(topology.reorder.mixed) has seen its event. `stream` defaults to
the only one there is, or to `default` where there are several; `type` to empty, `payload` to
null; an absent epoch is left to REORDER, which starts at 0. Times are integer nanoseconds, but
for `ts`: an integer in the stream's `headers.ts_unit`, and where that is not ns also text as
RFC 3339 has it.

* An arrival below the one before counts as that one: the arrival clock never goes back. In a
  recording one far ahead is taken as an append time is (topology.model.append_clock), so one that
  is wrong is not believed.
* Whether the lines say when they arrived is taken from the first good one (`bears_arrivals`):
  where it does not, nothing is learned of clocks (`topology.config.Topology.without_arrivals`).
* Without `arrival` the event arrives at the largest `ts` of the good lines so far, in 2100 at the
  latest: the clock of arrivals ends there, and a line that says a later `arrival` is dead. So is
  one that says an `arrival` below 0: operators begin at 0.
* Without `ts` the arrival replaces it; without both, the arrival of the line before.
* A clock line arrives with the line before it; at the start, before everything. It may
  bear an `arrival` of its own, not before that, which moves no clock.
* A bad line whose arrival cannot be read arrives with the line before it.

Integers are integers: `1.0`, `"17"` and `true` are not. Ranges are those of the header
contract (topology.wire.header_reader), and a bad line is a `Malformed` with the line's number as
its offset; its reason is `<field>_<fault>` as there, with `not_text` for what is no
text and `not_integer` for a time that is none, and `line_not_json`, `line_not_object`,
`line_huge`, `row_not_csv`, `row_ragged`, `row_undecodable`, `payload_not_json`,
`clock_missing` for what concerns no field.
Where source and seq could be read it still takes its place in the sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from inorder import rfc3339
from inorder.contract import (
    DEFAULT_STREAM,
    MAX_EPOCH,
    MAX_INT64,
    MAX_SOURCE_BYTES,
    MAX_STREAM_BYTES,
    MIN_INT64,
    PRODUCER_KINDS,
    UNIT_NS,
)
from topology.model.append_clock import AppendClock
from topology.model.event import DATA, NO_EPOCH, Event
from topology.model.outcome import Malformed
from topology.model.sample import (
    MAX_DECLARED_ERROR_NS,
    MAX_OFFSET_NS,
    MAX_SERVER,
    ROUND,
    Declared,
    Sample,
    read_word,
)
from topology.wire.header_reader import WITHOUT_SEQ

BEFORE_EVERYTHING_NS: Final = MIN_INT64
"""Arrival of a clock line that no event precedes."""

# So many characters cannot be more bytes than allowed.
MAX_ARRIVAL_NS: Final = 4_102_444_800_000_000_000
"""The year 2100: what is due soon after it still comes before `NEVER`."""
_SHORT_SOURCE: Final = MAX_SOURCE_BYTES // 4
_SHORT_STREAM: Final = MAX_STREAM_BYTES // 4

DECLARED_BOUNDS: Final = {"offset": MAX_OFFSET_NS, "error": MAX_DECLARED_ERROR_NS}
SHOWN_CHARS: Final = 40
_ELSEWHERE: Final = ", or name where a file of others has it: --source NAME --seq NAME --ts NAME"


class LineFault(NamedTuple):
    reason: str
    detail: str


class Row(NamedTuple):
    """`number` is the line, from 1 (of a Parquet file: the row). `ts_is_instant`: `ts` was a time
    stamp with a unit of its own and is in ns, whatever the unit of numbers is. `is_mapped`: a
    mapping has found these values, and a fault names all that is wrong."""

    number: int
    values: Mapping[str, Any]
    fault: LineFault | None = None
    ts_is_instant: bool = False
    is_mapped: bool = False


Content = Event | Malformed | Sample | Declared
"""What a line means."""


class Line(NamedTuple):
    number: int
    content: Content


class Reading(NamedTuple):
    """What lines mean in a topology. `by_time`: streams without numbers; `units_ns`: those whose
    `ts` is not in ns; `unnamed`: the stream of a line that names none; `mixed`: streams in which
    some sources have no numbers."""

    by_time: frozenset[str] = frozenset()
    units_ns: Mapping[str, int] = {}
    unnamed: str = DEFAULT_STREAM
    mixed: frozenset[str] = frozenset()


AS_WRITTEN: Final = Reading()

LOOKED_AHEAD: Final = 10_000
"""Dead lines and words about clocks, at the most, that are kept until the first good line."""


def bears_arrivals(contents: Iterable[Content]) -> tuple[bool, Iterator[Content]]:
    """Whether the first event's line says when it arrived, and all contents. Where none is among
    the first `LOOKED_AHEAD`, the lines count as saying so."""
    contents = iter(contents)
    seen: list[Content] = []
    for content in contents:
        seen.append(content)
        if isinstance(content, Event):
            says = content.record.get("arrival") is not None
            return says, chain(seen, contents)
        if len(seen) >= LOOKED_AHEAD:
            break
    return True, chain(seen, contents)


class LineReader:
    """Turns rows into lines; it carries the arrival clock from one to the next. `arrival_ns`: where
    that begins; None: with the first line. `judges`: an arrival may be wrong."""

    def __init__(
        self,
        reading: Reading = AS_WRITTEN,
        arrival_ns: int | None = None,
        *,
        judges: bool = False,
    ) -> None:
        self._by_time, self._units_ns, self._unnamed, self._mixed = reading
        self._arrival_ns = arrival_ns
        self._log = AppendClock() if judges else None
        self._largest_ts_ns: int | None = None

    @property
    def clock(self) -> tuple[int | None, int | None]:
        """The arrival clock, and the largest `ts` of the good lines so far."""
        return self._arrival_ns, self._largest_ts_ns

    def read(self, row: Row) -> Content:
        if self._mixed and row.values.get("seq") is None:
            numbered = self._numbered(row, self._mixed)
            if numbered is not row:
                item = self.read(numbered)
                assert not isinstance(item, Sample | Declared)
                item.seq = ~item.seq if isinstance(item, Event) else None
                return item
        if self._by_time:
            row = self._numbered(row, self._by_time)
        values = row.values
        if row.fault is None and values.get("clock") is None:
            # The plain case at one go; whatever is not plain is looked at closely.
            source, seq, ts_ns, arrival_ns = (
                values.get("source"),
                values.get("seq"),
                values.get("ts"),
                values.get("arrival"),
            )
            stream, epoch = values.get("stream"), values.get("epoch")
            type_ = values.get("type")
            if (
                type(source) is str
                and type(seq) is int
                and 0 < len(source) <= _SHORT_SOURCE
                and 0 <= seq <= MAX_INT64
                and (ts_ns is None or (type(ts_ns) is int and -MAX_INT64 <= ts_ns <= MAX_INT64))
                and (
                    arrival_ns is None
                    or (type(arrival_ns) is int and 0 <= arrival_ns <= MAX_ARRIVAL_NS)
                )
                and (stream is None or (type(stream) is str and 0 < len(stream) <= _SHORT_STREAM))
                and (epoch is None or (type(epoch) is int and 0 <= epoch <= MAX_EPOCH))
                and (type_ is None or type(type_) is str)
                and values.get("kind") is None
            ):
                name = self._unnamed if stream is None else stream
                if ts_ns is not None and name in self._units_ns and not row.ts_is_instant:
                    ts_ns *= self._units_ns[name]
                if ts_ns is None or -MAX_INT64 <= ts_ns <= MAX_INT64:
                    at_ns = self._arrive(arrival_ns, ts_ns)
                    event = Event(
                        name,
                        source,
                        NO_EPOCH if epoch is None else epoch,
                        seq,
                        at_ns if ts_ns is None else ts_ns,
                        at_ns,
                        row.number,
                        values,
                        values.get("payload"),
                        type_ or "",
                    )
                    event.is_stamped = _is_stamped(row, ts_ns, arrival_ns)
                    return event
        if row.fault is None and values.get("clock") is not None:
            return self._clock_line(row)
        return self._examined(row)

    def _numbered(self, row: Row, streams: frozenset[str]) -> Row:
        """Return a row of these streams with the number of its place, any other as it is."""
        values = row.values
        stream = values.get("stream")
        if row.fault is not None or values.get("clock") is not None:
            return row
        if stream is not None and not isinstance(stream, str):
            return row
        if (self._unnamed if stream is None else stream) not in streams:
            return row
        offset = values.get("offset")
        known = type(offset) is int and 0 <= offset <= MAX_INT64
        return row._replace(values={**values, "seq": offset if known else row.number})

    def _arrive(self, arrival_ns: int | None, ts_ns: int | None) -> int:
        """The arrival of a good line."""
        if ts_ns is not None and (self._largest_ts_ns is None or ts_ns > self._largest_ts_ns):
            self._largest_ts_ns = min(ts_ns, MAX_ARRIVAL_NS)
        if arrival_ns is None:
            arrival_ns = self._largest_ts_ns
        elif self._log is not None and arrival_ns >= (self._log.now_ns or arrival_ns):
            arrival_ns = self._log.take(arrival_ns, ts_ns)
        return self._advance(arrival_ns)

    def _advance(self, arrival_ns: int | None) -> int:
        before_ns = self._arrival_ns
        if arrival_ns is None:
            arrival_ns = 0 if before_ns is None else before_ns
        if before_ns is not None and arrival_ns < before_ns:
            arrival_ns = before_ns
        self._arrival_ns = arrival_ns
        return arrival_ns

    def _examined(self, row: Row) -> Event | Malformed:
        look = _Look(row)
        source = look.text("source", MAX_SOURCE_BYTES, needed=True)
        seq = look.integer("seq", 0, MAX_INT64, needed=True)
        stream = look.text("stream", MAX_STREAM_BYTES, otherwise=self._unnamed)
        epoch = look.integer("epoch", 0, MAX_EPOCH)
        unit_ns = None if row.ts_is_instant else self._units_ns.get(stream or "")
        ts_ns = look.time_ns("ts", unit_ns)
        arrival_ns = look.integer("arrival", 0, MAX_ARRIVAL_NS)
        type_ = look.label()
        kind = look.kind()
        epoch = NO_EPOCH if epoch is None and "epoch" not in look.unread else epoch
        if look.faults or source is None or seq is None or stream is None or epoch is None:
            return _malformed(row, look, self._advance(arrival_ns), stream, source, epoch, seq)
        at_ns = self._arrive(arrival_ns, ts_ns)
        event = Event(
            stream,
            source,
            epoch,
            seq,
            at_ns if ts_ns is None else ts_ns,
            at_ns,
            row.number,
            row.values,
            row.values.get("payload"),
            type_,
            kind,
        )
        event.is_stamped = _is_stamped(row, ts_ns, arrival_ns)
        return event

    def _clock_line(self, row: Row) -> Sample | Declared | Malformed:
        look = _Look(row)
        source = look.text("clock", MAX_SOURCE_BYTES, needed=True)
        sampled = any(row.values.get(key) is not None for key in ROUND)
        withdrawn = not sampled and "offset" in row.values and row.values["offset"] is None
        keys = ROUND if sampled else ("at",) if withdrawn else ("at", "offset", "error")
        for key in keys:
            bound = DECLARED_BOUNDS.get(key, MAX_INT64)
            number = look.integer(key, 0 if key == "error" else -bound, bound)
            if number is None and key not in look.unread:
                detail = f"`{key}` is missing; write t1, t2, t3 and t4, or at, offset and error"
                look.faults.append(LineFault("clock_missing", detail))
        if row.values.get("server"):
            look.text("server", MAX_SERVER)
        look.integer("segment", 0, MAX_INT64)
        look.integer("mono", MIN_INT64, MAX_INT64)
        arrival_ns = look.integer("arrival", 0, MAX_ARRIVAL_NS)
        if look.faults or source is None:
            return _malformed(row, look, self._advance(None), None, source, None, None)
        before_ns = BEFORE_EVERYTHING_NS if self._arrival_ns is None else self._arrival_ns
        arrival_ns = before_ns if arrival_ns is None else max(arrival_ns, before_ns)
        word = read_word(source, row.values, arrival_ns, row.number)
        assert not isinstance(word, str), word  # all that could be wrong has been looked at
        return word


def _is_stamped(row: Row, ts_ns: int | None, arrival_ns: int | None) -> bool:
    """Whether the stamp is the source's own: `inorder dump` writes the arrival of a record that has
    none as `ts`."""
    return ts_ns is not None and (row.ts_is_instant or ts_ns != arrival_ns)


def _malformed(
    row: Row,
    look: _Look,
    at_ns: int,
    stream: str | None,
    source: str | None,
    epoch: int | None,
    seq: int | None,
) -> Malformed:
    detail = "; ".join(fault.detail for fault in look.faults)
    reason = look.faults[0].reason
    return Malformed(at_ns, row.number, reason, detail, stream, source, epoch, seq, row.values)


class _Look:
    """A close look at one row: what each key says, and all that is wrong.

    What cannot be read is None and in `unread`; what is absent is None or `otherwise`.
    """

    def __init__(self, row: Row) -> None:
        self._values = row.values
        self.unread: set[str] = set()
        self.faults: list[LineFault] = [] if row.fault is None else [row.fault]
        # Nothing can be said to be missing of a row that was not made out at all.
        self._whole = row.fault is None or bool(row.values and not row.is_mapped)

    def _fault(self, key: str, fault: str, what: str, remedy: str) -> None:
        self.unread.add(key)
        self.faults.append(LineFault(f"{key}_{fault}", f"`{key}` {what}; {remedy}"))

    def _absent(self, key: str, *, needed: bool) -> bool:
        if self._values.get(key) is not None:
            return False
        if needed and self._whole:
            remedy = f"write it on every line{_ELSEWHERE}{WITHOUT_SEQ if key == 'seq' else ''}"
            self._fault(key, "missing", "is missing", remedy)
        return True

    def text(
        self, key: str, max_bytes: int, *, needed: bool = False, otherwise: str | None = None
    ) -> str | None:
        if self._absent(key, needed=needed):
            return otherwise if self._whole else None
        value = self._values[key]
        if not isinstance(value, str):
            self._fault(key, "not_text", f"is {_shown(value)}", "write text in quotes")
        elif not value:
            self._fault(key, "empty", "is empty", "write a name")
        elif len(value.encode("utf-8", "surrogatepass")) > max_bytes:
            self._fault(key, "huge", "is too long", f"write at most {max_bytes} bytes")
        else:
            return value
        return None

    def integer(
        self, key: str, low: int, high: int, *, needed: bool = False, remedy: str = ""
    ) -> int | None:
        if self._absent(key, needed=needed):
            return None
        value = self._values[key]
        # With `:d`, since mypyc loses what it spells of a large number otherwise.
        remedy = remedy or f"write an integer from {low:d} to {high:d}"
        if type(value) is not int:
            # The JSON reader hands over what is beyond 64 bits as floating point.
            beyond = isinstance(value, float) and not -(2.0**63) < value < 2.0**63
            self._fault(key, "huge" if beyond else "not_integer", f"is {_shown(value)}", remedy)
        elif value < low and low == 0:
            self._fault(key, "negative", f"is {_shown(value)}", remedy)
        elif not low <= value <= high:
            self._fault(key, "huge", f"is {_shown(value)}", remedy)
        else:
            return value
        return None

    def time_ns(self, key: str, unit_ns: int | None) -> int | None:
        """An integer of the unit, or RFC 3339; None means ns alone."""
        if unit_ns is None:
            remedy = "write an integer in ns, or the unit as headers: {ts_unit: ms}"
            return self.integer(key, -MAX_INT64, MAX_INT64, remedy=remedy)
        value = self._values.get(key)
        instant_ns = _instant_ns(value)
        if instant_ns is None:
            unit = next(unit for unit, each_ns in UNIT_NS.items() if each_ns == unit_ns)
            remedy = f"write an integer in {unit}, or text like 2024-05-01T12:00:00.25Z"
            most = MAX_INT64 // unit_ns
            amount = self.integer(key, -most, most, remedy=remedy)
            return None if amount is None else amount * unit_ns
        if not -MAX_INT64 <= instant_ns <= MAX_INT64:
            self._fault(key, "huge", f"is {_shown(value)}", "write a time between 1678 and 2261")
            return None
        return instant_ns

    def label(self) -> str:
        value = self._values.get("type")
        if value is not None and not isinstance(value, str):
            self._fault("type", "not_text", f"is {_shown(value)}", "write text in quotes")
        return value if isinstance(value, str) else ""

    def kind(self) -> str:
        value = self._values.get("kind")
        if value is None:
            return DATA
        if not isinstance(value, str) or value not in PRODUCER_KINDS:
            remedy = "write heartbeat, bye, or leave it out"
            self._fault("kind", "unknown", f"is {_shown(value)}", remedy)
            return DATA
        return value


def _instant_ns(value: Any) -> int | None:
    if not isinstance(value, str) or not value.isascii():
        return None
    return rfc3339.parse_ns(value.encode())


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
