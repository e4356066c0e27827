"""Which input records a stage still holds, kept so that a checkpoint stays small.

Held events are in the input log already, so a checkpoint does not write them. It notes
their offsets, in pages of 2^`PAGE_BITS` offsets, and rewrites only the pages in which something
changed: the cost of a checkpoint grows with what moved since the last one, not with
what waits. Book is kept a batch at a time: what came and went within one batch was never noted, and
so is not looked at. A restore reads the input again from the oldest noted offset and takes just
the records noted; no deadline fires, nothing is sampled or counted.

An event that waits behind REORDER's stamp (in the merge of a fused stage) is noted with
what was found out about it, so it is never stamped twice. Whether an event is late is noted
wherever it waits: MERGE holds late events beside those in order, and copies of these may be among
them. An event held longer than
`spill_after` is written whole, once, so that the input may forget it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from topology.flow.registry import FIRST_PLACE
from topology.model.event import DATA, DEAD, Event
from topology.model.outcome import Gap, Malformed, Report

PAGE_BITS: Final = 5
STAMPED_FROM: Final = FIRST_PLACE << 1
"""Behind REORDER and CLOCK in a fused stage events bear their reference time."""

offset_of = attrgetter("offset")

ANYWHERE: Final = -1
"""All places."""

ANY_OFFSET: Final = 1 << 63
"""Above all offsets."""


class Note(msgspec.Struct, array_like=True, omit_defaults=True):
    """Who holds an event (`Event.held_by`), and what is known of it beyond its record.

    Times are 0 where they follow from the record. `late` is the reason why it is late, "" if it is
    not, whatever its record says. The fields from `epoch` on were found out if it `is_stamped`.
    """

    offset: int
    held_by: int
    arrival_ns: int = 0
    at_ns: int = 0
    late: str = ""
    epoch: int = -1
    seq: int = 0
    ref_time_ns: int = 0
    error_ns: int = 0
    segment: int = 0


class Spilled(msgspec.Struct, array_like=True):
    """An input record, whole."""

    offset: int
    timestamp: int
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


_stamped = attrgetter(*Note.__struct_fields__)
_late = attrgetter(*Note.__struct_fields__[:5])
_plain = attrgetter(*Note.__struct_fields__[:4])
NOTED: Final = Note.__struct_fields__[1:]
NOTED_PLAINLY: Final = Note.__struct_fields__[1:5]
_of_record = attrgetter(*Spilled.__struct_fields__)


def is_stamped(event: Event | Note) -> bool:
    """Return whether the event bears what was found out about it. Events held at a place from
    `STAMPED_FROM` on do; so do those from before the log (agents.stage.history), whose place in it
    is no number of theirs."""
    return event.held_by >= STAMPED_FROM or event.offset < 0


def notes_of(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Return the fields of a `Note` for each, as msgspec writes them, at a tenth of the cost of
    making these."""
    return [
        _stamped(event) if is_stamped(event) else _late(event) if event.late else _plain(event)
        for event in events
    ]


def apply_note(event: Event, note: Note) -> None:
    """Put a freshly read event back where and as it was."""
    for name in NOTED if is_stamped(note) else NOTED_PLAINLY:
        setattr(event, name, getattr(note, name))


