"""What can go wrong for those who publish; all are ProducerError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ProducerError(Exception):
    """Base of all that a producer raises on purpose."""


class QueueFull(ProducerError):
    """The broker takes less than is sent, or nothing, and the bounded wait is over.

    The record was not taken and has no number; send it again, or drop it knowingly.
    """


class RecordRefused(ProducerError):
    """The record cannot be sent at all (too large, say); it has no number."""


class BrokerFatal(ProducerError):
    """The client lost its guarantees and takes no more records; build a new producer."""


class FlushTimeout(ProducerError):
    """Records are still on their way after the time given."""


class JournalError(ProducerError):
    """The journal cannot be read, written or locked, or is another source's."""


class ForkedError(ProducerError):
    """A forked child called the producer of its parent; nothing was done."""


class CallbackError(ProducerError):
    """`on_delivery` raised, or called back into the producer; the cause is attached."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that was not delivered, as far as the client knows."""

    source: str
    epoch: int
    seq: int
    reason: str


class DeliveryFailed(ProducerError):
    """Records that had been taken were not delivered.

    Their numbers are used and stay empty: a reader waits for each as for any lost
    record, then declares it missing. A payload that is sent again gets a new number.
    `failures` are the first ones, `count` is all of them.
    """

    def __init__(self, failures: Sequence[Failure], count: int) -> None:
        self.failures = tuple(failures)
        self.count = count
        first = "; ".join(f"{f.source}/{f.epoch}/{f.seq}: {f.reason}" for f in self.failures[:3])
        more = f" and {count - 3} more" if count > 3 else ""
        super().__init__(
            f"{count} record(s) not delivered ({first}{more}); their numbers stay empty and"
            " readers will declare them missing; send the payloads again for new numbers"
        )
