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
    """A record that was not delivered, as far as the client knows.

    `may_stand`: it may be in the topic all the same, for it had been sent, or may have
    been, and the time was over before the broker's answer. Else it surely does not.
    """

    source: str
    epoch: int
    seq: int
    reason: str
    may_stand: bool


class DeliveryFailed(ProducerError):
    """Records that had been taken were not delivered, as far as the client knows.

    Their numbers are used. Where a record is not in the topic its number stays
    empty: a reader waits for it as for any lost record, then declares it missing. A payload
    that is sent again gets a new number, so one whose record is there after all (`may_stand`)
    is there twice, as two events. `failures` are the first ones, `count` is all of them,
    `may_stand` how many of all may be there.
    """

    def __init__(self, failures: Sequence[Failure], count: int, may_stand: int) -> None:
        self.failures = tuple(failures)
        self.count = count
        self.may_stand = may_stand
        first = "; ".join(f"{f.source}/{f.epoch}/{f.seq}: {f.reason}" for f in self.failures[:3])
        more = f" and {count - 3} more" if count > 3 else ""
        super().__init__(f"{count} record(s) not delivered ({first}{more}); {self._follows()}")

    def _follows(self) -> str:
        if not self.may_stand:
            return (
                "their numbers stay empty and readers will declare them missing; send the"
                " payloads again for new numbers"
            )
        return (
            f"{self.may_stand} of them may be in the topic all the same, the others' numbers"
            " stay empty; a payload that is sent again gets a new number and may then be there"
            " twice, so send again only what may be"
        )
