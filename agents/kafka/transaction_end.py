"""The end of a transaction is asked for once.

A request to end a transaction names a producer and its epoch, and no transaction. Where its
answer is lost the client would send it again, be answered, and begin the next transaction, while
the first request may still be on its way: held by a proxy, a NAT, a broker that was paused. When it
arrives it ends whatever transaction is open then, in the midst, and half of that is committed.

So where no answer comes the producer fails with `Unanswered` and sends nothing more. The producer
that follows under the same transactional id raises the epoch as it starts; from then on the broker
refuses the old request. The log shows whether the transaction is there (agents.stage.checkpoints).

Sent again are a request that has not left, because the coordinator cannot be reached, and one that
the coordinator has answered by "not now" or "not here": nothing of these is on its way.

The answer is awaited for `transaction_timeout` and no longer: by then the coordinator has aborted
what it was not asked to commit. The client's own bound may be longer or shorter.

All other requests of a transaction may arrive twice, or late (docs/decisions/0003-exactly-once.md).
"""

from __future__ import annotations

import asyncio

from aiokafka.errors import KafkaError, NodeNotReadyError, ProducerFenced
from aiokafka.producer import sender


class Unanswered(ProducerFenced):  # type: ignore[misc] # aiokafka has no types here
    """Whether the transaction has ended is not known. Fenced, for so the client lets go of a
    producer without a word in the log, and this one is done for, too."""


class EndTxnHandler(sender.EndTxnHandler):  # type: ignore[misc]
    """See the module's docstring."""

    async def do(self, node_id: int) -> bool:
        client, manager = self._sender.client, self._sender._txn_manager
        patience_s = manager.transaction_timeout_ms / 1e3
        try:
            async with asyncio.timeout(patience_s):
                answer = await client.send(node_id, self.create_request(), group=self.group)
        except NodeNotReadyError:  # nothing has been sent
            return await self._again_after(self.handle_error())
        except TimeoutError:
            raise Unanswered(f"nothing came within {patience_s:g} s") from None
        except KafkaError as lost:
            raise Unanswered(str(lost)) from lost
        return await self._again_after(self.handle_response(answer))

    async def _again_after(self, pause_s: float | None) -> bool:
        """False: the client asks again."""
        if pause_s is None:
            return True
        await asyncio.sleep(pause_s)
        return False


def ask_once() -> None:
    """From now on all producers of the process end transactions so. RuntimeError where the client
    that is installed ends them in another way."""
    if sender.EndTxnHandler.__name__ not in sender.Sender._do_txn_commit.__code__.co_names:
        raise RuntimeError(
            "this version of aiokafka ends transactions in a way that inorder does not know, and a"
            " transaction may be torn; install the version that infra/locks/run.txt names"
        )
    sender.EndTxnHandler = EndTxnHandler
