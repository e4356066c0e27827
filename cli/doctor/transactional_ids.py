"""Checks without writing whether the principal may write under a transactional id.

Brokers report the rights to topics and groups, but not this right. So the check asks to end a
transaction that cannot exist, because no broker assigns the id of its producer. A broker first
checks the right (`Write` to the id). With the right, it refuses for another reason: it does not
coordinate the id, still loads its state, or knows no such producer. Any other answer is
inconclusive. The check can ask any broker, and creates no transaction, id or topic.

The check does not ask for `Describe`, because `Write` implies it. A caller may pass a prefix of ids
instead of an id. Then the check does not notice rights to single ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    GroupLoadInProgressError,
    InvalidProducerIdMapping,
    KafkaError,
    NotCoordinatorForGroupError,
    TransactionalIdAuthorizationFailed,
)
from aiokafka.protocol.transaction import EndTxnRequest

from agents.kafka.security import Security

NOBODY: Final = (1 << 63) - 1
"""A producer id that no broker assigns, because brokers count up from 0."""

ABORT: Final = False

ALLOWED: Final = (
    InvalidProducerIdMapping.errno,
    NotCoordinatorForGroupError.errno,
    GroupLoadInProgressError.errno,
)
"""The errors that a broker reports only to a principal that has the right."""


def check_may_write(
    servers: str, security: Security, ids: Iterable[str], timeout_s: float
) -> dict[str, bool | None]:
    """Return whether the principal may write, by id; None if the answer is unknown.

    Blocks for at most `timeout_s`.
    """
    asked = list(ids)
    try:
        return asyncio.run(_ask(servers, security, asked, timeout_s))
    except (KafkaError, TimeoutError):
        return dict.fromkeys(asked)


async def _ask(
    servers: str, security: Security, ids: list[str], timeout_s: float
) -> dict[str, bool | None]:
    async with asyncio.timeout(timeout_s):
        client = AIOKafkaClient(bootstrap_servers=servers, **security.to_aiokafka())
        try:
            await client.bootstrap()
            return {each: await _may_write(client, each) for each in ids}
        finally:
            await client.close()


async def _may_write(client: AIOKafkaClient, transactional_id: str) -> bool | None:
    request = EndTxnRequest(transactional_id, NOBODY, 0, ABORT)
    answer = await client.send(client.get_random_node(), request)
    if answer.error_code == TransactionalIdAuthorizationFailed.errno:
        return False
    return True if answer.error_code in ALLOWED else None
