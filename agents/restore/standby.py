"""Keeps a worker without a task ready to take one over, as the standby replicas of Kafka Streams.

A worker to which the group has assigned nothing is a *standby*. It has started and connected. It
also follows the changelogs of the tasks that other workers have. So it has their states in memory
and in its local copies. A task that it gets needs only the changelog records after those.

A follower changes nothing but the local copy. It reads committed records only. Its failures are
logged and said on `/ready`, but never end the worker. A takeover without a follower reads more of
the changelog, and that is the only difference. A takeover checks the followed state like any local
copy (`agents.restore.restoring`). If the copy contradicts the changelog, the follower gives up, and
leaves the decision to the takeover.

A local copy in Redis is shared, so there is nothing to follow.

Bounds: `MOST_FOLLOWED` tasks, `MOST_BYTES` of state in memory, and `BYTES_PER_S` for each task.
Beyond `MOST_BYTES` the largest states are followed on the disk only, and not at all with `state:
memory`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader
from agents.restore.restoring import is_whole
from agents.restore.services import Services
from agents.stage.arrangement import Arrangement
from agents.state import changelog
from agents.state.copy_writer import BEHIND, CLOSE_WAIT_S, CopyWriter
from agents.state.local_copy import NOT_WHOLE, Copied
from agents.state.stores.seal import StateTally

log = logging.getLogger(__name__)

FOLLOW_EVERY_S: Final = 1.0
"""Time between two reads of a changelog that has been read to its end."""

RETRY_S: Final = 5.0
"""Time between a read that failed and the next one."""

MOST_FOLLOWED: Final = 16
MOST_BYTES: Final = 256 << 20
"""Maximum total size of the keys and values of followed states in memory."""

TOO_LARGE: Final = f"the followed states exceed {MOST_BYTES >> 20} MiB"
BYTES_PER_S: Final = 32 << 20
"""Maximum rate at which one changelog is followed; a takeover reads the rest at full speed."""

T = TypeVar("T")


class GaveUp(Exception):
    """The changelog is not followed any more; the takeover decides what is right."""


@dataclass(eq=False)
class Follower:
    """The follower of the changelog partition `where` of a task, from `start` to `stop`.

    Attributes:
        copying: The local copy, which nothing else may use until `stop` returns it.
        make_room: Function that is called after the state in memory has changed. It calls
            `leave_memory` of some followers if all states together are too large.
        held_bytes: Size of the state in memory.
        behind: Number of changelog offsets that are not read yet; None if unknown.
        why: Why the changelog is not followed now; "" if it is.
    """

    logs: LogReader
    where: TopicPartition
    copying: CopyWriter
    make_room: Callable[[], None]
    held_bytes: int = field(default=0, init=False)
    behind: int | None = field(default=None, init=False)
    why: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._state: dict[bytes, bytes] = {}
        self._tally = StateTally()
        self._position: int | None = None
        self._is_in_memory = True
        self._is_from_first = False
        self._hangs = False
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return f"{self.where.topic}/{self.where.partition}"

    def start(self) -> None:
        """Begin to follow, or go on; do nothing if it runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"following {self.name}")

    async def stop(self) -> CopyWriter | None:
        """Stop, and return the local copy, which has what was followed; None if its disk hangs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._hangs:
            log.warning("%s: the local copy hangs; it is abandoned", self.copying.copy.name)
            self.copying.copy.failed(BEHIND)
            return None
        if self._position is None or not self._is_in_memory:
            await asyncio.to_thread(self.copying.copy.close)
        else:
            self.copying.copy.preload(Copied(self._state, self._position, self._tally))
        return self.copying

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except GaveUp as refused:
                self._note(str(refused))
                self._set_state({})
                self._position = None
                return
            except Exception as failed:  # noqa: BLE001 - no fault of it may end the worker
                self._note(f"{type(failed).__name__}: {failed}")
                await asyncio.sleep(RETRY_S)
            else:
                self._note("")
                await asyncio.sleep(FOLLOW_EVERY_S)

    def _note(self, why: str) -> None:
        if why:
            self.behind = None
        if why and why != self.why:
            log.warning("standby: %s is not followed: %s", self.name, why)
        elif self.why and not why:
            log.info("standby: %s is followed again", self.name)
        self.why = why

    async def _follow(self) -> None:
        """Read the changelog to its end."""
        if self._position is None:
            await self._begin()
        self._require_place()
        assert self._position is not None
        first, end = await self.logs.bounds(self.where)
        if end < self._position:
            raise EOFError(f"it ends at offset {end}, and was read to {self._position}")
        begin = max(first, self._position)
        self.behind = end - begin
        async with aclosing(changelog.read_pieces(self.logs, self.where, begin, end)) as pieces:
            async for changes, reached in pieces:
                await self._take(changes, reached)
                self.behind = max(0, end - reached)
        # A read may end beyond this end, and inside a checkpoint.
        if self._position != end or not self._is_in_memory:
            return
        if is_whole(self._state, self._tally):
            self._is_from_first = False
        else:
            await self._begin_anew()
            await self._follow()

    async def _begin(self) -> None:
        """Begin with the local copy, or else where the state was last written whole."""
        self._is_in_memory, self._is_from_first = True, False
        copy = self.copying.copy
        await self._in_thread(copy.close)
        claim = await changelog.last_claim(self.logs, self.where)
        first, end = await self.logs.bounds(self.where)
        copied = await self._in_thread(copy.load)
        unfit = await self._in_thread(copy.why_unfit, end)
        if unfit is not None:
            await self._discard(unfit, copied.state)
            copied = Copied()
        self._set_state(copied.state)
        since = first if claim is None else claim.since
        self._position = since if copied.position is None else copied.position

    async def _begin_anew(self) -> None:
        """Read everything, because what was read is not a complete state."""
        if self._is_from_first:
            raise GaveUp("it does not hold a complete state")
        await self._discard(NOT_WHOLE, self._state)
        self._set_state({})
        self._position, self._is_from_first, self.behind = 0, True, None

    async def _discard(self, why: str, state: dict[bytes, bytes]) -> None:
        """Discard the local copy, unless it shows that the changelog has lost its end."""
        known = changelog.claim_of(state)
        claim = await changelog.last_claim(self.logs, self.where)
        if known is not None and (
            claim is None or changelog.instant_of(claim) < changelog.instant_of(known)
        ):
            raise GaveUp(f"the local copy {why}, and is more advanced")
        await self._in_thread(self.copying.copy.discard, why)

    def _set_state(self, state: dict[bytes, bytes]) -> None:
        self._state, self._tally, self.held_bytes = {}, StateTally(), 0
        self._apply_in_memory(state)

    async def _take(self, changes: dict[bytes, bytes | None], reached: int) -> None:
        """Apply changes to the local copy, and then in memory.

        If this is cancelled in between, the memory is behind the copy, and the takeover applies
        these changes a second time.
        """
        await self._in_thread(self.copying.copy.move, changes, reached)
        self._apply_in_memory(changes)
        self._require_place()
        self._position = reached
        size = sum(len(key) + len(value or b"") for key, value in changes.items())
        await asyncio.sleep(size / BYTES_PER_S)

    def _apply_in_memory(self, changes: dict[bytes, bytes | None] | dict[bytes, bytes]) -> None:
        if not self._is_in_memory:
            return
        for key, value in changes.items():
            before = self._state.pop(key, None)
            self.held_bytes -= 0 if before is None else len(key) + len(before)
            if value is not None:
                self._state[key] = value
                self.held_bytes += len(key) + len(value)
        self._tally.change(
            {key: value for key, value in changes.items() if key != changelog.PROGRESS}
        )
        self.make_room()

    def leave_memory(self) -> None:
        """Follow on the disk only from now on, or give up if there is no local copy on one."""
        self._is_in_memory = False
        self._set_state({})
        log.info("standby: the state of %s leaves the memory: %s", self.name, TOO_LARGE)

    def _require_place(self) -> None:
        """Raise GaveUp if the state is neither in memory nor on the disk."""
        if not (self._is_in_memory or self.copying.copy.is_used):
            raise GaveUp(f"{TOO_LARGE}, and this worker has no local copy on a disk")

    async def _in_thread(self, work: Callable[..., T], *given: Any) -> T:
        """Run blocking work; if this is cancelled, wait until it has ended.

        Otherwise the work could overlap with that of the next owner of the copy. The wait takes at
        most `CLOSE_WAIT_S`.
        """
        job = asyncio.ensure_future(asyncio.to_thread(work, *given))
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([job], timeout=CLOSE_WAIT_S)
            self._hangs = not job.done()
            raise


class Standby:
    """The tasks that this process follows while it has none.

    Attributes:
        is_standby: Whether the group has assigned this worker nothing.
    """

    def __init__(self, arrangement: Arrangement, services: Services) -> None:
        self._arrangement = arrangement
        self._services = services
        self._followers: dict[TopicPartition, Follower] = {}
        self.is_standby = False

    def follow_tasks(self) -> None:
        """Follow the tasks of the stage, of which this process has none."""
        self.is_standby = True
        if self._arrangement.topology.state == "redis":
            return
        for source in self._arrangement.tasks[:MOST_FOLLOWED]:
            if source not in self._followers:
                self._followers[source] = self._new(source)
            self._followers[source].start()

    def _new(self, source: TopicPartition) -> Follower:
        where = TopicPartition(*self._arrangement.changelog(source))
        copying = self._services.new_copy(source, where.topic)
        return Follower(self._services.logs, where, copying, self._make_room)

    def _make_room(self) -> None:
        """Let the largest states leave the memory until the others fit into it."""
        followers = self._followers.values()
        while sum(each.held_bytes for each in followers) > MOST_BYTES:
            max(followers, key=lambda each: each.held_bytes).leave_memory()

    async def hand_over(self, source: TopicPartition) -> CopyWriter | None:
        """Stop following a task, and return its local copy; None if there is none.

        The caller now owns the copy. If this is cancelled, the follower still has it.
        """
        self.is_standby = False
        follower = self._followers.get(source)
        if follower is None:
            return None
        copying = await follower.stop()
        del self._followers[source]
        return copying

    async def close(self, but: Collection[TopicPartition] = ()) -> None:
        """Stop following the tasks except these, all at once, and close their local copies."""
        self.is_standby = False
        await asyncio.gather(*(self._stop_follower(each) for each in {*self._followers} - {*but}))

    async def _stop_follower(self, source: TopicPartition) -> None:
        copying = await self.hand_over(source)
        if copying is not None:
            await copying.close()

    def observe(self) -> None:
        """Update the gauge of how far the followers are behind."""
        behind = [each.behind for each in self._followers.values()]
        known = [count for count in behind if count is not None]
        is_known = self._followers and len(known) == len(behind)
        self._services.metrics.set_standby_lag(sum(known) if is_known else None)

    @property
    def words(self) -> str:
        """A sentence for people that says that this is a standby; "" if it is none."""
        if not self.is_standby:
            return ""
        count = len(self._arrangement.tasks)
        have = (
            f"other workers have all {count} tasks" if count > 1 else "another worker has the task"
        )
        return f"standby: {have}"

    @property
    def notes(self) -> Iterator[str]:
        """Sentences for people about a standby; none if it is not one."""
        if not self.is_standby:
            return
        yield self.words
        if self._arrangement.topology.state == "redis":
            yield "standby: the state is in Redis, so there is no changelog to follow"
        for follower in self._followers.values():
            if follower.why:
                yield f"standby: {follower.name} is not followed: {follower.why}"
            elif follower.behind is not None:
                yield f"standby: {follower.name} is followed, {follower.behind:,} records behind"
