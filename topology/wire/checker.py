"""The one check of records, whatever they are: raw fields in, an `Event` or a `Malformed` out.

Readers of headers, of lines and of mapped records extract the raw fields, each in its own way, and
take a short way where all is plain. Every other record is looked at here, which is the definition.
What breaks the contract is a `Malformed`, never an exception (`topology.wire.reasons`).

What could be read is in the `Malformed`; where stream, source and seq are there, the record still
takes its place in the sequence (an epoch that could not be read is None, and REORDER takes the one
the source is in). A stream that the topology does not name is the router's matter.

In a stream with `reorder.rule: time` the place of a record is its number, whatever its `seq` says
or does not say: so numbers that are none do no harm, and a copy cannot be recognized. A record
whose place is below 0 is from before the log (agents.stage.history) and bears its number. Under
`without_seq: by_time` a record without a number is taken: the `seq` of its event is the complement
of its place, which is below 0, until REORDER (topology.reorder.mixed) has seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from inorder.contract import (
    DATA,
    DEFAULT_STREAM,
    MAX_EPOCH,
    MAX_INT64,
    MAX_SEQ,
    MAX_SOURCE_BYTES,
    MAX_STREAM_BYTES,
    PRODUCER_KINDS,
)
from topology.model.event import NO_EPOCH, Event
from topology.model.outcome import Malformed
from topology.wire.reasons import HUGE, UNREADABLE, WireFault, fault_of, integers_in, rank

MAX_DIGITS: Final = 19
"""An integer of so many may fit 64 bits."""

BEYOND: Final = 10**MAX_DIGITS
SHOWN: Final = 40
MAX_NAMED: Final = 3
"""Streams named in a detail."""

UNREAD: Final = object()
"""A raw field of which nothing could be made out; a fault says why."""

Tell = Callable[[str, str], str]


class Look:
    """A close look at one record: what its raw fields say, and all that is wrong.

    `values`: by field; None: it is not there. `faults`: found before. `places`: what a detail calls
    a field, `tell` what it adds to a field's fault. `times`: those that are taken. What cannot be
    read is None, and in `unread`.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        faults: list[WireFault],
        places: Mapping[str, str],
        tell: Tell,
        times: str,
    ) -> None:
        self.values = values
        self.faults = faults
        self.unread = {field for field, value in values.items() if value is UNREAD}
        self._places = places
        self._tell = tell
        self._times = times

    def refuse(self, field: str, fault: str, takes: str = "") -> None:
        self.unread.add(field)
        place = self._places.get(field) or f"`{field}`"
        self.faults.append(fault_of(field, fault, place, takes, self._tell(field, fault)))

    def _found(self, field: str, *, needed: bool) -> object:
        """The raw field; None where it is absent or unread."""
        value = self.values.get(field)
        if value is None and needed:
            self.refuse(field, "missing")
        return None if value is UNREAD else value

    def text(self, field: str, max_bytes: int = 0, *, needed: bool = False) -> str | None:
        """A text without a bound may be empty."""
        value = self._found(field, needed=needed)
        if value is None:
            return None
        if isinstance(value, bytes):
            self.refuse(field, "undecodable")
        elif not isinstance(value, str):
            self.refuse(field, "not_text")
        elif max_bytes and not value:
            self.refuse(field, "empty")
        elif 0 < max_bytes < 4 * len(value) and size_of(value) > max_bytes:
            self.refuse(field, HUGE)
        else:
            return value
        return None

    def integer(
        self,
        field: str,
        low: int,
        high: int,
        *,
        needed: bool = False,
        otherwise: str = "not_integer",
    ) -> int | None:
        """`otherwise`: the fault of what is none."""
        value = self._found(field, needed=needed)
        if value is None:
            return None
        takes = self._times if otherwise == UNREADABLE else integers_in(low, high)
        if value == "":
            self.refuse(field, "empty")
        elif type(value) is not int:
            # Readers of JSON hand over what is beyond 64 bits as floating point.
            beyond = isinstance(value, float) and not -(2.0**63) < value < 2.0**63
            self.refuse(field, HUGE if beyond else otherwise, takes)
        elif value < low and low == 0:
            self.refuse(field, "negative", takes)
        elif not low <= value <= high:
            self.refuse(field, HUGE, takes)
        else:
            return value
        return None

    def kind(self) -> str:
        value = self._found("kind", needed=False)
        if value is None:
            return DATA
        if not isinstance(value, str) or value not in PRODUCER_KINDS:
            self.refuse("kind", "unknown")
            return DATA
        return value

    def malformed(self, at_ns: int, offset: int, record: Any) -> Malformed:
        """Nothing but its faults."""
        detail = "; ".join(fault.detail for fault in self.faults)
        return Malformed(at_ns, offset, self.faults[0].reason, detail, record=record)


