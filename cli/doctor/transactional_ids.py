"""Whether the principal may write under a transactional id, asked without writing.

Brokers report the rights to topics and groups, and not this one. So the check asks to end a
transaction that cannot exist: that of a producer with an id that no broker assigns. A broker checks
the right first (`Write` to the id), and then refuses for another reason: it does not coordinate the
id, still loads what it coordinates, or knows no such producer. Any other answer says nothing. No
transaction, no id and no topic comes of it. Any broker will do.

`Describe` is not asked for: brokers take it for given where `Write` is allowed. Where what the ids
begin with is asked for in their place, a right to each single id is not seen.
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
"""A producer's id that is not given out: brokers count them up from 0."""

ABORT: Final = False

ALLOWED: Final = (
    InvalidProducerIdMapping.errno,
    NotCoordinatorForGroupError.errno,
    GroupLoadInProgressError.errno,
)
"""What a broker answers who may: it looks at this after the right."""


def may_write(
    servers: str, security: Security, ids: Iterable[str], timeout_s: float
) -> dict[str, bool | None]:
    """By id; None where the brokers do not say. Blocks, for `timeout_s` at most."""
    asked = list(ids)
    try:
        return asyncio.run(_asked(servers, security, asked, timeout_s))
    except (KafkaError, TimeoutError):
        return dict.fromkeys(asked)


async def _asked(
    servers: str, security: Security, ids: list[str], timeout_s: float
) -> dict[str, bool | None]:
    async with asyncio.timeout(timeout_s):
        client = AIOKafkaClient(bootstrap_servers=servers, **security.aiokafka())
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
