"""Handles a stage's membership in its consumer group: static membership (KIP-345), and leaving.

A static member has a name, its `group.instance.id`. The group reserves a killed member's partitions
for the length of the session. A worker that returns under the same name becomes the same member
with its partitions at once, and no other member notices. The Kafka client lacks three things that
are done here:

* **Two workers with one name.** The group accepts the latest one and forgets the former. A client
  that joins again then replaces the latest one, and so on without end. So a member has been
  replaced if the group forgets it less than a session after its last heartbeat. It ends with
  `InstanceFenced`. Its last contact with the group counts from the time of *sending*, so a worker
  that was paused is not mistaken for a replaced one.
* **Leaving.** `leave` is called before the stop. Without a name the partitions go to others at
  once. With a name they stay reserved, as after a kill. A restart within the session then causes no
  rebalance, and nobody has the partitions until then.
* **Leaving during a rebalance,** as when several workers are stopped at once. The plain client
  joins first, gets partitions that it will never read, and only then leaves. All others go through
  a second rebalance. Here a leaving worker no longer joins. If its request to join is at the
  broker, the broker reads nothing else from that connection until all members have joined. So the
  connection is closed, and the leave request goes over a new one. A worker with a name does so too,
  because the partitions are being reassigned anyway.
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
"""Time limit for the leave request during a rebalance; without it, the session has to expire."""


class InstanceFenced(Exception):
    """Another process uses the same name; the message says what to do."""


class Meant(KafkaError):  # type: ignore[misc]
    """The cause of an error that this worker provoked by ending a request or connection."""


def is_news(record: logging.LogRecord) -> bool:
    """Return False for the client's messages about a request that was ended on purpose.

    These messages announce another attempt. Either none follows, because the worker is fenced or
    leaving, or the request was ended because it blocked something else.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    errors = [each for each in arguments if isinstance(each, BaseException)]
    causes = [*errors, *(error.__cause__ for error in errors)]
    return not any(isinstance(cause, Meant) for cause in causes)


@dataclass(eq=False)
class Membership:
    """The membership of a started consumer in its group.

    Its methods must run in the consumer's thread. It calls `fails` there if another process has
    the same name, and for each error that the client would keep for the next poll. Before the first
    assignment nobody polls.
    """

    consumer: aiokafka.AIOKafkaConsumer
    session_timeout_s: float
    fails: Callable[[Exception], None]

    def __post_init__(self) -> None:
        self._coordinator = self.consumer._coordinator
        self._name = self._coordinator._group_instance_id
        # Monotonic and wall-clock time of sending the last request that the group accepted.
        self._known: tuple[float, float] | None = None
        self._is_joining = False
        self._is_leaving = False
        self._send = self._coordinator._send_req
        self._coordinator._send_req = self._watch
        self._coordinator._push_error_to_user = self._fail

    async def leave(self) -> None:
        """Prevent further joins, so that the following stop makes a worker without a name leave.

        During a rebalance the worker leaves at once, unless this is its first join. A first join is
        completed, because the worker is not a member before it, and the group would wait for a
        half-joined one.
        """
        coordinator = self._coordinator
        if not self._is_joining:
            self._is_leaving = True
            return
        coordinator._group_instance_id = None
        if coordinator.generation > 0:
            self._is_leaving = True
            await self._leave_during_join()

    async def _fail(self, error: Exception) -> None:
        """Report an error that ends the membership, and wait for the consumer to stop."""
        self.fails(error)
        await asyncio.wait([self._coordinator._closing])

    async def _leave_during_join(self) -> None:
        coordinator = self._coordinator
        client, place = coordinator._client, (coordinator.coordinator_id, COORDINATION)
        request = group.LeaveGroupRequest(coordinator.group_id, coordinator.member_id)
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                # Otherwise a connection that is being opened would send the request to join next.
                await client.ready(place[0], group=COORDINATION)
                connection = client._conns.get(place)
                if connection is not None:
                    connection.close(exc=Meant("this worker leaves the group"))
                await client.send(place[0], request, group=COORDINATION)
        except (KafkaError, TimeoutError) as failed:
            log.warning(
                "the group %s may not know that this worker has left (%s): its partitions go to"
                " other workers when the session expires",
                *(coordinator.group_id, failed or type(failed).__name__),
            )
        coordinator.reset_generation()  # The following stop then has nothing to leave.

    async def _watch(self, request: Any) -> Any:
        if not isinstance(request, group.JoinGroupRequest | group.SyncGroupRequest):
            return await self._send_and_judge(request)
        if self._is_leaving:
            raise Meant("this worker leaves the group")
        self._is_joining = True
        try:
            return await self._send_and_judge(request)
        finally:
            self._is_joining = False

    async def _send_and_judge(self, request: Any) -> Any:
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
            self.fails(
                InstanceFenced(
                    f"another process has joined the consumer group {self._coordinator.group_id}"
                    f" as {self._name}: two workers have the same name; give each its own"
                    " --instance, or none"
                )
            )
            raise Meant(f"another process has joined the group as {self._name}")
        return response

    def _was_known(self, now: tuple[float, float]) -> bool:
        """Return whether the session cannot have expired since the last accepted request."""
        if self._known is None:
            return False
        elapsed_s = max(after - before for after, before in zip(now, self._known, strict=True))
        return elapsed_s < self.session_timeout_s
