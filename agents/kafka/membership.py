"""The place in the consumer group of a stage that has a name of its own (KIP-345).

With a `group.instance.id` the group keeps a killed worker's partitions for the session's
length: one that comes back under the same name takes its place and its partitions at once,
and no other member hears of it. Two things the Kafka client does not do of its own:

* **Two that live under one name.** The group gives the place to whoever joined last and
  knows the former no more; a client that joins again then takes it back, and so on without
  end. So a member that the group does not know any longer, though it was heard of less than
  a session ago, has been replaced, and ends with `InstanceFenced`. Its last word with the
  group counts from when it was *sent*, so one that slept is not mistaken for that.
* **Leaving.** A client with a name never leaves, and its partitions would stand for a
  session after each graceful stop. `leave` before the stop: they go to others at once, and
  a worker that comes back gets its share like any other.

Proved by: tests/agents/kafka/test_membership.py, tests/end_to_end/test_instance.py
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

import aiokafka
from aiokafka.errors import KafkaError
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest

OK: Final = 0
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
FENCED_INSTANCE_ID: Final = 82


class InstanceFenced(Exception):
    """Another process lives under the same name; the message says what to do."""


class _Replaced(KafkaError):  # type: ignore[misc]
    """To the client: do not join again."""


def is_news(record: logging.LogRecord) -> bool:
    """The client's log says it will try again, when `InstanceFenced` has said why not."""
    told = record.args
    return not (isinstance(told, tuple) and any(isinstance(each, _Replaced) for each in told))


class Membership:
    """For a consumer that has been started. `fenced` is called in the consumer's thread."""

    def __init__(
        self,
        consumer: aiokafka.AIOKafkaConsumer,
        session_timeout_s: float,
        fenced: Callable[[InstanceFenced], None],
    ) -> None:
        self._coordinator = consumer._coordinator
        self._name = self._coordinator._group_instance_id
        self._session_timeout_s = session_timeout_s
        self._fenced = fenced
        self._known: tuple[float, float] | None = None  # sent when, by both clocks
        self._send = self._coordinator._send_req
        self._coordinator._send_req = self._watched

    def leave(self) -> None:
        """The stop that follows gives up the place."""
        self._coordinator._group_instance_id = None

    async def _watched(self, request: Any) -> Any:
        sent = (time.monotonic(), time.time())
        response = await self._send(request)
        if not isinstance(request, HeartbeatRequest | JoinGroupRequest | SyncGroupRequest):
            return response
        code = response.error_code
        if code in (OK, REBALANCE_IN_PROGRESS):
            self._known = sent
        elif code == FENCED_INSTANCE_ID or (code == UNKNOWN_MEMBER_ID and self._was_known(sent)):
            self._fenced(
                InstanceFenced(
                    f"another process has taken the place of {self._name} in the consumer group"
                    f" {self._coordinator.group_id}: two workers live under one name; give each"
                    " an --instance of its own, or none"
                )
            )
            raise _Replaced(self._name)
        return response

    def _was_known(self, now: tuple[float, float]) -> bool:
        """Too lately for the session to be over."""
        if self._known is None:
            return False
        elapsed_s = max(after - before for after, before in zip(now, self._known, strict=True))
        return elapsed_s < self._session_timeout_s
