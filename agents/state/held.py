"""Records which input records a stage still buffers, so that a checkpoint stays small.

Buffered events are in the input log already, so a checkpoint does not write them. It has notes of
their offsets, in pages of 2^`PAGE_BITS` offsets, and rewrites only the pages that changed. So the
cost of a checkpoint grows with the changes since the last one, not with the number of buffered
events. Changes are recorded once for each batch: an event that arrives and is emitted within one
batch costs nothing. A restore reads the input again from the oldest recorded offset and takes only
the recorded events. Meanwhile no deadline fires, and nothing is sampled or counted.

A *place* is an operator that may buffer an event, one bit of `Event.held_by`. An event that waits
after REORDER and CLOCK (in the merge of a fused stage) is recorded with their results. So these
operators never process it twice. Every note says whether its event is late. MERGE buffers late
events together with those in order, and duplicates of these may be among them. The whole record of
an event that is buffered for longer than `spill_after` is written once, so the input may delete the
record.

This module is compiled, so it imports no library (setup.py). `agents.state.notes` defines what the
state has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from topology.flow.lanes import lane_of
from topology.flow.registry import FIRST_PLACE
from topology.model.event import DATA, DEAD, Event
from topology.model.outcome import Gap, Malformed, Report

PAGE_BITS: Final = 5
STAMPED_FROM: Final = FIRST_PLACE << 1
"""First place at which events have corrected timestamps: the merge of a fused stage."""

offset_of = attrgetter("offset")
_age = attrgetter("arrival_ns", "offset")
_of_record = attrgetter("offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""A function that returns the fields of a `Spilled`, in the form that msgspec encodes."""

ANYWHERE: Final = -1
"""Mask that selects all places at which events are buffered."""

ANY_OFFSET: Final = 1 << 63
"""An offset above all others."""


def notes_of(events: Sequence[Event]) -> list[tuple[object, ...]]:
    """Return the fields of a `Note` for each event, in the form that msgspec encodes.

    This costs a tenth of making `Note` objects.
    """
    notes: list[tuple[object, ...]] = []
    for e in events:
        if e.held_by >= STAMPED_FROM or e.offset < 0:  # The event `is_stamped`.
            results = (e.epoch, e.seq, e.ref_time_ns, e.error_ns, e.segment)
            notes.append((e.offset, e.held_by, e.arrival_ns, e.at_ns, e.late, *results))
        elif e.late:
            notes.append((e.offset, e.held_by, e.arrival_ns, e.at_ns, e.late))
        else:
            notes.append((e.offset, e.held_by, e.arrival_ns, e.at_ns))
    return notes


def pages_of(events: Iterable[Event]) -> dict[str, list[tuple[object, ...]]]:
    """Return the notes of events, which are sorted by offset, by the keys of their pages."""
    pages: dict[str, list[Event]] = {}
    for event in events:
        pages.setdefault(f"page/{event.offset >> PAGE_BITS}", []).append(event)
    return {key: notes_of(of_page) for key, of_page in pages.items()}


