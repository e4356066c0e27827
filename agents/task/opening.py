"""Opens a partition: fences the former owner, finds the state, and restores or writes one.

0. A task of several input partitions waits until each of them has a leader. A task of one
   partition does so if it is the only task of the stage, because others would wait with it.
1. The delivery starts, which fences the former owner. Then the changelog is read from the local
   copy's position to its end (`agents.restore.restoring`).
2. The operators restore the state, and the buffered events are read from the input again
   (`agents.restore.rebuilding`).
3. Reading begins at the offset in the state, not at the group's.

A task without a state begins with its part of a history (`agents.restore.history`), or else with
the first record in each log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from agents.restore.history import Histories, begin, refuse_other_history
from agents.restore.partition_state import PartitionState
from agents.restore.rebuilding import Rebuilding
from agents.restore.restoring import FoundState, run_together
from agents.restore.services import Services
from agents.stage.arrangement import Arrangement
from agents.state.changelog import Progress
from agents.task.checkpoints import PartitionCheckpoints
from agents.task.working import Work
from topology.config.change import Contract
from topology.stage.stage import QUERIES, SOURCES

log = logging.getLogger(__name__)

LEADER_LOOK_S: Final = 0.5
"""Time between two looks for the leader of an input partition."""


@dataclass(eq=False)
class Opening:
    """The opening of one partition; call `open` once.

    Attributes:
        waits: A sentence for people about partitions without a leader; "" if there are none.
    """

    arrangement: Arrangement
    services: Services
    state: PartitionState
    work: Work
    checkpoints: PartitionCheckpoints
    waits: str = field(default="", init=False)

    async def open(self) -> None:
        """Restore the state, or begin a new one; raise StateRefused if the state is unsound."""
        await self._await_leaders()
        found = await self._find()
        histories, source = self.services.histories, self.state.source
        if found.progress is not None:
            refuse_other_history(found.progress, histories, source, self.arrangement.topology)
            await self._restore(found.state, found.progress, found.before)
            if found.before is not None:
                # A worker with the old file sees this checkpoint, and does not take over the state.
                await self.checkpoints.write()
        elif histories is not None:
            await self._begin_with_history(histories)
        else:
            await self._begin_empty()

    async def _await_leaders(self) -> None:
        """Wait until each input partition of the task has a leader, however long that takes.

        Without one it cannot be read, and a new process could not read it either.
        """
        logs, lanes = self.services.logs, [lane.partition for lane in self.state.lanes.values()]
        is_alone = len(self.arrangement.tasks) == 1
        if not (len(lanes) > 1 or is_alone) or logs.is_embedded or not self.arrangement.is_first:
            return
        while away := await logs.leaderless(lanes):
            names = ", ".join(f"{each.topic}/{each.partition}" for each in away)
            waits = f"waits for a leader of {names}"
            if waits != self.waits:
                log.warning("%s/%d: %s", *self.state.source, waits)
            self.waits = waits
            await asyncio.sleep(LEADER_LOOK_S)
        self.waits = ""

    async def _find(self) -> FoundState:
        """Read the state from the local copy and from the changelog after it."""
        to = self.checkpoints
        fence = to.delivery.start()
        found = await to.restoring.find(to.copying.copy, fence, self.state.note_restored)
        if found.passed_over:
            to.metrics.count_passed_over()
        to.copying.note(found.changes, found.position)
        self.state.tally, to.log_end = found.tally, found.position
        log.info(
            "%s/%d: restores %d entries, of which the changelog gave %d",
            *(*self.state.source, len(found.state), len(found.changes)),
        )
        return found

    async def _restore(
        self, state: Mapping[bytes, bytes], progress: Progress, before: Contract | None = None
    ) -> None:
        self.state.resume(progress, before)
        self.checkpoints.offsets = self.state.offsets()
        rebuilding = Rebuilding(self.services, self.arrangement, self.state)
        await rebuilding.rebuild(state)
        self.work.write_dead_letters(rebuilding.dead)

    async def _begin_with_history(self, histories: Histories) -> None:
        """Commit the state of a history and the results of its last instant in one transaction."""
        origin = await begin(histories, self.arrangement, self.state.source, self.services.logs)
        self.state.tally.change(origin.entries)
        await self._restore(origin.entries, origin.progress)
        if self.services.clock_feed is not None:
            now_ns = self.state.first.clock.now_ns
            await self.services.clock_feed.reach(self.state.source, now_ns, now_ns)
        read = origin.read(self.state.lanes)
        self.work.process_events(read, [*self.state.lanes.values()])
        self.state.held.touch(read.events)
        await self.checkpoints.write(origin.entries)

    async def _begin_empty(self) -> None:
        """Begin with the first record in the log.

        With at-least-once delivery, outputs are visible before the state that belongs to them. So a
        state is written first, and a start after a crash can tell which application wrote the
        outputs.
        """
        state, logs = self.state, self.services.logs
        claims = self.arrangement.topology.delivery == "at_least_once"
        is_first = self.arrangement.is_first
        lanes = state.lanes.values()
        if {lane.partition.topic for lane in lanes} & {*self.services.midstream}:
            state.stage.begin_midstream(SOURCES)
        if logs.is_embedded or (is_first and not claims):
            return
        bounds = await run_together(*(logs.bounds(lane.partition) for lane in lanes))
        if bounds[0][0] and not is_first:
            state.stage.begin_midstream(QUERIES)
        if claims:
            for lane, (first, _) in zip(lanes, bounds, strict=True):
                lane.next_offset = first
            self.checkpoints.offsets = state.offsets()
            await self.checkpoints.write()
