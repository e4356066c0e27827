"""Rebuilds a partition's operators and their buffered events from a state.

Buffered events are read from the input again (`agents.state.held`), and passed to the operators.
There may be millions of them, so the work is divided into steps. After each `TURN_S` the event loop
gets a turn, so the process still answers. `PartitionState.restored` has the progress, which
`agents.watch.stage_log` logs.

Records from before a change of the topology file are read as they were then (`Progress.readings`).
Buffered records that can no longer be read become dead letters.

Cost: some 6 us of CPU per buffered event besides its reading, 9 us if the state has its whole
record. The event loop is not blocked for longer than a step.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

import msgspec

from agents.restore.partition_state import PartitionState
from agents.restore.services import Services
from agents.stage.arrangement import Arrangement, ArrangementError
from agents.stage.inlet import Inlet
from agents.stage.lane import Lane
from agents.state import changelog
from agents.state.changelog import StateRefused
from agents.state.notes import Note, Spilled, apply_note, is_stamped
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.config.change import new_start_remedy, with_former_reading
from topology.stage.lanes import lane_of, number_of, offset_in_lane
from topology.stage.registry import ALIGN_PLACE, move_places

log = logging.getLogger(__name__)

TURN_S: Final = 0.01
"""Time of uninterrupted work after which other tasks get a turn."""

MADE_AT_ONCE: Final = 500
"""Maximum number of records that are read into events in one step."""


@dataclass(slots=True)
class StateParts:
    """A decoded state, divided into three parts.

    Attributes:
        operators: The entries of the operators.
        notes: The notes on buffered events, by number (`topology.stage.lanes`).
        spilled: The whole records in the state, by number.
    """

    operators: dict[str, Any] = field(default_factory=dict)
    notes: dict[int, Note] = field(default_factory=dict)
    spilled: dict[int, Spilled] = field(default_factory=dict)

    def add(self, name: str, value: bytes) -> None:
        if name.startswith(changelog.STATE):
            self.operators[name[len(changelog.STATE) :]] = changelog.decode(value)
        elif name.startswith(changelog.PAGE):
            page = msgspec.msgpack.decode(value, type=list[Note])
            self.notes.update((note.offset, note) for note in page)
        elif name.startswith(changelog.RECORD):
            spilled = msgspec.msgpack.decode(value, type=Spilled)
            self.spilled[int(name[len(changelog.RECORD) :])] = spilled


@dataclass(eq=False)
class Rebuilding:
    """The restore of a changelog's state into `into`, the state in memory.

    `into.restored` shows the progress. Afterwards `dead` has the records that could not be read.
    """

    services: Services
    arrangement: Arrangement
    into: PartitionState
    dead: list[Malformed] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._done = self._end = self.into.restored[0]
        self._turn_s = time.monotonic()
        self._inlets: dict[tuple[Lane, int | None], Inlet | None] = {}

    async def rebuild(self, state: Mapping[bytes, bytes]) -> None:
        """Restore the operators and the pages of buffered events.

        Raises StateRefused if the state cannot be read, or has events of an unknown stream.
        """
        parts = StateParts()
        self._end += len(state)
        for key, value in state.items():
            parts.add(key.decode(), value)
            await self._count_steps(1)
        if self.into.place_moves:
            for note in parts.notes.values():
                note.places = move_places(note.places, self.into.place_moves)
        events = await self._events(parts)
        stage = self.into.stage
        stage.ledger.add({event: parts.notes[event.offset].places for event in events})
        self._end += len(events)
        try:
            for steps in stage.restoring(parts.operators, events):
                await self._count_steps(steps)
        except (LookupError, TypeError, ValueError, AttributeError) as wrong:
            anew, source = new_start_remedy(self.arrangement.topology), self.into.source
            raise StateRefused(
                f"the state of {source.topic}/{source.partition} has another layout"
                f" than this version of inorder reads ({type(wrong).__name__}: {wrong}); go on with"
                f" the version that wrote it, or {anew}"
            ) from wrong
        self.into.held.restore(events, parts.notes, parts.spilled)

    async def _events(self, parts: StateParts) -> list[Event]:
        """Return all buffered events, in the order of arrival; add unreadable records to `dead`."""
        source, stage = self.into.source, self.into.stage
        found: dict[int, Event] = {}
        numbers: dict[int, list[int]] = {}
        for number in sorted(parts.notes.keys() | parts.spilled.keys()):
            numbers.setdefault(lane_of(number), []).append(number)
        for lane in self.into.lanes.values():
            await self._read_lane(lane, numbers.get(lane.number, []), parts, found)
        unread = {letter.offset for letter in self.dead}
        waiting = stage.waiting_places
        self.dead = [d for d in self.dead if parts.notes[d.offset].places & waiting]
        there = {lane.number: lane.partition for lane in self.into.lanes.values()}
        gone = sorted(parts.notes.keys() - unread - found.keys())
        # A stream that was removed may have left a lane without events that wait.
        if any(lane_of(at) not in there and parts.notes[at].places & waiting for at in gone):
            raise StateRefused(
                f"events are buffered in the state of {source.topic}/{source.partition} from an"
                " input that the topology file no longer reads; put it back"
            )
        for number, lost in groupby((at for at in gone if lane_of(at) in there), lane_of):
            offsets = [*map(offset_in_lane, lost)]
            self.services.metrics.count_store_error("held_record_gone", len(offsets))
            log.error(
                "%s/%d: %d buffered records, from offset %d to %d, are no longer in the"
                " input; raise its"
                " retention above spill_after",
                *(*there[number], len(offsets), offsets[0], offsets[-1]),
            )
        # A task aligns records before it looks up their streams.
        known = waiting & ~ALIGN_PLACE if self.arrangement.is_first else waiting
        streams = {e.stream for at, e in found.items() if parts.notes[at].places & known}
        strange = streams - {*stage.streams}
        if strange:
            raise StateRefused(
                f"events of the stream {', '.join(sorted(strange))} are buffered in the state of"
                f" {source.topic}/{source.partition}, but the topology file no longer has"
                " this stream; put it back"
            )
        if len(self.into.lanes) == 1:
            return [found[number] for number in sorted(found)]
        return sorted(found.values(), key=_arrival)

    async def _read_lane(
        self, lane: Lane, numbers: Sequence[int], parts: StateParts, found: dict[int, Event]
    ) -> None:
        """Read the buffered events of one input partition again; `numbers` are all of its own."""
        spilled = [parts.spilled[number] for number in numbers if number in parts.spilled]
        self._end += len(spilled)
        for first in range(0, len(spilled), MADE_AT_ONCE):
            records = spilled[first : first + MADE_AT_ONCE]
            await self._make(lane, records, parts, found)
            await self._count_steps(len(records))
        offsets = {offset_in_lane(number) for number in numbers if number not in parts.spilled}
        if offsets:
            position = min(offsets)
            self._end += max(offsets) + 1 - position
            reading = self.services.logs.read_again(lane.partition, offsets)
            async with aclosing(reading) as pieces:
                async for records_again, reached in pieces:
                    await self._make(lane, records_again, parts, found)
                    await self._count_steps(reached - position)
                    position = reached

    async def _make(
        self, lane: Lane, records: Sequence[Any], parts: StateParts, found: dict[int, Event]
    ) -> None:
        """Read the records that have notes into events, by the topology file of their time."""
        notes = parts.notes

        def number(record: Any) -> int:
            return number_of(lane.number, record.offset)

        recorded = [record for record in records if number(record) in notes]
        for until, group in groupby(recorded, lambda each: self.into.reading_key_of(number(each))):
            alike, inlet, read = list(group), self._inlet_of(lane, until), set[int]()
            if inlet is not None:
                await self.services.schemas.resolve_records(inlet.registered, alike)
                for event in lane.read_again(alike, inlet):
                    apply_note(event, notes[event.offset])
                    found[event.offset] = event
                    read.add(event.offset)
            self.dead += [
                _unreadable(number(each), each, notes[number(each)])
                for each in alike
                if number(each) not in read
            ]

    def _inlet_of(self, lane: Lane, until: int | None) -> Inlet | None:
        """Return the inlet for a lane's records below `until`; None if it can no longer be built.

        `until` is a key of `Progress.readings`, or None for records that are read as today.
        """
        if until is None:
            return lane.inlet
        if (lane, until) not in self._inlets:
            self._inlets[lane, until] = self._inlet_before(lane, until)
        return self._inlets[lane, until]

    def _inlet_before(self, lane: Lane, until: int) -> Inlet | None:
        try:
            topology = with_former_reading(
                self.arrangement.topology, self.into.progress.readings[until]
            )
            return replace(self.arrangement, topology=topology).inlet(lane.partition)
        # Another version may have written the old contract with other keys.
        except (ArrangementError, ValueError) as wrong:
            log.error(
                "%s: the buffered events cannot be read as before: %s", self.into.source, wrong
            )
            return None

    async def _count_steps(self, steps: int) -> None:
        """Count finished steps, and let other tasks run when this turn is over."""
        self._done += steps
        if time.monotonic() - self._turn_s < TURN_S:
            return
        self.into.note_restored(self._done, max(self._done, self._end))
        await asyncio.sleep(0)
        self._turn_s = time.monotonic()


def _arrival(event: Event) -> tuple[int, int, int]:
    """Return the key of the order in which an alignment has released events.

    Those of a history come first in their lane, because their offsets there are below 0.
    """
    return event.arrival_ns, event.lane, offset_in_lane(event.offset)


def _unreadable(number: int, record: Any, note: Note) -> Malformed:
    detail = (
        "the record was buffered when the topology file was changed, and can no longer be read as "
        "before; put back the settings that read it, such as its schema, and send it again"
    )
    epoch, seq = (note.epoch, note.seq) if is_stamped(note) else (None, None)
    return Malformed(
        note.at_ns, number, "record_unreadable", detail, epoch=epoch, seq=seq, record=record
    )
