"""What a group has committed, asked by a client that joins no group.

librdkafka aborts its process where a broker ends amid this question, so it is asked by aiokafka.
"""

from __future__ import annotations

from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    NoError,
    NotCoordinatorForGroupError,
    for_code,
)


class Committed(GroupCoordinator):  # type: ignore[misc] # aiokafka has no types here
    """`fetch_committed_offsets` asks. From version 3 of that question on a broker refuses with an
    error at the top and no topics, which the client takes for an answer without offsets; here it
    is raised. Where it will pass the client asks again, of whoever coordinates the group then."""

    def __init__(self, client: AIOKafkaClient, group: str) -> None:
        # without a subscription, so it joins nothing
        super().__init__(client, SubscriptionState(), group_id=group, enable_auto_commit=False)

    async def _send_req(self, request: Any) -> Any:
        answer = await super()._send_req(request)
        refusal = for_code(vars(answer).get("error_code", 0))
        if refusal is NoError:
            return answer
        if refusal in (GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError):
            self.coordinator_dead()
        raise refusal(self.group_id)
