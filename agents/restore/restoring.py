"""Finds the state of a partition after a restart, and refuses an invalid one.

The state consists of the local copy, and of the changelog from the copy's position to its end.
Without a copy, the changelog is read from the offset at which its progress says that the state was
written whole. If the result is incomplete, the whole changelog is read. A state is checked before
it is used:

* It must be complete: its progress has the number of entries and their digest
  (`agents.state.changelog`). This shows any loss of a part of a changelog. A changelog that was
  restored from a backup, or copied to another cluster, is accepted.
* No later state may be known. The group's offset was committed in the transaction of the changes,
  and the local copy was written after it. So a changelog that is less advanced than either was
  lost, was recreated or has lost its end. Starting without a state would write all outputs a second
  time, so it is refused. If neither the group nor the copy has an offset, it is a first start. A
  group that was deleted changes nothing, because the state has the offset at which reading
  continues. There is one exception: a broker may answer with the offset of an aborted transaction
  (Kafka 4.1.0 did, after a kill). Then the changelog contains the aborted checkpoint itself, which
  it would not if it had lost its end. The outputs were aborted with it, so the state is right and
  work continues from there.
* Its format and input must be today's, and a change from its contract to today's must be allowed
  (`topology.config.change`). A contract that did not exist when this process started is from a
  worker with another topology file. The worker with the old file stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import InitVar, dataclass
from typing import Any, NamedTuple

from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader
from agents.stage.arrangement import Arrangement
from agents.state import changelog
from agents.state.changelog import (
    NOTHING_READ,
    BareProgress,
    LogRead,
    OnProgress,
    Progress,
    StateRefused,
    claim_of,
)
from agents.state.local_copy import NOT_WHOLE, Copied, LocalCopy, is_same_log
from agents.state.stores.seal import StateTally
from topology.config.change import (
    Contract,
    find_differences,
    format_refusals,
    lost_state_remedy,
    new_start_remedy,
)

log = logging.getLogger(__name__)


class FoundState(NamedTuple):
    """The restored state, empty at the first start, and its position in its changelog.

    Attributes:
        state: The entries of the state, by key.
        progress: The progress of the state; None at the first start.
        tally: The tally of all entries except the progress.
        changes: The changes from the position of the local copy to `position`.
        position: The changelog offset at which the state ends.
        passed_over: Whether the group's offset was that of an aborted transaction.
        before: The contract under which the state was written, if it is not today's.
    """

    state: Mapping[bytes, bytes]
    progress: Progress | None
    tally: StateTally
    changes: Mapping[bytes, bytes | None]
    position: int
    passed_over: bool = False
    before: Contract | None = None


@dataclass(eq=False)
class Restoring:
    """A reader that finds and checks the state of the partition `source`.

    Attributes:
        topic_ids: The ids of the input and the changelog, if the brokers give them.
        seen: The contracts of all states when the process started; None if they were not read.
    """

    logs: LogReader
    arrangement: Arrangement
    source: TopicPartition
    topic_ids: InitVar[Mapping[str, str]]
    seen: Mapping[TopicPartition, Contract] | None = None

    def __post_init__(self, topic_ids: Mapping[str, str]) -> None:
        self._ways_out = lost_state_remedy(self.arrangement.topology)
        self._where = TopicPartition(*self.arrangement.changelog(self.source))
        self._whose = f"{self.source.topic}/{self.source.partition}"
        self._changelog = f"the changelog {self._where.topic}/{self._where.partition}"
        self._topic_ids = topic_ids
        self._input_id = topic_ids.get(self.source.topic, "")

    async def find(
        self, copy: LocalCopy, fence: Awaitable[None], on_progress: OnProgress
    ) -> FoundState:
        """Return the state from the local copy and the changelog.

        The end of the changelog is read only when `fence` has ended, because the former owner can
        write until then. The group's offset and the local copy may be read earlier, because they
        are never ahead of the changelog. Raises StateRefused if the state is invalid.
        """
        copied, committed, _ = await run_together(
            asyncio.to_thread(copy.load), self._read_committed(), fence
        )
        known = self._progress_of_copy(copied.state)
        position = copied.position
        if position is None:
            claim = await changelog.last_claim(self.logs, self._where)
            position = None if claim is None else claim.since
        read = await changelog.read_changelog(self.logs, self._where, position, on_progress)
        unfit = await asyncio.to_thread(copy.why_unfit, read.end)
        state, tally = await asyncio.to_thread(_join, copied, read.changes)
        is_part = position is not None and not is_whole(state, tally)
        if unfit is None and is_part and copied.position is not None:
            unfit = NOT_WHOLE
        if unfit is not None or is_part:
            read = await changelog.read_changelog(self.logs, self._where, None, on_progress)
            state, tally = await asyncio.to_thread(_join, Copied(), read.changes)
        progress = self._check_progress(state, tally)
        passed_over = await self._was_aborted(progress, committed)
        self._refuse_later(progress, {} if passed_over else committed, known)
        if unfit is not None:  # The copy is discarded only after every other check has passed.
            await asyncio.to_thread(copy.discard, unfit)
        before = None if progress is None else self._contract_before(progress)
        return FoundState(state, progress, tally, read.changes, read.end, passed_over, before)

    def _contract_before(self, progress: Progress) -> Contract | None:
        """Return the contract of the state if it is not today's, else None.

        Raises StateRefused if a change from that contract to today's is not allowed.
        """
        topology, mine = self.arrangement.topology, self.arrangement.contract(self.source)
        found = changelog.contract_of(progress)
        if found == mine:
            return None
        if self.seen is not None and found != self.seen.get(self.source):
            raise StateRefused(
                f"the state of {self._whose} was continued with another topology file since"
                " this worker started: restart it with that file"
            )
        if refused := format_refusals(find_differences(found, mine, topology)):
            raise StateRefused(
                f"this worker cannot continue with the state of {self._whose}: {refused}"
            )
        return found

    async def changes_since(self, position: int) -> LogRead:
        """Return the changelog's changes since a position; no transaction on it may be open."""
        return await changelog.read_changelog(self.logs, self._where, position)

    async def read_changelog_end(self) -> int:
        return (await self.logs.bounds(self._where))[1]

    async def _read_committed(self) -> dict[TopicPartition, int]:
        """Return the group's offsets; none with the embedded broker, which may lose offsets."""
        if self.logs.is_embedded:
            return {}
        lanes = self.arrangement.group_of(self.source).lanes
        found = await asyncio.gather(*(self.logs.read_committed(lane) for lane in lanes))
        offsets = zip(lanes, found, strict=True)
        return {lane: offset for lane, offset in offsets if offset is not None}

    def _progress_of_copy(self, copied: Mapping[bytes, bytes]) -> BareProgress | None:
        """Return the local copy's progress; None if the copy was made from another input.

        With the embedded broker it is always None, because a copy may outlive its topics.
        """
        claim = claim_of(copied)
        if claim is None or self.logs.is_embedded:
            return None
        return claim if is_same_log(claim.topic_id, self._input_id) else None

    # -- checks of the state --------------------------------------------------------------------

    def _check_progress(self, state: Mapping[bytes, bytes], tally: StateTally) -> Progress | None:
        """Return the state's progress; None if there is no state.

        Raises StateRefused if the state is incomplete, has another format or was made from another
        input.
        """
        if not state:
            return None
        if changelog.PROGRESS not in state:
            raise StateRefused(
                f"{self._changelog} holds {tally.entries} entries of the state of {self._whose},"
                f" but not its position: a part of it was lost; {self._ways_out}"
            )
        anew = new_start_remedy(self.arrangement.topology)
        progress = changelog.read_progress(state[changelog.PROGRESS], self._whose, anew)
        was = [(*self.source, progress.topic_id)]
        was += [(each.topic, each.partition, each.topic_id) for each in progress.lanes]
        for topic, partition, topic_id in was:
            now = self._topic_ids.get(topic, "")
            if not is_same_log(topic_id, now):
                raise StateRefused(
                    f"{topic} is not the topic that the state of its partition {partition} was"
                    f" made from (id {topic_id}, now {now}): it was recreated, or this is another"
                    f" cluster, so the offsets of the state do not apply to it; {anew}"
                )
        if not is_whole(state, tally):
            raise StateRefused(
                f"{self._changelog} holds {tally.entries} entries of the state of {self._whose},"
                f" and {progress.entries} were written"
                + (", with other content" if tally.entries == progress.entries else "")
                + ": a part of it was lost, as when it is recreated while a worker runs, or is"
                f" trimmed (cleanup.policy must be compact alone); {self._ways_out}"
            )
        return progress

    async def _was_aborted(
        self, found: Progress | None, committed: Mapping[TopicPartition, int]
    ) -> bool:
        """Return whether the group's offsets come from an aborted transaction after the state."""
        if found is None or not (later := self._find_later_offsets(found, committed)):
            return False
        if not await changelog.was_aborted(
            self.logs, self._where, found.since, self.source, committed
        ):
            return False
        for lane, offset in later.items():
            log.warning(
                "%s/%d: the brokers returned offset %d of the group %s, from a transaction that was"
                " aborted; the state is at %d, and work continues from there",
                *(*lane, offset, self.arrangement.group, self._offset_in(found, lane)),
            )
        return True

    def _find_later_offsets(
        self, found: BareProgress | None, committed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the group's offsets that are above those of the state."""
        return {
            lane: offset
            for lane, offset in committed.items()
            if offset > self._offset_in(found, lane)
        }

    def _offset_in(self, found: BareProgress | None, lane: TopicPartition) -> int:
        return NOTHING_READ if found is None else found.offsets(self.source).get(lane, NOTHING_READ)

    def _refuse_later(
        self,
        found: Progress | None,
        committed: Mapping[TopicPartition, int],
        known: BareProgress | None,
    ) -> None:
        """Raise StateRefused if the group or the local copy is ahead of the changelog."""
        instant = (-1,) if found is None else changelog.instant_of(found)
        later = self._find_later_offsets(found, committed)
        at = instant[0]
        if later:
            group, (lane, offset) = self.arrangement.group, next(iter(later.items()))
            at = self._offset_in(found, lane)
            whose = "it" if lane == self.source else f"{lane.topic}/{lane.partition}"
            who = f"the group {group} has processed {whose} up to offset {offset}"
            moved = f" (if somebody moved the group's offset, move it back to {at})"
        elif known is not None and instant < changelog.instant_of(known):
            who = f"its local copy is at offset {known.next_offset}"
            moved = ""
        else:
            return
        if found is None:
            raise StateRefused(
                f"there is no state of {self._whose} in {self._changelog}, but {who}: the"
                f" changelog was lost or recreated; {self._ways_out}"
            )
        raise StateRefused(
            f"the state of {self._whose} in {self._changelog} is at offset {at}, but"
            f" {who}: the changelog has lost its end; {self._ways_out}{moved}"
        )

    def check_end(self, before: int, now: int) -> None:
        """Raise StateRefused if the changelog's end went back while this stage wrote to it."""
        if now < before:
            raise StateRefused(
                f"{self._changelog} went back from offset {before} to {now} while this stage was"
                f" running: it was recreated, or has lost its end; {self._ways_out}"
            )


def _join(
    copied: Copied, changes: Mapping[bytes, bytes | None]
) -> tuple[dict[bytes, bytes], StateTally]:
    """Return the copied state with the changes, and the tally of its entries.

    The tally excludes the progress. The state and the tally in `copied` are changed.
    """
    state, tally = copied.state, copied.tally
    if tally is None:
        tally = StateTally()
        tally.change(_drop_progress(state))
    for key, value in changes.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    tally.change(_drop_progress(changes))
    return state, tally


def _drop_progress(changes: Mapping[bytes, bytes | None]) -> dict[bytes, bytes | None]:
    """Return all changes except that of the progress."""
    return {key: value for key, value in changes.items() if key != changelog.PROGRESS}


def is_whole(state: Mapping[bytes, bytes], tally: StateTally) -> bool:
    """Return whether the state has the entries that its progress says; `tally` is that of them."""
    claim = claim_of(state)
    if claim is None:
        return not state
    return (claim.entries, claim.digest) == (tally.entries, tally.digest)


async def run_together(*parts: Awaitable[Any]) -> list[Any]:
    """Return the results of all parts, or cancel all others when one fails.

    `asyncio.gather` would let the others run. Then a producer that is still starting for a
    partition that was given up would fence the next owner. The first error or a cancellation is
    raised after all others have been cancelled and have ended. Work that a part began in a thread
    continues, and a second cancellation does not wait for the parts.
    """
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
