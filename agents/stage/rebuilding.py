"""From a state to a partition at work: its operators, and the events they hold.

Held events are read from the input again (agents.state.held), made into events, and given to the
operators. There may be millions, so all of it goes step by step, and every `TURN_S` the loop has
its turn: the process answers, and `on_progress` is called with how far it is. Every `LOG_EVERY_S` a
log line has so too.

Cost: some 6 us of CPU per held event beside its reading, 9 where it is in the state whole; the
loop is not kept for longer than a step.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader
from agents.registry.feed import SchemaFeed
from agents.stage.inlet import Inlet
from agents.state import changelog
from agents.state.changelog import OnProgress
from agents.state.held import HeldPages, Note, Spilled, apply_note
from agents.state.reread import read_again
from topology.flow.stage import Stage
from topology.model.event import Event

log = logging.getLogger(__name__)

TURN_S: Final = 0.01
"""After so long others have their turn."""

LOG_EVERY_S: Final = 5.0
MADE_AT_ONCE: Final = 500
"""Records made into events in one step."""


@dataclass(slots=True)
class StateParts:
    """A state, decoded: what operators keep, what is noted of held events, and those that are
    in it whole, by offset."""

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
            self.spilled[spilled.offset] = spilled


class Rebuilding:
    """`on_progress` is called with how far it is, counted on from `begins_at`; `on_missing` with
    how many held records the input no longer has."""

    def __init__(
        self,
        logs: LogReader,
        source: TopicPartition,
        inlet: Inlet,
        on_progress: OnProgress,
        on_missing: Callable[[int], None],
        begins_at: int,
        schemas: SchemaFeed,
    ) -> None:
        self._logs = logs
        self._source = source
        self._inlet = inlet
        self._on_progress = on_progress
        self._on_missing = on_missing
        self._schemas = schemas
        self._done = begins_at
        self._end = begins_at
        self._logged_s = self._turn_s = time.monotonic()

    async def rebuild(self, state: Mapping[bytes, bytes], stage: Stage, held: HeldPages) -> None:
        parts = StateParts()
        self._end += len(state)
        for key, value in state.items():
            parts.add(key.decode(), value)
            if self._is_turn_over(1):
                await self._pass_turn("state")
        events = await self._events(parts)
        self._end += len(events)
        for count in stage.restoring(parts.operators, events):
            if self._is_turn_over(count):
                await self._pass_turn("operators")
        held.restore(events, parts.notes, parts.spilled)

    async def _events(self, parts: StateParts) -> list[Event]:
        """All that are held, in log order."""
        found: dict[int, Event] = {}
        spilled = [parts.spilled[offset] for offset in sorted(parts.spilled)]
        self._end += len(spilled)
        for first in range(0, len(spilled), MADE_AT_ONCE):
            records = spilled[first : first + MADE_AT_ONCE]
            await self._make(records, parts, found)
            if self._is_turn_over(len(records)):
                await self._pass_turn("held events")
        wanted = parts.notes.keys() - parts.spilled.keys()
        if wanted:
            position = min(wanted)
            self._end += max(wanted) + 1 - position
            async with aclosing(read_again(self._logs, self._source, wanted)) as pieces:
                async for records, reached in pieces:
                    await self._make(records, parts, found)
                    if self._is_turn_over(reached - position):
                        await self._pass_turn("held events")
                    position = reached
        self._report_missing(parts.notes, found)
        return [found[offset] for offset in sorted(found)]

    async def _make(
        self, records: Sequence[Any], parts: StateParts, found: dict[int, Event]
    ) -> None:
        notes = parts.notes
        noted = [record for record in records if record.offset in notes]
        await self._schemas.reach_for(self._inlet.registered, noted)
        for event in self._inlet.read_again(noted):
            apply_note(event, notes[event.offset])
            found[event.offset] = event

    def _report_missing(self, notes: Collection[int], found: Collection[int]) -> None:
        missing = sorted(offset for offset in notes if offset not in found)
        if missing:
            self._on_missing(len(missing))
            log.error(
                "%s: %d held records, from offset %d to %d, are no longer in the input; raise its"
                " retention above spill_after",
                self._source,
                len(missing),
                missing[0],
                missing[-1],
            )

    def _is_turn_over(self, done: int) -> bool:
        self._done += done
        return time.monotonic() - self._turn_s >= TURN_S

    async def _pass_turn(self, what: str) -> None:
        self._on_progress(self._done, max(self._done, self._end))
        now_s = time.monotonic()
        if now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            place = f"{self._source.topic}/{self._source.partition}"
            left = max(0, self._end - self._done)
            log.info("%s: restoring its %s, at least %d more steps", place, what, left)
        await asyncio.sleep(0)
        self._turn_s = time.monotonic()
