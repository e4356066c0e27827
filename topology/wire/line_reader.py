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

Integers are integers: `1.0`, `"17"` and `true` are not. Ranges are those of the header contract. A
bad line is a `Malformed` (topology.wire.checker) with the line's number as its offset; its place is
its `offset`, as in a dump, or else its number. Reasons beside those of fields are `line_not_json`,
`line_not_object`, `line_huge`, `row_not_csv`, `row_ragged`, `row_undecodable`, `payload_not_json`
and `clock_missing`.
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
    UNIT_NS,
)
from topology.model.append_clock import AppendClock
from topology.model.event import NO_EPOCH, Event
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
from topology.wire.checker import UNREAD, Checker, Look, telling
from topology.wire.reasons import WireFault, fault_of, times_in

BEFORE_EVERYTHING_NS: Final = MIN_INT64
"""Arrival of a clock line that no event precedes."""

# So many characters cannot be more bytes than allowed.
MAX_ARRIVAL_NS: Final = 4_102_444_800_000_000_000
"""The year 2100: what is due soon after it still comes before `NEVER`."""
_SHORT_SOURCE: Final = MAX_SOURCE_BYTES // 4
_SHORT_STREAM: Final = MAX_STREAM_BYTES // 4

_UNITS: Final = {unit_ns: unit for unit, unit_ns in UNIT_NS.items()}
DECLARED_BOUNDS: Final = {"offset": MAX_OFFSET_NS, "error": MAX_DECLARED_ERROR_NS}
_NOTHING: Final = {"source": UNREAD, "seq": UNREAD, "stream": UNREAD}
"""Stands for an unreadable row, so that no field of it is called missing."""


class Row(NamedTuple):
    """`number` is the line, from 1 (of a Parquet file: the row). `ts_is_instant`: `ts` was a time
    stamp with a unit of its own and is in ns, whatever the unit of numbers is. `is_mapped`: a
    mapping has found these values, and a fault names all that is wrong."""

    number: int
    values: Mapping[str, Any]
    fault: WireFault | None = None
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
        self._checker = Checker(self._by_time, self._mixed, self._unnamed)
        self._arrival_ns = arrival_ns
        self._log = AppendClock() if judges else None
        self._largest_ts_ns: int | None = None

    @property
    def clock(self) -> tuple[int | None, int | None]:
        """The arrival clock, and the largest `ts` of the good lines so far."""
        return self._arrival_ns, self._largest_ts_ns

    def read(self, row: Row) -> Content:
        values = row.values
        if row.fault is not None:
            return self._examined(row)
        if values.get("clock") is not None:
            return self._clock_line(row)
        # The plain case at one go; whatever is not plain is looked at closely.
        source, seq, ts_ns, arrival_ns = (
            values.get("source"),
            values.get("seq"),
            values.get("ts"),
            values.get("arrival"),
        )
        stream, epoch = values.get("stream"), values.get("epoch")
        type_ = values.get("type")
        name = self._unnamed if stream is None else stream
        is_mixed = False
        if (self._by_time or self._mixed) and type(name) is str:
            is_mixed = seq is None and name in self._mixed
            if is_mixed or name in self._by_time:
                seq = _place(row)
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
            if ts_ns is not None and name in self._units_ns and not row.ts_is_instant:
                ts_ns *= self._units_ns[name]
            if ts_ns is None or -MAX_INT64 <= ts_ns <= MAX_INT64:
                at_ns = self._arrive(arrival_ns, ts_ns)
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
        given = row.values
        values: dict[str, object] = dict(given)
        if row.fault is not None and (row.is_mapped or not given):
            values = _NOTHING | {key: each for key, each in given.items() if each is not None}
        stream, ts = given.get("stream"), given.get("ts")
        name = self._unnamed if stream is None else stream
        unit_ns = 1
        if isinstance(name, str) and not row.ts_is_instant:
            unit_ns = self._units_ns.get(name, 1)
        if type(ts) is int:
            values["ts"] = ts * unit_ns
        elif isinstance(ts, str) and ts and unit_ns > 1:
            ts_ns = rfc3339.parse_ns(ts.encode()) if ts.isascii() else None
            values["ts"] = ts if ts_ns is None else ts_ns
        times = times_in(_UNITS[unit_ns], also_text=unit_ns > 1)
        faults = [] if row.fault is None else [row.fault]
        look = Look(values, faults, {}, telling(given), times)
        arrival_ns = look.integer("arrival", 0, MAX_ARRIVAL_NS)
        number, payload = row.number, given.get("payload")
        item = self._checker.read(look, _place(row), 0, 0, number, given, payload)
        if isinstance(item, Malformed):
            item.at_ns = self._advance(arrival_ns)
            return item
        said_ns = item.ts_ns if item.is_stamped else None
        item.arrival_ns = item.at_ns = self._arrive(arrival_ns, said_ns)
        if said_ns is None:
            item.ts_ns = item.ref_time_ns = item.at_ns
        item.is_stamped = _is_stamped(row, said_ns, arrival_ns)
        return item

    def _clock_line(self, row: Row) -> Sample | Declared | Malformed:
        values = row.values
        look = Look(values, [], {}, telling(values), "")
        source = look.text("clock", MAX_SOURCE_BYTES)
        sampled = any(values.get(key) is not None for key in ROUND)
        withdrawn = not sampled and "offset" in values and values["offset"] is None
        keys = ROUND if sampled else ("at",) if withdrawn else ("at", "offset", "error")
        for key in keys:
            bound = DECLARED_BOUNDS.get(key, MAX_INT64)
            look.integer(key, 0 if key == "error" else -bound, bound)
            if values.get(key) is None:
                look.faults.append(fault_of("clock", "missing", f"`{key}`"))
        if values.get("server"):
            look.text("server", MAX_SERVER)
        look.integer("segment", 0, MAX_INT64)
        look.integer("mono", MIN_INT64, MAX_INT64)
        arrival_ns = look.integer("arrival", 0, MAX_ARRIVAL_NS)
        if look.faults or source is None:
            dead = look.malformed(self._advance(None), row.number, values)
            dead.source = source
            return dead
        before_ns = BEFORE_EVERYTHING_NS if self._arrival_ns is None else self._arrival_ns
        arrival_ns = before_ns if arrival_ns is None else max(arrival_ns, before_ns)
        word = read_word(source, values, arrival_ns, row.number)
        assert not isinstance(word, str), word  # all that could be wrong has been looked at
        return word


def _place(row: Row) -> int:
    """The number of a line that bears none."""
    offset = row.values.get("offset")
    return offset if type(offset) is int and 0 <= offset <= MAX_INT64 else row.number


def _is_stamped(row: Row, ts_ns: int | None, arrival_ns: int | None) -> bool:
    """Whether the stamp is the source's own: `inorder dump` writes the arrival of a record that has
    none as `ts`."""
    return ts_ns is not None and (row.ts_is_instant or ts_ns != arrival_ns)