class HeldPages:
    """The held events of one partition by page, and which pages changed.

    Events wait at the places `waiting`; all others keep what has passed for what may
    still come: windows of hours are read from the log again, never spilled.
    """

    def __init__(self, spill_after_ns: int, waiting: int) -> None:
        self._spill_after_ns = spill_after_ns
        self._waiting = waiting
        self._looked_at: set[int] = set()  # pages that hold nothing more to spill
        self._pages: dict[int, list[Event]] = {}
        self._written: set[int] = set()
        self._spilled: dict[int, int] = {}  # offset -> page
        self.touched: set[int] = set()

    def took(self, events: Sequence[Event]) -> None:
        """Note those of a batch, in log order, that are held after it."""
        held = [event for event in events if event.held_by]
        begin = 0
        while begin < len(held):
            page = held[begin].offset >> PAGE_BITS
            end = bisect_left(held, (page + 1) << PAGE_BITS, begin, key=offset_of)
            self._pages.setdefault(page, []).extend(held[begin:end])
            self.touched.add(page)
            begin = end

    def let_go(
        self, events: Sequence[Event], reports: Sequence[Report] = (), *, before: int = ANY_OFFSET
    ) -> None:
        """What passed on, within the stage or out of it, and what was reported. `before`: the first
        offset of the batch at hand, of which `took` says what there is to note."""
        self.touched.update([e.offset >> PAGE_BITS for e in events if e.offset < before])
        for report in reports:
            if isinstance(report, Malformed):
                self.touched.add(report.offset >> PAGE_BITS)
            elif not isinstance(report, Gap):
                self.touched.add(report.event.offset >> PAGE_BITS)

    def by_stream(self, streams: Iterable[str], now_ns: int) -> dict[str, tuple[int, int]]:
        """Return how many events of each stream wait, and for how long the first has waited.

        Dead letters that hold a place do not count.
        """
        counts = dict.fromkeys(streams, 0)
        since_ns = dict.fromkeys(counts, now_ns)
        for event in self._held(self._waiting):
            stream = event.stream
            if event.kind == DATA and stream in counts:
                counts[stream] += 1
                if event.arrival_ns < since_ns[stream]:
                    since_ns[stream] = event.arrival_ns
        return {stream: (held, now_ns - since_ns[stream]) for stream, held in counts.items()}

    def oldest(self) -> Event | None:
        """Return the first in the log that waits here, be it only for its number."""
        return min(self._held(self._waiting), key=offset_of, default=None)

    def _held(self, places: int = ANYWHERE) -> Iterator[Event]:
        """Yield the events that are held at these places."""
        for events in self._pages.values():
            for event in events:
                if event.held_by & places:
                    yield event

    def __len__(self) -> int:
        return sum(1 for _ in self._held())

    def needed_from(self, next_offset: int) -> int:
        """The first offset that a restore from the last changes reads again."""
        for page in sorted(self._pages):
            held = [e.offset for e in self._pages[page] if e.held_by]
            if waiting := [offset for offset in held if offset not in self._spilled]:
                return max(0, min(waiting))
        return next_offset

    def first_offset(self) -> int | None:
        """Return the first offset that is held, in the state whole or not."""
        return min(map(offset_of, self._held()), default=None)

    def touch_all(self) -> bool:
        """The next changes are of all pages; False where events are in the state whole, which is
        too much to write again."""
        if self._spilled:
            return False
        self.touched.update(self._pages)
        return True

    def changes(self, now_ns: int) -> Iterator[tuple[str, Any]]:
        """(key, value or None) of what changed since the last call."""
        yield from self._spill(now_ns)
        for page in sorted(self.touched):
            events = self._pages.get(page)
            if events is None:
                continue
            kept = [event for event in events if event.held_by]
            if kept:
                self._pages[page] = kept
                self._written.add(page)
                yield f"page/{page}", notes_of(kept)
            else:
                del self._pages[page]
                self._looked_at.discard(page)
                if page in self._written:
                    self._written.discard(page)
                    yield f"page/{page}", None
        yield from self._forget_spilled()
        self.touched.clear()

    def _spill(self, now_ns: int) -> Iterator[tuple[str, Any]]:
        self._looked_at -= self.touched
        for page, events in self._pages.items():
            if page in self._looked_at:
                continue
            if not events or events[0].arrival_ns + self._spill_after_ns >= now_ns:
                return
            self._looked_at.add(page)
            for event in events:
                if event.kind == DEAD:
                    continue  # only its number waits; it may be too large to be written
                if event.held_by & self._waiting and event.offset not in self._spilled:
                    self._spilled[event.offset] = page
                    yield f"record/{event.offset}", Spilled(*_of_record(event.record))

    def _forget_spilled(self) -> Iterator[tuple[str, Any]]:
        if not self._spilled:
            return
        pages = [self._pages.get(page, ()) for page in self.touched]
        held = {event.offset for events in pages for event in events if event.held_by}
        gone = [o for o, page in self._spilled.items() if page in self.touched and o not in held]
        for offset in gone:
            del self._spilled[offset]
            yield f"record/{offset}", None

    def restore(
        self, events: Iterable[Event], notes: Mapping[int, Note], spilled: Iterable[int]
    ) -> None:
        """Take over what a state has. `events`: as the operators have taken them back; `notes`:
        theirs, by offset, and those of events that could not be read, which are removed."""
        found = {event.offset: event for event in events}
        for offset in sorted(notes):
            page, event = offset >> PAGE_BITS, found.get(offset)
            self._pages.setdefault(page, []).extend([] if event is None else [event])
            self._written.add(page)
            if event is None or event.held_by != notes[offset].held_by:
                self.touched.add(page)  # noted by mistake: an operator did not take it
        self._spilled = {offset: offset >> PAGE_BITS for offset in spilled}
