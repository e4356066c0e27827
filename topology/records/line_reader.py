"""Reads recorded lines as events, clock samples and declared offsets.

    {"source": "s1", "seq": 17, "ts": …, "arrival": …, "type": "A", "stream": "default",
     "epoch": 0, "payload": {"x": 1}}
    {"kind": "heartbeat" | "bye", "source": "s1", "seq": 18, "ts": …}
    {"clock": "s1", "t1": …, "t2": …, "t3": …, "t4": …}
    {"clock": "s1", "at": …, "offset": …, "error": …}    (offset null: no longer declared)

`source` and `seq` are required. Null is the same as absent, and other keys are ignored. `stream`
defaults to the only stream, or to `default` if there are several; `type` defaults to empty and
`payload` to null. A line has an `id` only in streams whose `fields` map one. REORDER assigns a
missing epoch. Times are integer nanoseconds, except that `ts` is an integer in the stream's
`headers.ts_unit`. If that unit is not ns, `ts` may also be RFC 3339 text.

The position of a line is its `offset`, as in a dump, or else its line number. In a stream without
sequence numbers it replaces the number of an event (`topology.records.checker`).

* The arrival clock never goes back: an `arrival` below the one before is replaced by the one
  before. A reader with `judges` does not believe an `arrival` that is wrongly far ahead
  (`topology.base.append_clock`).
* The line of the first event shows whether the lines have arrival times (`peek_arrivals`). If they
  do not, nothing is learned about clocks (`Topology.without_arrivals`).
* Without `arrival`, the arrival time of an event is the largest `ts` of the good lines up to it,
  but not after 2100. A single `ts` far ahead does not count (`topology.base.stamp_clock`). A line
  with an `arrival` after 2100 or below 0 is a dead letter.
* Without `ts`, the timestamp is the arrival time.
* A clock line has the arrival time of the line before it. A clock line before all events precedes
  everything. It may have its own, later `arrival`, which does not advance the clock.
* A bad line has the arrival time of the line before it if its own `arrival` is missing or bad.

Integers are integers: `1.0`, `"17"` and `true` are not. Ranges are those of the header contract. A
bad line becomes a `Malformed` whose offset is the line number. Besides the reasons of fields, its
reason may be `line_not_json`, `line_not_object`, `line_huge`, `row_not_csv`, `row_ragged`,
`row_undecodable`, `payload_not_json` or `clock_missing`.

`LineReader.read` defines what a row means. The methods that read many rows at once build plain
events in one loop, and pass every other row to `read`. They take less than half of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from inorder.contract import MAX_EPOCH, MAX_INT64, MAX_SOURCE_BYTES, MIN_INT64, UNIT_NS
from topology.base.append_clock import AppendClock
from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.base.sample import Declared, Sample
from topology.base.stamp_clock import StampClock, UnconfirmedStamp
from topology.records.checker import AS_WRITTEN, SHORT, UNREAD, Look, Reading, decode_field, to_ns
from topology.records.clock_words import report_from_fields
from topology.records.reasons import WireFault, describe_times

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


class LineContents(NamedTuple):
    """The contents of several lines.

    Attributes:
        contents: The contents, in the order of the lines.
        others: Those that are not plain events, so that a caller need not look at all contents.
    """

    contents: list[Content]
    others: list[Content]


FIELDS: Final = (
    "stream", "source", "epoch", "seq", "ts", "arrival", "type", "payload", "kind", "clock",
)  # fmt: skip
"""The keys of a line that decide whether it is a plain event."""

Fields = tuple[Any, Any, Any, Any, Any, Any, Any, Any, Any, Any]
"""The values under `FIELDS`; None for an absent one."""

_NOT_PLAIN: Final[Fields] = (None,) * 10

AT_ONCE: Final = 64
"""The number of rows of a recording that are read at once."""

LOOKED_AHEAD: Final = 10_000
"""The maximum number of contents that are examined to find the first event."""


def peek_arrivals(contents: Iterable[Content]) -> tuple[bool, Iterator[Content]]:
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


def split_rows(rows: Iterable[Row], most: int) -> Iterator[list[Row]]:
    """Yield the rows in lists of `most`, and the last ones before an exception of the iterable."""
    rows = iter(rows)
    while True:
        piece: list[Row] = []
        failure: Exception | None = None
        try:
            for row in islice(rows, most):
                piece.append(row)  # noqa: PERF402 - a piece that is not whole is kept as well
        except Exception as raised:  # noqa: BLE001 - it is raised below
            failure = raised
        if piece:
            yield piece
        if failure is not None:
            raise failure
        if len(piece) < most:
            return


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
        self._by_time, self._units_ns, self._unnamed, self._mixed, max_ahead_ns, ids = reading
        self._ids = ids
        self.arrival_ns = arrival_ns
        self._log = AppendClock() if judges else None
        self.stamps = StampClock(max_ahead_ns)

    def begin(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Return the rows of a whole recording, once their first timestamps have begun the clock.

        It looks ahead to the second timestamp, by at most `LOOKED_AHEAD` rows.
        """
        rows = iter(rows)
        seen: list[Row] = []
        self.stamps.begin(self._iter_steps(islice(rows, LOOKED_AHEAD), seen))
        return chain(seen, rows)

    def _iter_steps(self, rows: Iterable[Row], seen: list[Row]) -> Iterator[UnconfirmedStamp]:
        """Yield the timestamps of rows, and append each row that was read to `seen`."""
        ahead = LineReader(self._reading)
        for row in rows:
            seen.append(row)
            content = ahead.read(row)
            if isinstance(content, Event) and row.values.get("ts") is not None:
                yield UnconfirmedStamp(min(content.ts_ns, MAX_ARRIVAL_NS), content.source)

    def read_at(self, row: Row, now_ns: int) -> Content:
        """Return the content of a row that is read at `now_ns`.

        It is the arrival time of a row without one, and the earliest arrival time of any other.
        """
        own = row.values.get("arrival")
        if own is None or (type(own) is int and 0 <= own < now_ns):
            row = row._replace(values={**row.values, "arrival": now_ns})
        content = self.read(row)
        if isinstance(content, Malformed) and content.at_ns < now_ns:
            # The arrival time of this row could not be read.
            content.at_ns = now_ns
        return content

    def read_many(self, rows: Sequence[Row]) -> list[Content]:
        """Return the content of each row, as `read` would one after the other."""
        if not rows:
            return []
        is_instant = rows[0].ts_is_instant
        fields = [
            _fields_of(row.values)
            if row.fault is None and row.ts_is_instant is is_instant
            else _NOT_PLAIN
            for row in rows
        ]
        numbers, records = [row.number for row in rows], [row.values for row in rows]
        return self._read_all(
            numbers, records, fields, rows.__getitem__, is_instant=is_instant
        ).contents

    def read_lines(
        self, first: int, lines: Sequence[dict[str, Any]], now_ns: int | None = None
    ) -> LineContents:
        """Return the contents of lines, as `read` or `read_at` would one after the other.

        Args:
            first: The number of the first line; the others follow one by one.
            lines: The values of each line, by key.
            now_ns: The time at which the lines are read; see `read_at`.
        """

        def row_of(at: int) -> Row:
            return Row(first + at, lines[at])

        fields = [_fields_of(line) for line in lines]
        numbers = range(first, first + len(lines))
        return self._read_all(numbers, lines, fields, row_of, now_ns)

    def read_columns(
        self,
        first: int,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
        now_ns: int | None = None,
    ) -> LineContents:
        """Return the contents of lines whose values are given by position.

        The record of a plain event is its row.

        Args:
            first: The number of the first line; the others follow one by one.
            names: The key of each position, without repetitions.
            rows: The values of each line, as many as there are names.
            now_ns: The time at which the lines are read; see `read_at`.
        """

        def row_of(at: int) -> Row:
            return Row(first + at, dict(zip(names, rows[at], strict=True)))

        absent = (None,) * len(rows)
        fields = zip(
            *(
                map(itemgetter(names.index(field)), rows) if field in names else absent
                for field in FIELDS
            ),
            strict=True,
        )
        numbers = range(first, first + len(rows))
        return self._read_all(numbers, rows, fields, row_of, now_ns)

    def _read_all(
        self,
        numbers: Sequence[int],
        records: Sequence[Any],
        fields: Iterable[Fields],
        row_of: Callable[[int], Row],
        now_ns: int | None = None,
        *,
        is_instant: bool = False,
    ) -> LineContents:
        """Return the contents of lines whose values are picked already.

        `row_of` returns the row of a position, for a line that is not a plain event.
        """
        contents: list[Content] = []
        others: list[Content] = []
        log, stamps, max_ahead_ns = self._log, self.stamps, self._reading.max_ahead_ns
        units_ns = {} if is_instant else self._units_ns
        unnumbered = self._by_time | self._mixed
        clock_ns, newest_ns = self.arrival_ns, stamps.now_ns
        for number, record, given in zip(numbers, records, fields, strict=True):
            stream, source, epoch, seq, ts_ns, arrival_ns, type_, value, kind, clock = given
            name = self._unnamed if stream is None else stream
            own_ns = arrival_ns
            if now_ns is not None and (
                own_ns is None or (type(own_ns) is int and 0 <= own_ns < now_ns)
            ):
                own_ns = now_ns
            if (
                type(source) is str
                and type(seq) is int
                and type(ts_ns) is int
                and kind is None
                and clock is None
                and type(name) is str
                and 0 < len(source) <= SHORT
                and 0 <= seq <= MAX_INT64
                and (own_ns is None or (type(own_ns) is int and 0 <= own_ns <= MAX_ARRIVAL_NS))
                and (stream is None or 0 < len(stream) <= SHORT)
                and (epoch is None or (type(epoch) is int and 0 <= epoch <= MAX_EPOCH))
                and (type_ is None or type(type_) is str)
                and not (unnumbered and name in unnumbered)
            ):
                if units_ns and name in units_ns:
                    ts_ns *= units_ns[name]
                if -MAX_INT64 <= ts_ns <= MAX_ARRIVAL_NS:
                    # This is `_advance_by_line` for the usual timestamp, which rises.
                    if (
                        newest_ns is None
                        or ts_ns > newest_ns + max_ahead_ns
                        or stamps.doubted is not None
                    ):
                        newest_ns = stamps.take(ts_ns, source)
                    elif ts_ns > newest_ns:
                        stamps.now_ns = newest_ns = ts_ns
                    at_ns = newest_ns if own_ns is None else own_ns
                    if log is not None and own_ns is not None and own_ns >= (log.now_ns or own_ns):
                        at_ns = log.take(own_ns, ts_ns)
                    if clock_ns is not None and at_ns < clock_ns:
                        at_ns = clock_ns
                    self.arrival_ns = clock_ns = at_ns
                    event = Event(
                        name,
                        source,
                        NO_EPOCH if epoch is None else epoch,
                        seq,
                        ts_ns,
                        at_ns,
                        number,
                        record,
                        value,
                        type_ or "",
                    )
                    if ts_ns == own_ns and not is_instant:
                        event.is_stamped = False
                    contents.append(event)
                    continue
            row = row_of(len(contents))
            content = self.read(row) if now_ns is None else self.read_at(row, now_ns)
            clock_ns, newest_ns = self.arrival_ns, stamps.now_ns
            contents.append(content)
            others.append(content)
        return LineContents(contents, others)

    def read(self, row: Row) -> Content:
        values = row.values
        if row.fault is not None:
            return self._examine(row)
        if values.get("clock") is not None:
            return self._read_clock_line(row)
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
                if name in self._ids and get("id") is not None:
                    return self._examine(row)
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
                at_ns = self._advance_by_line(arrival_ns, ts_ns, source)
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
        return self._examine(row)

    def _advance_by_line(self, arrival_ns: int | None, ts_ns: int | None, source: str) -> int:
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

    def _examine(self, row: Row) -> Event | Malformed:
        """Return the event or dead letter of a row after the full check."""
        given = row.values
        values: dict[str, object] = dict(given)
        if self._ids:
            values["id"] = decode_field("id", given.get("id"))
        if row.fault is not None and not given:
            values = dict(UNREAD_FIELDS)
        stream = given.get("stream")
        name = self._unnamed if stream is None else stream
        unit_ns = 1
        if isinstance(name, str) and not row.ts_is_instant:
            unit_ns = self._units_ns.get(name, 1)
        if unit_ns > 1:
            values["ts"] = to_ns(given.get("ts"), unit_ns)
        times = describe_times(_UNITS[unit_ns], also_text=unit_ns > 1)
        faults = [] if row.fault is None else [row.fault]
        look = Look(values, faults, given, {}, times)
        arrival_ns = look.read_integer("arrival", 0, MAX_ARRIVAL_NS)
        item = look.event(self._reading, _place(row), 0, 0, row.number, given, given.get("payload"))
        if isinstance(item, Malformed):
            item.at_ns = self._advance(arrival_ns)
            return item
        said_ns = item.ts_ns if item.is_stamped else None
        item.arrival_ns = item.at_ns = self._advance_by_line(arrival_ns, said_ns, item.source)
        if said_ns is None:
            item.ts_ns = item.ref_time_ns = item.at_ns
        item.is_stamped = _is_stamped(row, said_ns, arrival_ns)
        return item

    def _read_clock_line(self, row: Row) -> Sample | Declared | Malformed:
        values = row.values
        look = Look(values, [], values, {})
        source = look.text("clock", MAX_SOURCE_BYTES)
        word = report_from_fields(look, source or "", row.number)
        arrival_ns = look.read_integer("arrival", 0, MAX_ARRIVAL_NS)
        if look.faults or word is None:
            dead = look.make_malformed(self._advance(None), row.number, values)
            dead.source = source
            return dead
        before_ns = BEFORE_EVERYTHING_NS if self.arrival_ns is None else self.arrival_ns
        word.arrival_ns = before_ns if arrival_ns is None else max(arrival_ns, before_ns)
        return word


def _fields_of(line: Mapping[str, Any]) -> Fields:
    get = line.get
    return (
        get("stream"),
        get("source"),
        get("epoch"),
        get("seq"),
        get("ts"),
        get("arrival"),
        get("type"),
        get("payload"),
        get("kind"),
        get("clock"),
    )


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
