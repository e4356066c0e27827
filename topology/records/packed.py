"""Packs the contents of lines as plain tuples, which `marshal` can write, and unpacks them.

Each tuple begins with its type, its line number and its arrival time. The records of events and
dead letters are left out.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.base.sample import Declared, Sample
from topology.records.line_reader import Content

EVENT: Final = 0
DEAD: Final = 1
SAMPLE: Final = 2
DECLARED: Final = 3
OF_LINE: Final = 1 << 64
"""A placeholder for a sequence number that is the line number.

The line number depends on earlier pieces of the input, so it is filled in later. An event without a
number (`without_seq: by_time`) has the complement of the placeholder.
"""

Packed = tuple[Any, ...]

_named: Final = attrgetter("stream", "source", "epoch")
_content: Final = attrgetter("type", "kind", "value", "is_stamped")
_times: Final = attrgetter("source", "t1_ns", "t2_ns", "t3_ns", "t4_ns")
_server: Final = attrgetter("server", "segment", "mono_ns")
_declared: Final = attrgetter("source", "at_ns", "offset_ns", "error_ns")


def pack_event(event: Event, number: int, ts_ns: int | None, seq: int | None) -> Packed:
    packed = (EVENT, number, event.arrival_ns, ts_ns, *_named(event), seq, *_content(event))
    return (*packed, event.digest) if event.digest else packed


def pack_dead(dead: Malformed, number: int, seq: int | None) -> Packed:
    named = (dead.reason, dead.detail, *_named(dead))
    return (DEAD, number, dead.at_ns, *named, seq, dead.kind)


def pack_report(word: Sample | Declared, number: int, offset: int | None = None) -> Packed:
    """Return a clock line in packed form; if `offset` is None, the line number is its offset."""
    if isinstance(word, Sample):
        return (SAMPLE, number, word.arrival_ns, offset, *_times(word), *_server(word))
    return (DECLARED, number, word.arrival_ns, offset, *_declared(word))


def unpack_content(packed: Packed, at_ns: int, number: int) -> Content:
    """Return the content of a packed line, with its final arrival time and line number."""
    form = packed[0]
    if form == EVENT:
        _, _, _, ts_ns, stream, source, epoch, seq, type_, kind, value, is_stamped, *digest = packed
        seq = _unpack_seq(seq, number)
        ts_ns = at_ns if ts_ns is None else ts_ns
        event = Event(stream, source, epoch, seq, ts_ns, at_ns, number, None, value, type_, kind)
        event.is_stamped = is_stamped
        if digest:
            event.digest = digest[0]
        return event
    if form == DEAD:
        _, _, _, reason, detail, stream, source, epoch, seq, kind = packed
        seq = _unpack_seq(seq, number)
        return Malformed(at_ns, number, reason, detail, stream, source, epoch, seq, None, kind)
    offset = number if packed[3] is None else packed[3]
    if form == SAMPLE:
        source, t1_ns, t2_ns, t3_ns, t4_ns, *server = packed[4:]
        return Sample(source, t1_ns, t2_ns, t3_ns, t4_ns, at_ns, offset, *server)
    source, from_ns, offset_ns, error_ns = packed[4:]
    return Declared(source, from_ns, offset_ns, error_ns, at_ns, offset)


def _unpack_seq(seq: Any, number: int) -> Any:
    return number if seq == OF_LINE else ~number if seq == ~OF_LINE else seq


def pack_as_read(content: Content) -> Packed:
    """Return the content in packed form for `unpack_as_read`, with its own number and arrival."""
    if isinstance(content, Event):
        return pack_event(content, content.offset, content.ts_ns, content.seq)
    if isinstance(content, Malformed):
        return pack_dead(content, content.offset, content.seq)
    return pack_report(content, content.offset)


def unpack_as_read(packed: Packed) -> Content:
    """Return the content that `pack_as_read` packed."""
    return unpack_content(packed, packed[2], packed[1])
