"""A stage's place in its consumer group: kept under a name (KIP-345), or given up at once.

With a `group.instance.id` the group keeps a killed worker's partitions for the session's
length: one that comes back under the same name takes its place and its partitions at once,
and no other member notices it. Three things the Kafka client does not do of its own:

* **Two that live under one name.** The group gives the place to whoever joined last and
  knows the former no more; a client that joins again then takes it back, and so on without
  end. So a member that the group does not know any longer, though it sent a heartbeat less than
  a session ago, has been replaced, and ends with `InstanceFenced`. Its last word with the
  group counts from when it was *sent*, so one that slept is not mistaken for that.
* **Leaving.** `leave` before the stop: without a name the partitions go to others at once. With one
  the place is kept as after a kill, so a restart within the session is no rebalance, and nobody has
  the partitions until then.
* **Leaving amid a rebalance,** as when several workers are stopped at once. A client that is asked
  to stop joins first, is given partitions that it will never read, and leaves then: all others go
  through a second rebalance. One that leaves joins no more; and where its wish to join is with the
  broker, which reads nothing else from that connection until all have joined, the connection is
  closed and the leave sent by another. It does so with a name, too: the partitions are on the move.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import aiokafka
from aiokafka.client import ConnectionGroup
from aiokafka.errors import KafkaError
from aiokafka.protocol import group

log = logging.getLogger(__name__)

OK: Final = 0
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
FENCED_INSTANCE_ID: Final = 82

COORDINATION: Final = ConnectionGroup.COORDINATION
LEAVE_TIMEOUT_S: Final = 2.0
"""For the broker to receive a leave amid a rebalance; else the place is lost with the session."""


class InstanceFenced(Exception):
    """Another process lives under the same name; the message says what to do."""


class Meant(KafkaError):  # type: ignore[misc]
    """Why a request or a connection of the client's was ended by us, which is no news."""


def is_news(record: logging.LogRecord) -> bool:
    """The client's log says it will try again, when `InstanceFenced` has said why not, or it
    leaves, or a request was ended that was in the way."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    errors = [each for each in arguments if isinstance(each, BaseException)]
    causes = [*errors, *(error.__cause__ for error in errors)]
    return not any(isinstance(cause, Meant) for cause in causes)


@dataclass(eq=False)
class Membership:
    """For a consumer that has been started. `fenced` is called in the consumer's thread, where all
    of this is used."""

    consumer: aiokafka.AIOKafkaConsumer
    session_timeout_s: float
    fenced: Callable[[InstanceFenced], None]

    def __post_init__(self) -> None:
        self._coordinator = self.consumer._coordinator
        self._name = self._coordinator._group_instance_id
        self._known: tuple[float, float] | None = None  # sent when, by both clocks
        self._is_joining = False
        self._is_leaving = False
        self._send = self._coordinator._send_req
        self._coordinator._send_req = self._watched

    async def leave(self) -> None:
        """From now on it joins no more, and the stop that follows gives up a place without a name,
        if that is not done already. The first join of all comes to its end: before it there is no
        place, and the group would wait for one that it has half of."""
        coordinator = self._coordinator
        if not self._is_joining:
            self._is_leaving = True
            return
        coordinator._group_instance_id = None
        if coordinator.generation > 0:
            self._is_leaving = True
            await self._leave_amid_join()

    async def _leave_amid_join(self) -> None:
        coordinator = self._coordinator
        client, place = coordinator._client, (coordinator.coordinator_id, COORDINATION)
        request = group.LeaveGroupRequest(coordinator.group_id, coordinator.member_id)
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                # one that is about to be opened would carry the wish to join next
                await client.ready(place[0], group=COORDINATION)
                connection = client._conns.get(place)
                if connection is not None:
                    connection.close(exc=Meant("this worker leaves the group"))
                await client.send(place[0], request, group=COORDINATION)
        except (KafkaError, TimeoutError) as failed:
            log.warning(
                "the group %s did not hear that this worker leaves it (%s): its partitions go to"
                " others when the session is over",
                *(coordinator.group_id, failed or type(failed).__name__),
            )
        coordinator.reset_generation()  # what follows has nothing to leave

    async def _watched(self, request: Any) -> Any:
        if not isinstance(request, group.JoinGroupRequest | group.SyncGroupRequest):
            return await self._judged(request)
        if self._is_leaving:
            raise Meant("this worker leaves the group")
        self._is_joining = True
        try:
            return await self._judged(request)
        finally:
            self._is_joining = False

    async def _judged(self, request: Any) -> Any:
        sent = (time.monotonic(), time.time())
        response = await self._send(request)
        if self._name is None or not isinstance(
            request, group.HeartbeatRequest | group.JoinGroupRequest | group.SyncGroupRequest
        ):
            return response
        code = response.error_code
        if code in (OK, REBALANCE_IN_PROGRESS):
            self._known = sent
        elif code == FENCED_INSTANCE_ID or (code == UNKNOWN_MEMBER_ID and self._was_known(sent)):
            self.fenced(
                InstanceFenced(
                    f"another process has taken the place of {self._name} in the consumer group"
                    f" {self._coordinator.group_id}: two workers live under one name; give each"
                    " an --instance of its own, or none"
                )
            )
            raise Meant(f"another process has the place of {self._name}")
        return response

    def _was_known(self, now: tuple[float, float]) -> bool:
        """Too lately for the session to be over."""
        if self._known is None:
            return False
        elapsed_s = max(after - before for after, before in zip(now, self._known, strict=True))
        return elapsed_s < self.session_timeout_s
