"""How a partition finds its state again, and when it refuses what it finds.

The state is the local copy as far as it goes, then the changelog from there to its end. Before
it is believed:

* The changelog is looked at. The group's offset was committed in the transaction of the
  changes, so both say the same. A changelog that is empty or shorter, while the group has got
  on, has been lost or made anew: to begin anew would put everything out a second time, so the
  state is refused. Without an offset of the group nothing has been done yet: a first start.
* A local copy made from a changelog of another id, or further than it goes, is another log's.
* The state's format, arrangement and input have to be those of today.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka.structs import TopicPartition

from agents import changelog
from agents.arrangement import Arrangement
from agents.brokers import Brokers
from agents.changelog import LogRead, Progress, StateRefused, Tell, read_changelog
from agents.local_copy import Copied, LocalCopy, same_log

COMMITTED_TIMEOUT_S: Final = 60.0

WAYS_OUT: Final = (
    "restore the topic, or set another `application:`, which begins anew with the first record"
    " of the input and puts everything out again"
)


@dataclass(frozen=True, slots=True)
class Found:
    """The state by its keys, empty at the first start, and where in its changelog it stands:
    `changes` lead there from where the local copy stands."""

    state: Mapping[bytes, bytes]
    changes: Mapping[bytes, bytes | None]
    position: int


class Restoring:
    """The state of the partition `source`; `topic_ids` are those of its input and changelog,
    as far as the brokers give some."""

    def __init__(
        self,
        brokers: Brokers,
        arrangement: Arrangement,
        source: TopicPartition,
        topic_ids: Mapping[str, str],
    ) -> None:
        self._brokers = brokers
        self._arrangement = arrangement
        self._source = source
        self._where = TopicPartition(*arrangement.changelog(source))
        self._input_id = topic_ids.get(source.topic, "")
        self._log_id = topic_ids.get(self._where.topic, "")

    async def find(self, copy: LocalCopy, tell: Tell) -> Found:
        """StateRefused where the changelog is not what it was. The caller has fenced the former
        owner."""
        copied, committed = await asyncio.gather(asyncio.to_thread(copy.load), self._committed())
        read = await read_changelog(self._brokers, self._where, copied.position, tell)
        self._look_at_length(copied, read, committed)
        state = copied.state
        unfit = await asyncio.to_thread(copy.why_unfit, read.end, read.first)
        if unfit is not None:
            state = {}
            read = await read_changelog(self._brokers, self._where, None, tell)
        if not state:
            self._look_at_beginning(read)
        for key, value in read.changes.items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        self._look_at_progress(state, committed)
        if unfit is not None:  # not before all else is found to be in order
            await asyncio.to_thread(copy.discard, unfit)
        return Found(state, read.changes, read.end)

    async def _committed(self) -> int | None:
        """The group's offset; the embedded broker forgets records and offsets as it likes."""
        if self._brokers.is_embedded:
            return None
        async with asyncio.timeout(COMMITTED_TIMEOUT_S):
            return await self._brokers.committed(self._arrangement.group, self._source)

    # -- is it the changelog it was? -----------------------------------------------------------

    def _look_at_length(self, copied: Copied, read: LogRead, committed: int | None) -> None:
        if committed is None or copied.position is None or copied.position <= read.end:
            return
        if same_log(copied.log_id, self._log_id):
            raise StateRefused(
                f"{self._changelog} ends at offset {read.end}, and the local copy of it has come to"
                f" {copied.position}: it has lost its end; {WAYS_OUT}"
            )

    def _look_at_beginning(self, read: LogRead) -> None:
        if read.first > 0 and read.end > read.first and not self._brokers.is_embedded:
            raise StateRefused(
                f"{self._changelog} begins at offset {read.first}, and what stood before may be"
                " missing in the state: it must be compacted, never trimmed (cleanup.policy=compact"
                f" alone); {WAYS_OUT}"
            )

    def _look_at_progress(self, state: Mapping[bytes, bytes], committed: int | None) -> None:
        if committed is None:
            return
        group = f"the group {self._arrangement.group} has worked up to offset {committed} of it"
        if changelog.PROGRESS not in state:
            raise StateRefused(
                f"there is no state of {self._whose} in {self._changelog}, and {group}: the"
                f" changelog was lost or made anew; {WAYS_OUT}"
            )
        reached = self.progress(state).next_offset
        if reached < committed:
            raise StateRefused(
                f"the state of {self._whose} in {self._changelog} stands at offset {reached}, and"
                f" {group}: the changelog has lost its end; {WAYS_OUT} (if somebody moved the"
                f" group's offset, move it back to {reached})"
            )

    # -- does it fit? --------------------------------------------------------------------------

    def progress(self, state: Mapping[bytes, bytes]) -> Progress:
        """StateRefused where the state was made in another way or from another input."""
        progress = changelog.read_progress(state[changelog.PROGRESS], self._whose)
        self._arrangement.accept(self._source, progress.arrangement)
        if not same_log(progress.topic_id, self._input_id):
            raise StateRefused(
                f"{self._source.topic} is not the topic that the state of its partition"
                f" {self._source.partition} was made from (id {progress.topic_id}, now"
                f" {self._input_id}): it was made anew, or this is another cluster, and the"
                " offsets of the state mean nothing in it; set another `application:` to begin"
                " anew"
            )
        return progress

    @property
    def _whose(self) -> str:
        return f"{self._source.topic}/{self._source.partition}"

    @property
    def _changelog(self) -> str:
        return f"the changelog {self._where.topic}/{self._where.partition}"