class Checker:
    """Checks the records of streams that are read alike. `by_time`: those that number nothing,
    `mixed`: those in which some sources number nothing; `unnamed`: that of a record that names
    none. `needs_time`: the time of the record itself does not stand for `ts`."""

    def __init__(
        self,
        by_time: Iterable[str],
        mixed: Iterable[str],
        unnamed: str = DEFAULT_STREAM,
        *,
        needs_time: bool = False,
    ) -> None:
        self._by_time = frozenset(by_time)
        self._mixed = frozenset(mixed)
        self._unnamed = unnamed
        self._needs_time = needs_time

    def read(
        self,
        look: Look,
        place: int,
        otherwise_ns: int,
        arrival_ns: int,
        offset: int,
        record: Any,
        value: Any,
    ) -> Event | Malformed:
        """`place`: the number of a record without one; `otherwise_ns`: its time without a `ts`."""
        stream = look.text("stream", MAX_STREAM_BYTES)
        if look.values.get("stream") is None:
            stream = self._unnamed
        source = look.text("source", MAX_SOURCE_BYTES, needed=True)
        seq: int | None = place
        is_mixed = stream in self._mixed and look.values.get("seq") is None
        if place < 0 or not (is_mixed or stream in self._by_time):
            seq = look.integer("seq", 0, MAX_SEQ, needed=True)
        else:
            look.faults = [fault for fault in look.faults if not fault.reason.startswith("seq_")]
        epoch = look.integer("epoch", 0, MAX_EPOCH)
        if epoch is None and "epoch" not in look.unread:
            epoch = NO_EPOCH
        ts_ns = look.integer(
            "ts", -MAX_INT64, MAX_INT64, needed=self._needs_time, otherwise=UNREADABLE
        )
        time_ns = otherwise_ns if ts_ns is None else ts_ns
        if not -MAX_INT64 <= time_ns <= MAX_INT64:
            look.refuse("ts", HUGE)
        type_ = look.text("type") or ""
        kind = look.kind()
        if look.faults or stream is None or source is None or epoch is None or seq is None:
            look.faults.sort(key=rank)
            dead = look.malformed(arrival_ns, offset, record)
            if seq is None and self._by_time:
                named = ", ".join(f"`{name}`" for name in sorted(self._by_time)[:MAX_NAMED])
                dead.detail += f"; no number is needed in stream {named}"
            dead.stream, dead.source, dead.epoch = stream, source, epoch
            dead.seq = None if is_mixed else seq
            return dead
        event = Event(
            stream, source, epoch, seq, time_ns, arrival_ns, offset, record, value, type_, kind
        )
        event.is_stamped = ts_ns is not None
        if is_mixed and place >= 0:
            event.seq = ~place
        return event


def size_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def one_header(field: str, same: list[bytes], place: str, faults: list[WireFault]) -> object:
    """Return what the headers of one name say; UNREAD where they disagree."""
    if len(same) > 1:
        faults.append(fault_of(field, "repeated", place))
        if any(each != same[0] for each in same):
            return UNREAD
    return same[0] if same else None


def made_out(field: str, value: object) -> object:
    """Return the text or the number that bytes or a text spell, in a field of that name."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return value
    if field in {"seq", "epoch"} and isinstance(value, str):
        number = number_of(value)
        return -1 if number == 0 and value.startswith("-") else number
    if isinstance(value, int) and field not in {"seq", "epoch", "ts"}:
        return f"{value:d}" if not isinstance(value, bool) else "true" if value else "false"
    return value


def number_of(text: str) -> int | str:
    """Return the integer that ASCII digits spell, `BEYOND` for any of more digits than fit."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return text
    digits = digits.lstrip("0") or "0"
    number = int(digits) if len(digits) <= MAX_DIGITS else BEYOND
    return -number if text.startswith("-") else number


def telling(values: Mapping[str, object]) -> Tell:
    """Return what tells a fault's value."""
    return partial(_told, values)


def _told(values: Mapping[str, object], field: str, fault: str) -> str:
    value = values.get(field)
    if value is None or fault == "empty":
        return ""
    if isinstance(value, bytes):
        text = f"`{repr(value[:SHOWN])[2:-1]}"
        return f"{text}`" if len(value) <= SHOWN else f"{text}…` ({len(value)} bytes)"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
