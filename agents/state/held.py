"""Records which input records a stage still buffers, so that a checkpoint stays small.

Buffered events are in the input log already, so a checkpoint does not write them. It has notes of
their offsets, in pages of 2^`PAGE_BITS` offsets, and rewrites only the pages that changed. So the
cost of a checkpoint grows with the changes since the last one, not with the number of buffered
events. Changes are recorded once for each batch: an event that arrives and is emitted within one
batch costs nothing. A restore reads the input again from the oldest recorded offset and takes only
the recorded events. Meanwhile no deadline fires, and nothing is sampled or counted.

The stage's ledger has the *places* at which each event is buffered (`topology.stage.ledger`). An
event that waits after REORDER and CLOCK (in the merge of a fused stage) is recorded with their
results. So these operators never process it twice. Every note says whether its event is late. MERGE
buffers late events together with those in order, and duplicates of these may be among them. The
whole record of an event that is buffered for longer than `spill_after` is written once, so the
input may delete the record.

This module is compiled, so it imports no library (setup.py). `agents.state.notes` defines what the
state has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from topology.base.event import DATA, DEAD, Event
from topology.stage.lanes import lane_of
from topology.stage.ledger import Ledger
from topology.stage.registry import FIRST_PLACE

PAGE_BITS: Final = 5
STAMPED_FROM: Final = FIRST_PLACE << 1
"""First place at which events have corrected timestamps: the merge of a fused stage."""

offset_of = attrgetter("offset")
_age = attrgetter("arrival_ns", "offset")
_of_record = attrgetter("offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""A function that returns the fields of a `Spilled`, in the form that msgspec encodes."""


def notes_of(events: Sequence[Event], places: Mapping[Event, int]) -> list[tuple[object, ...]]:
    """Return the fields of a `Note` for each event, in the form that msgspec encodes.

    This costs a tenth of making `Note` objects.
    """
    notes: list[tuple[object, ...]] = []
    for e in events:
        at = places[e]
        if at >= STAMPED_FROM or e.offset < 0:  # The event `is_stamped`.
            results = (e.epoch, e.seq, e.ref_time_ns, e.error_ns, e.segment)
            notes.append((e.offset, at, e.arrival_ns, e.at_ns, e.late, *results))
        elif e.late:
            notes.append((e.offset, at, e.arrival_ns, e.at_ns, e.late))
        else:
            notes.append((e.offset, at, e.arrival_ns, e.at_ns))
    return notes


def pages_of(places: Mapping[Event, int]) -> dict[str, list[tuple[object, ...]]]:
    """Return the notes of buffered events, by the keys of their pages.

    `places` has the places of each event, in the order of the offsets.
    """
    pages: dict[str, list[Event]] = {}
    for event in places:
        pages.setdefault(f"page/{event.offset >> PAGE_BITS}", []).append(event)
    return {key: notes_of(of_page, places) for key, of_page in pages.items()}


class HeldPages:
    """The buffered events of one partition by page, and the pages that changed.

    `ledger` has the places of the events. Events wait at the places `waiting`. The other places
    keep past events that later ones may need, as in windows of hours. Past events are read from the
    log again, and never written whole.
    """

    def __init__(self, spill_after_ns: int, ledger: Ledger, waiting: int) -> None:
        self._spill_after_ns = spill_after_ns
        self._ledger = ledger
        ledger.moved = []
        self._waiting = waiting
        self._looked_at: set[int] = set()  # Pages that have no more records to write whole.
        self._pages: dict[int, list[Event]] = {}
        self._written: set[int] = set()
        self._has_lanes = False  # Whether there were events of other lanes than the first.
        # The page of each offset whose whole record was written.
        self._spilled: dict[int, int] = {}
        self.touched: set[int] = set()

    def update(self, events: Sequence[Event] = ()) -> None:
        """Record what a step has changed, after a batch of these events, which are in log order."""
        self.touch(self._ledger.take_moved())
        kept = self._ledger.kept_among(events)
        held = [event for event in events if event in kept] if kept else []
        begin = 0
        while begin < len(held):
            page = held[begin].offset >> PAGE_BITS
            end = bisect_left(held, (page + 1) << PAGE_BITS, begin, key=offset_of)
            self._pages.setdefault(page, []).extend(held[begin:end])
            self._has_lanes |= lane_of(held[begin].offset) > 0
            self.touched.add(page)
            begin = end

    def touch(self, events: Iterable[Event]) -> None:
        """Mark the pages of these events as changed."""
        self.touched.update([event.offset >> PAGE_BITS for event in events])

    def count_by_stream(self, streams: Iterable[str], now_ns: int) -> dict[str, tuple[int, int]]:
        """Return, for each stream, the number of waiting events and the longest wait in ns.

        Events that stand for dead letters do not count.
        """
        counts = dict.fromkeys(streams, 0)
        since_ns = dict.fromkeys(counts, now_ns)
        for event in self._iter_waiting():
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
        return min(self._iter_waiting(), key=_age, default=None)

    def _iter_waiting(self) -> Iterator[Event]:
        """Yield the events that wait, each of which is at one place."""
        return self._ledger.iter_kept(self._waiting)

    def __len__(self) -> int:
        """Return the number of events that wait, without past events kept for later ones."""
        return sum(1 for _ in self._iter_waiting())

    def needed_from(self, next_offset: int) -> int:
        """Return the first offset that a restore would read again, else `next_offset`."""
        for page in sorted(self._pages):
            held = [e.offset for e in self._ledger.kept_among(self._pages[page])]
            if waiting := [offset for offset in held if offset not in self._spilled]:
                return max(0, min(waiting))
        return next_offset

    def has_any(self, lane: int, end: int) -> bool:
        """Return whether an event of a lane with a number below `end` is buffered.

        Its whole record may be stored. It may be from a history.
        """
        return any(
            lane_of(event.offset) == lane and event.offset < end
            for events in self._pages.values()
            for event in self._ledger.kept_among(events)
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
        pages = [self._pages.get(page, ()) for page in self.touched]
        places = self._ledger.places([event for events in pages for event in events])
        for page in sorted(self.touched):
            events = self._pages.get(page)
            if events is None:
                continue
            kept = [event for event in events if event in places]
            if kept:
                self._pages[page] = kept
                self._written.add(page)
                yield f"page/{page}", notes_of(kept, places)
            else:
                del self._pages[page]
                self._looked_at.discard(page)
                if page in self._written:
                    self._written.discard(page)
                    yield f"page/{page}", None
        yield from self._forget_spilled(places)
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
            waiting = self._ledger.kept_among(events, self._waiting)
            for event in events:
                if event.kind == DEAD:
                    # The record may be too large to be written, and only its sequence number is
                    # needed.
                    continue
                if event in waiting and event.offset not in self._spilled:
                    self._spilled[event.offset] = page
                    yield f"record/{event.offset}", _of_record(event.record)

    def _forget_spilled(self, kept: Iterable[Event]) -> Iterator[tuple[str, Any]]:
        """Remove the whole records of events that are not among the `kept` ones of their pages."""
        if not self._spilled:
            return
        held = {event.offset for event in kept}
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
        places = self._ledger.places(found.values())
        self._has_lanes = any(lane_of(offset) > 0 for offset in notes)
        for offset in sorted(notes):
            page, event = offset >> PAGE_BITS, found.get(offset)
            self._pages.setdefault(page, []).extend([] if event is None else [event])
            self._written.add(page)
            if event is None or places.get(event, 0) != notes[offset].places:
                # The note is obsolete, because some operator did not accept the event again.
                self.touched.add(page)
        self._spilled = {offset: offset >> PAGE_BITS for offset in spilled}
