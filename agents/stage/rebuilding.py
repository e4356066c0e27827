"""From a state to a partition at work: its operators, and the events they hold.

Held events are read from the input again (agents.state.held), made into events, and given to the
operators. There may be millions, so all of it goes step by step, and every `TURN_S` the loop has
its turn: the process answers, and `tell` says how far it is. Every `LOG_EVERY_S` the log says
so too.

Cost: some 6 us of CPU per held event beside its reading, 9 where it stands in the state whole; the
loop is not kept for longer than a step.

Proved by: tests/agents/stage/test_rebuilding.py
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
from agents.stage.inlet import Inlet
from agents.state import changelog
from agents.state.changelog import StateRefused, Tell
from agents.state.held import HeldPages, Note, Spilled, apply_note
from agents.state.reread import read_again
from topology.flow.answers import AnswerChanged
from topology.flow.stage import Stage
from topology.model.event import Event

log = logging.getLogger(__name__)

TURN_S: Final = 0.01
"""After so long others have their turn."""

LOG_EVERY_S: Final = 5.0
MADE_AT_ONCE: Final = 500
"""Records made into events in one step."""


@dataclass(slots=True)
class Parts:
    """A state, decoded: what operators keep, what is noted of held events, and those that stand
    in it whole, by offset. `says_late`: as `agents.state.held.apply_note` has it."""

    operators: dict[str, Any] = field(default_factory=dict)
    notes: dict[int, Note] = field(default_factory=dict)
    spilled: dict[int, Spilled] = field(default_factory=dict)
    says_late: bool = True

    def add(self, name: str, value: bytes) -> None:
        if name.startswith(changelog.STATE):
            self.operators[name[len(changelog.STATE) :]] = changelog.decode(value)
        elif name.startswith(changelog.PAGE):
            page = msgspec.msgpack.decode(value, type=list[Note])
            self.notes.update((note.offset, note) for note in page)
        elif name.startswith(changelog.RECORD):
            spilled = msgspec.msgpack.decode(value, type=Spilled)
            self.spilled[spilled.offset] = spilled
        elif name == changelog.PROGRESS.decode():
            progress = msgspec.msgpack.decode(value, type=changelog.Claim)
            self.says_late = progress.format >= changelog.SAYS_LATE


class Rebuilding:
    """`tell` hears how far it is, counted on from `begins_at`; `gone` how many held records the
    input no longer has."""

    def __init__(
        self,
        logs: LogReader,
        source: TopicPartition,
        inlet: Inlet,
        tell: Tell,
        gone: Callable[[int], None],
        begins_at: int,
    ) -> None:
        self._logs = logs
        self._source = source
        self._inlet = inlet
        self._tell = tell
        self._gone = gone
        self._done = begins_at
        self._end = begins_at
        self._told_s = self._turn_s = time.monotonic()

    async def rebuild(self, state: Mapping[bytes, bytes], stage: Stage, held: HeldPages) -> None:
        parts = Parts()
        self._end += len(state)
        for key, value in state.items():
            parts.add(key.decode(), value)
            if self._is_turn_over(1):
                await self._pass_turn("state")
        events = await self._events(parts)
        self._end += len(events)
        try:
            for count in stage.restoring(parts.operators, events):
                if self._is_turn_over(count):
                    await self._pass_turn("operators")
        except AnswerChanged as error:
            raise StateRefused(str(error)) from error
        held.restore(events, parts.spilled)
        # The pages of an older version are written anew with the places of this one.
        held.let_go([e for e in events if e.held_by != parts.notes[e.offset].place])

    async def _events(self, parts: Parts) -> list[Event]:
        """All that are held, in log order."""
        found: dict[int, Event] = {}
        spilled = [parts.spilled[offset] for offset in sorted(parts.spilled)]
        self._end += len(spilled)
        for first in range(0, len(spilled), MADE_AT_ONCE):
            records = spilled[first : first + MADE_AT_ONCE]
            self._make(records, parts, found)
            if self._is_turn_over(len(records)):
                await self._pass_turn("held events")
        wanted = parts.notes.keys() - parts.spilled.keys()
        if wanted:
            position = min(wanted)
            self._end += max(wanted) + 1 - position
            async with aclosing(read_again(self._logs, self._source, wanted)) as pieces:
                async for records, reached in pieces:
                    self._make(records, parts, found)
                    if self._is_turn_over(reached - position):
                        await self._pass_turn("held events")
                    position = reached
        self._look_for_gone(parts.notes, found)
        return [found[offset] for offset in sorted(found)]

    def _make(self, records: Sequence[Any], parts: Parts, found: dict[int, Event]) -> None:
        notes = parts.notes
        noted = [record for record in records if record.offset in notes]
        for event in self._inlet.read_again(noted):
            apply_note(event, notes[event.offset], says_late=parts.says_late)
            found[event.offset] = event

    def _look_for_gone(self, notes: Collection[int], found: Collection[int]) -> None:
        gone = sorted(offset for offset in notes if offset not in found)
        if gone:
            self._gone(len(gone))
            log.error(
                "%s: %d held records, from offset %d to %d, are no longer in the input; raise its"
                " retention above spill_after",
                self._source,
                len(gone),
                gone[0],
                gone[-1],
            )

    def _is_turn_over(self, done: int) -> bool:
        self._done += done
        return time.monotonic() - self._turn_s >= TURN_S

    async def _pass_turn(self, what: str) -> None:
        self._tell(self._done, max(self._done, self._end))
        now_s = time.monotonic()
        if now_s - self._told_s >= LOG_EVERY_S:
            self._told_s = now_s
            place = f"{self._source.topic}/{self._source.partition}"
            left = max(0, self._end - self._done)
            log.info("%s: restoring its %s, at least %d more steps", place, what, left)
        await asyncio.sleep(0)
        self._turn_s = time.monotonic()
