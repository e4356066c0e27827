"""Errors of programs that publish; each is a ProducerError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ProducerError(Exception):
    """Base of the errors that a producer raises on purpose."""


class QueueFull(ProducerError):
    """The broker takes fewer records than are sent, or none, and the bounded wait is over.

    The record was not taken and has no number. Send it again, or drop it on purpose.
    """


class RecordRefused(ProducerError):
    """The record cannot be sent at all, for example because it is too large; it has no number."""


class BrokerFatal(ProducerError):
    """The client lost its guarantees and takes no more records; make a new producer."""


class FlushTimeout(ProducerError):
    """Records are still on their way after the given time."""


class JournalError(ProducerError):
    """The journal cannot be read, written or locked, or belongs to another source."""


class ForkedError(ProducerError):
    """A forked child called its parent's producer, which did nothing."""


class CallbackError(ProducerError):
    """`on_delivery` raised, or called the producer; the cause is attached."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that was not delivered, as far as the client knows.

    Attributes:
        source: The source of the event.
        epoch: The source's epoch.
        seq: The event's sequence number.
        reason: The client's error.
        may_stand: Whether the record may be in the topic all the same. It was sent, or may have
            been, and the broker did not answer in time. If false, it is certainly not there.
    """

    source: str
    epoch: int
    seq: int
    reason: str
    may_stand: bool


class DeliveryFailed(ProducerError):
    """Records that had been taken were not delivered, as far as the client knows.

    Their numbers are used up. If a record is not in the topic, its number stays empty. A reader
    waits for it as for any lost record, and then declares it missing. A payload that is sent again
    gets a new number. If its first record is in the topic after all (`may_stand`), readers see two
    events.

    Attributes:
        failures: The first failures.
        count: The number of all failures.
        may_stand: How many of all these records may be in the topic.
    """

    def __init__(self, failures: Sequence[Failure], count: int, may_stand: int) -> None:
        """Make the message, which shows the first three failures."""
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