class HeldPages:
    """The buffered events of one partition by page, and the pages that changed.

    Events wait at the places `waiting`. The other places keep past events that later ones may need,
    as in windows of hours. Past events are read from the log again, and never written whole.
    """

    def __init__(self, spill_after_ns: int, waiting: int) -> None:
        self._spill_after_ns = spill_after_ns
        self._waiting = waiting
        self._looked_at: set[int] = set()  # Pages that have no more records to write whole.
        self._pages: dict[int, list[Event]] = {}
        self._written: set[int] = set()
        self._has_lanes = False  # Whether there were events of other lanes than the first.
        # The page of each offset whose whole record was written.
        self._spilled: dict[int, int] = {}
        self.touched: set[int] = set()

    def took(self, events: Sequence[Event]) -> None:
        """Record which events of a batch are still buffered; the events are in log order."""
        held = [event for event in events if event.held_by]
        begin = 0
        while begin < len(held):
            page = held[begin].offset >> PAGE_BITS
            end = bisect_left(held, (page + 1) << PAGE_BITS, begin, key=offset_of)
            self._pages.setdefault(page, []).extend(held[begin:end])
            self._has_lanes |= lane_of(held[begin].offset) > 0
            self.touched.add(page)
            begin = end

    def let_go(
        self, events: Sequence[Event], reports: Sequence[Report] = (), *, before: int = ANY_OFFSET
    ) -> None:
        """Mark as changed the pages of events that left their place or were reported.

        `before` is the first offset of the current batch, whose events `took` records.
        """
        self.touched.update([e.offset >> PAGE_BITS for e in events if e.offset < before])
        self._note_reports(reports)

    def let_go_of_lanes(
        self, events: Sequence[Event], reports: Sequence[Report], begins: Sequence[int]
    ) -> None:
        """Do the same for a task of several lanes, whose current batch begins at `begins`.

        `begins` has the first number of the batch for each lane, `ANY_OFFSET` for others.
        """
        self.touched.update([e.offset >> PAGE_BITS for e in events if e.offset < begins[e.lane]])
        self._note_reports(reports)

    def _note_reports(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if isinstance(report, Malformed):
                self.touched.add(report.offset >> PAGE_BITS)
            elif not isinstance(report, Gap):
                self.touched.add(report.event.offset >> PAGE_BITS)

    def by_stream(self, streams: Iterable[str], now_ns: int) -> dict[str, tuple[int, int]]:
        """Return, for each stream, the number of waiting events and the longest wait in ns.

        Events that stand for dead letters do not count.
        """
        counts = dict.fromkeys(streams, 0)
        since_ns = dict.fromkeys(counts, now_ns)
        for event in self._iter_held(self._waiting):
            stream = event.stream
            if event.kind == DATA and stream in counts:
                counts[stream] += 1
                if event.arrival_ns < since_ns[stream]:
                    since_ns[stream] = event.arrival_ns
        return {stream: (held, now_ns - since_ns[stream]) for stream, held in counts.items()}

    def oldest(self) -> Event | None:
        """Return the waiting event that arrived first; None if there is none.

        An event that stands for a dead letter counts, too.
        """
        return min(self._iter_held(self._waiting), key=_age, default=None)

    def _iter_held(self, places: int = ANYWHERE) -> Iterator[Event]:
        """Yield the events that are buffered at these places."""
        for events in self._pages.values():
            for event in events:
                if event.held_by & places:
                    yield event

    def __len__(self) -> int:
        """Return the number of events that wait, without past events kept for later ones."""
        return sum(1 for _ in self._iter_held(self._waiting))

    def needed_from(self, next_offset: int) -> int:
        """Return the first offset that a restore would read again, else `next_offset`."""
        for page in sorted(self._pages):
            held = [e.offset for e in self._pages[page] if e.held_by]
            if waiting := [offset for offset in held if offset not in self._spilled]:
                return max(0, min(waiting))
        return next_offset

    def has_any(self, lane: int, end: int) -> bool:
        """Return whether an event of a lane with a number below `end` is buffered.

        Its whole record may be stored. It may be from a history.
        """
        return any(
            lane_of(event.offset) == lane and event.offset < end for event in self._iter_held()
        )

    def touch_all(self) -> bool:
        """Mark all pages as changed, and return True.

        Returns False if the state has whole records, which are too large to write again.
        """
        if self._spilled:
            return False
        self.touched.update(self._pages)
        return True

    def changes(self, now_ns: int) -> Iterator[tuple[str, Any]]:
        """Yield each change since the last call as (key, value), with value None for a removal."""
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
                if self._has_lanes:
                    continue  # The pages of several lanes are in no order of arrival.
                return
            self._looked_at.add(page)
            for event in events:
                if event.kind == DEAD:
                    # The record may be too large to be written, and only its sequence number is
                    # needed.
                    continue
                if event.held_by & self._waiting and event.offset not in self._spilled:
                    self._spilled[event.offset] = page
                    yield f"record/{event.offset}", _of_record(event.record)

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
        self, events: Iterable[Event], notes: Mapping[int, Any], spilled: Iterable[int]
    ) -> None:
        """Restore the pages of a state.

        `events` are the events that the operators accepted again. `notes` has their `Note`s by
        offset, and the notes of events that could not be read, which are removed. `spilled` are the
        offsets of whole records.
        """
        found = {event.offset: event for event in events}
        self._has_lanes = any(lane_of(offset) > 0 for offset in notes)
        for offset in sorted(notes):
            page, event = offset >> PAGE_BITS, found.get(offset)
            self._pages.setdefault(page, []).extend([] if event is None else [event])
            self._written.add(page)
            if event is None or event.held_by != notes[offset].held_by:
                # The note is obsolete, because some operator did not accept the event again.
                self.touched.add(page)
        self._spilled = {offset: offset >> PAGE_BITS for offset in spilled}
