"""Names the right that brokers refuse, from the errors of the Kafka client.

A right may be taken away while a worker runs. The client keeps the coordinator's refusal for the
end of the transaction. A request before that fails with a later error, such as InvalidTxnState,
which names neither the right nor the resource. `find_first_error` returns the refusal instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from agents.kafka.brokers import Brokers
from agents.kafka.rights import DESCRIBE, READ, WRITE, Kind

OF_WORKER: Final = "`inorder topics acls` prints the rights that a worker needs"
OF_OTHERS: Final = "docs/operate/secure.md lists the rights of each user"


class RightRefused(Exception):
    """The brokers refuse a right; the message names the right, its resource and the remedy."""


def describe_refusal(operation: str, resource: str, remedy: str = OF_WORKER) -> str:
    """Return the sentence that says which right is refused, and what to do."""
    return f"the brokers refuse {operation} on {resource}; {remedy}"


def refusal_to_describe(
    brokers: Brokers, topics: Iterable[str], remedy: str = OF_OTHERS
) -> str | None:
    """Return the refusal of topics that the brokers do not list; None if they just do not exist.

    Brokers list only the topics that a user may describe. Blocks.
    """
    if not (hidden := brokers.find_hidden(topics)):
        return None
    return describe_refusal(DESCRIBE, f"{Kind.TOPIC} {', '.join(hidden)}", remedy)


def refusal_in(failed: BaseException, of_topic: str, unnamed: str = "") -> str | None:
    """Return the refusal that an error reports; None if the error is another one.

    `of_topic` is the operation on topics that failed. An offset commit is refused without a topic's
    name, and needs Read on the topic `unnamed`.
    """
    for error in _iter_causes(failed):
        named = _names(error)
        if isinstance(error, TopicAuthorizationFailedError):
            operation = of_topic if named else READ
            return describe_refusal(operation, f"{Kind.TOPIC} {named or unnamed}")
        if isinstance(error, TransactionalIdAuthorizationFailed):
            return describe_refusal(WRITE, f"{Kind.TRANSACTIONAL_ID} {named}")
        if isinstance(error, GroupAuthorizationFailedError):
            return describe_refusal(READ, f"{Kind.GROUP} {named}")
        if isinstance(error, ClusterAuthorizationFailedError):
            return describe_refusal("IdempotentWrite", "the cluster")
    return None


def find_first_error(producer: AIOKafkaProducer, failed: BaseException) -> BaseException:
    """Return the error that ended the producer's transaction, or `failed` if none did.

    Call it after a failure within the transaction.
    """
    waiter = producer._txn_manager._transaction_waiter
    if waiter is None or not waiter.done() or waiter.cancelled():
        return failed
    return waiter.exception() or failed


def _iter_causes(failed: BaseException) -> Iterator[BaseException]:
    error: BaseException | None = failed
    while error is not None:
        yield error
        error = error.__cause__


def _names(error: BaseException) -> str:
    """Return the resources that a client's error names: one, or a set of them."""
    if not error.args:
        return ""
    named = error.args[0]
    return named if isinstance(named, str) else ", ".join(sorted(map(str, named)))
