"""Sends the request that ends a transaction only once, even if no answer comes.

A request to end a transaction names a producer and its epoch, but no transaction. If the answer is
lost, the plain client sends the request again, gets an answer, and begins the next transaction. The
first request may still be delayed by a proxy, a NAT or a paused broker. When it arrives, it ends
the transaction that is open then, and half of that transaction is committed.

So without an answer the producer fails with `Unanswered` and sends nothing more. The next producer
with the same transactional id raises the epoch when it starts, and from then on the broker refuses
the old request. The changelog shows whether the transaction was committed
(agents.task.checkpoints).

In two cases the request is repeated, because no earlier one is in transit. Either it was not sent,
because the coordinator could not be reached, or the broker answered "not now" or "not here".

The answer is awaited for `transaction_timeout` and no longer: by then the coordinator has aborted a
transaction without a commit request. The client's own time limit may be longer or shorter.

All other requests of a transaction may arrive twice or late (docs/decisions/0003-exactly-once.md).
"""

from __future__ import annotations

import asyncio

from aiokafka.errors import KafkaError, NodeNotReadyError, ProducerFenced
from aiokafka.producer import sender


class Unanswered(ProducerFenced):  # type: ignore[misc] # aiokafka has no types here
    """The answer to the end of a transaction is missing, so its outcome is unknown.

    It is a subclass of ProducerFenced, so that the client drops the producer without a log line.
    The producer is unusable in both cases.
    """


class EndTxnHandler(sender.EndTxnHandler):  # type: ignore[misc]
    """The client's handler for the end of a transaction, which sends its request once."""

    async def do(self, node_id: int) -> bool:
        client, manager = self._sender.client, self._sender._txn_manager
        patience_s = manager.transaction_timeout_ms / 1e3
        try:
            async with asyncio.timeout(patience_s):
                answer = await client.send(node_id, self.create_request(), group=self.group)
        except NodeNotReadyError:  # The request has not been sent.
            return await self._finish_or_pause(self.handle_error())
        except TimeoutError:
            raise Unanswered(f"no answer came within {patience_s:g} s") from None
        except KafkaError as lost:
            raise Unanswered(str(lost)) from lost
        return await self._finish_or_pause(self.handle_response(answer))

    async def _finish_or_pause(self, pause_s: float | None) -> bool:
        """Return True if `pause_s` is None; otherwise wait, and return False to ask again."""
        if pause_s is None:
            return True
        await asyncio.sleep(pause_s)
        return False


def send_end_once() -> None:
    """Make all producers of the process send the end of a transaction once if no answer comes.

    Raises RuntimeError if the installed client ends transactions in another way.
    """
    if sender.EndTxnHandler.__name__ not in sender.Sender._do_txn_commit.__code__.co_names:
        raise RuntimeError(
            "this version of aiokafka ends transactions in a way that inorder does not know, and a"
            " transaction may be committed in part; install the version that"
            " infra/locks/run.txt names"
        )
    sender.EndTxnHandler = EndTxnHandler
