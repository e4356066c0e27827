"""Reads recorded lines as events, clock samples and declared offsets.

    {"source": "s1", "seq": 17, "ts": …, "arrival": …, "type": "A", "stream": "default",
     "epoch": 0, "payload": {"x": 1}}
    {"kind": "heartbeat" | "bye", "source": "s1", "seq": 18, "ts": …}
    {"clock": "s1", "t1": …, "t2": …, "t3": …, "t4": …}
    {"clock": "s1", "at": …, "offset": …, "error": …}    (offset null: no longer declared)

`source` and `seq` are required. Null is the same as absent, and other keys are ignored. `stream`
defaults to the only stream, or to `default` if there are several; `type` defaults to empty and
`payload` to null. REORDER assigns a missing epoch. Times are integer nanoseconds, except that `ts`
is an integer in the stream's `headers.ts_unit`. If that unit is not ns, `ts` may also be RFC 3339
text.

The position of a line is its `offset`, as in a dump, or else its line number. In a stream without
sequence numbers it replaces the number of an event (`topology.wire.checker`).

* The arrival clock never goes back: an `arrival` below the one before is replaced by the one
  before. A reader with `judges` does not believe an `arrival` that is wrongly far ahead
  (`topology.model.append_clock`).
* The line of the first event shows whether the lines have arrival times (`bears_arrivals`). If they
  do not, nothing is learned about clocks (`topology.config.Topology.without_arrivals`).
* Without `arrival`, the arrival time of an event is the largest `ts` of the good lines up to it,
  but not after 2100. A single `ts` far ahead does not count (`topology.model.stamp_clock`). A line
  with an `arrival` after 2100 or below 0 is a dead letter.
* Without `ts`, the timestamp is the arrival time.
* A clock line has the arrival time of the line before it. A clock line before all events precedes
  everything. It may have its own, later `arrival`, which does not advance the clock.
* A bad line has the arrival time of the line before it if its own `arrival` is missing or bad.

Integers are integers: `1.0`, `"17"` and `true` are not. Ranges are those of the header contract. A
bad line becomes a `Malformed` whose offset is the line number. Besides the reasons of fields, its
reason may be `line_not_json`, `line_not_object`, `line_huge`, `row_not_csv`, `row_ragged`,
`row_undecodable`, `payload_not_json` or `clock_missing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from inorder.contract import MAX_EPOCH, MAX_INT64, MAX_SOURCE_BYTES, MIN_INT64, UNIT_NS
from topology.model.append_clock import AppendClock
from topology.model.event import NO_EPOCH, Event
from topology.model.outcome import Malformed
from topology.model.sample import Declared, Sample
from topology.model.stamp_clock import StampClock, Step
from topology.wire.checker import AS_WRITTEN, SHORT, UNREAD, Look, Reading, in_ns
from topology.wire.clock_words import word_of
from topology.wire.reasons import WireFault, times_in

BEFORE_EVERYTHING_NS: Final = MIN_INT64
"""The arrival time of a clock line that no event precedes."""

MAX_ARRIVAL_NS: Final = 4_102_444_800_000_000_000
"""The latest arrival time, in 2100. An instant soon after it is still before `NEVER`."""
_UNITS: Final = {unit_ns: unit for unit, unit_ns in UNIT_NS.items()}
UNREAD_FIELDS: Final = {"source": UNREAD, "seq": UNREAD, "stream": UNREAD}
"""The fields of a row that could not be read at all; the row has a single fault for all of them."""


class Row(NamedTuple):
    """A row of a recording.

    Attributes:
        number: The line number, from 1; in a Parquet file, the row number.
        values: The values by key.
        fault: The fault because of which the row cannot be read, or None.
        ts_is_instant: Whether `ts` is in ns already, whatever the stream's `ts_unit` is.
    """

    number: int
    values: Mapping[str, Any]
    fault: WireFault | None = None
    ts_is_instant: bool = False


Content = Event | Malformed | Sample | Declared
"""The content of a line; its `offset` is the line number."""

LOOKED_AHEAD: Final = 10_000
"""The maximum number of contents that are examined to find the first event."""


def bears_arrivals(contents: Iterable[Content]) -> tuple[bool, Iterator[Content]]:
    """Return whether the first event's line has an arrival time, and an iterator of all contents.

    The answer is True if there is no event among the first `LOOKED_AHEAD` contents.
    """
    contents = iter(contents)
    seen: list[Content] = []
    for content in contents:
        seen.append(content)
        if isinstance(content, Event):
            return content.record.get("arrival") is not None, chain(seen, contents)
        if len(seen) >= LOOKED_AHEAD:
            break
    return True, chain(seen, contents)


class LineReader:
    """A reader that turns rows, in their order, into contents and advances the arrival clock.

    The clock starts at `arrival_ns`, or with the first line. With `judges`, an arrival time that is
    wrongly far ahead is corrected.

    Attributes:
        arrival_ns: The arrival clock, or None before the first line.
        stamps: The clock that gives lines without arrival their arrival times.
    """

    def __init__(
        self,
        reading: Reading = AS_WRITTEN,
        arrival_ns: int | None = None,
        *,
        judges: bool = False,
    ) -> None:
        self._reading = reading
        self._by_time, self._units_ns, self._unnamed, self._mixed, max_ahead_ns = reading
        self.arrival_ns = arrival_ns
        self._log = AppendClock() if judges else None
        self.stamps = StampClock(max_ahead_ns)

    def begun(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Return the rows of a whole recording, once their first timestamps have begun the clock.

        It looks ahead to the second timestamp, by at most `LOOKED_AHEAD` rows.
        """
        rows = iter(rows)
        seen: list[Row] = []
        self.stamps.begin(self._steps(islice(rows, LOOKED_AHEAD), seen))
        return chain(seen, rows)

    def _steps(self, rows: Iterable[Row], seen: list[Row]) -> Iterator[Step]:
        """Yield the timestamps of rows, and append each row that was read to `seen`."""
        ahead = LineReader(self._reading)
        for row in rows:
            seen.append(row)
            content = ahead.read(row)
            if isinstance(content, Event) and row.values.get("ts") is not None:
                yield Step(min(content.ts_ns, MAX_ARRIVAL_NS), content.source)

    def read(self, row: Row) -> Content:
        values = row.values
        if row.fault is not None:
            return self._examined(row)
        if values.get("clock") is not None:
            return self._clock_line(row)
        # A plain line becomes an event directly; all others go through the full check.
        get = values.get
        stream, source, epoch, seq = get("stream"), get("source"), get("epoch"), get("seq")
        ts_ns, arrival_ns, type_ = get("ts"), get("arrival"), get("type")
        name = self._unnamed if stream is None else stream
        is_mixed = False
        if (self._by_time or self._mixed) and type(name) is str:
            is_mixed = seq is None and name in self._mixed
            if is_mixed or name in self._by_time:
                seq = _place(row)
        if (
            type(source) is str
            and type(seq) is int
            and 0 < len(source) <= SHORT
            and 0 <= seq <= MAX_INT64
            and (ts_ns is None or (type(ts_ns) is int and -MAX_INT64 <= ts_ns <= MAX_INT64))
            and (
                arrival_ns is None
                or (type(arrival_ns) is int and 0 <= arrival_ns <= MAX_ARRIVAL_NS)
            )
            and (stream is None or (type(stream) is str and 0 < len(stream) <= SHORT))
            and (epoch is None or (type(epoch) is int and 0 <= epoch <= MAX_EPOCH))
            and (type_ is None or type(type_) is str)
            and get("kind") is None
        ):
            if ts_ns is not None and name in self._units_ns and not row.ts_is_instant:
                ts_ns *= self._units_ns[name]
            if ts_ns is None or -MAX_INT64 <= ts_ns <= MAX_INT64:
                at_ns = self._arrive(arrival_ns, ts_ns, source)
                event = Event(
                    name,
                    source,
                    NO_EPOCH if epoch is None else epoch,
                    ~seq if is_mixed else seq,
                    at_ns if ts_ns is None else ts_ns,
                    at_ns,
                    row.number,
                    values,
                    values.get("payload"),
                    type_ or "",
                )
                event.is_stamped = _is_stamped(row, ts_ns, arrival_ns)
                return event
        return self._examined(row)

    def _arrive(self, arrival_ns: int | None, ts_ns: int | None, source: str) -> int:
        """Advance the arrival clock by a good line, and return the line's arrival time."""
        if ts_ns is not None:
            self.stamps.take(min(ts_ns, MAX_ARRIVAL_NS), source)
        if arrival_ns is None:
            arrival_ns = self.stamps.now_ns
        elif self._log is not None and arrival_ns >= (self._log.now_ns or arrival_ns):
            arrival_ns = self._log.take(arrival_ns, ts_ns)
        return self._advance(arrival_ns)

    def _advance(self, arrival_ns: int | None) -> int:
        before_ns = self.arrival_ns
        if before_ns is not None and (arrival_ns is None or arrival_ns < before_ns):
            arrival_ns = before_ns
        self.arrival_ns = arrival_ns = arrival_ns or 0
        return arrival_ns

    def _examined(self, row: Row) -> Event | Malformed:
        """Return the event or dead letter of a row after the full check."""
        given = row.values
        values: dict[str, object] = dict(given)
        if row.fault is not None and not given:
            values = dict(UNREAD_FIELDS)
        stream = given.get("stream")
        name = self._unnamed if stream is None else stream
        unit_ns = 1
        if isinstance(name, str) and not row.ts_is_instant:
            unit_ns = self._units_ns.get(name, 1)
        if unit_ns > 1:
            values["ts"] = in_ns(given.get("ts"), unit_ns)
        times = times_in(_UNITS[unit_ns], also_text=unit_ns > 1)
        faults = [] if row.fault is None else [row.fault]
        look = Look(values, faults, given, {}, times)
        arrival_ns = look.integer("arrival", 0, MAX_ARRIVAL_NS)
        item = look.event(self._reading, _place(row), 0, 0, row.number, given, given.get("payload"))
        if isinstance(item, Malformed):
            item.at_ns = self._advance(arrival_ns)
            return item
        said_ns = item.ts_ns if item.is_stamped else None
        item.arrival_ns = item.at_ns = self._arrive(arrival_ns, said_ns, item.source)
        if said_ns is None:
            item.ts_ns = item.ref_time_ns = item.at_ns
        item.is_stamped = _is_stamped(row, said_ns, arrival_ns)
        return item

    def _clock_line(self, row: Row) -> Sample | Declared | Malformed:
        values = row.values
        look = Look(values, [], values, {})
        source = look.text("clock", MAX_SOURCE_BYTES)
        word = word_of(look, source or "", row.number)
        arrival_ns = look.integer("arrival", 0, MAX_ARRIVAL_NS)
        if look.faults or word is None:
            dead = look.malformed(self._advance(None), row.number, values)
            dead.source = source
            return dead
        before_ns = BEFORE_EVERYTHING_NS if self.arrival_ns is None else self.arrival_ns
        word.arrival_ns = before_ns if arrival_ns is None else max(arrival_ns, before_ns)
        return word


def _place(row: Row) -> int:
    """Return the position of a row: its `offset` if it has a valid one, or else its line number."""
    offset = row.values.get("offset")
    return offset if type(offset) is int and 0 <= offset <= MAX_INT64 else row.number


def _is_stamped(row: Row, ts_ns: int | None, arrival_ns: int | None) -> bool:
    """Return whether the timestamp is the source's own.

    `inorder dump` writes the arrival time as `ts` of a record without a timestamp, so an equal `ts`
    is not the source's own.
    """
    return ts_ns is not None and (row.ts_is_instant or ts_ns != arrival_ns)
