"""Define the exceptions of programs that publish; each is a ProducerError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ProducerError(Exception):
    """The base class of the errors that a producer raises."""


class QueueFull(ProducerError):
    """The queue stayed full for too long, because the broker accepts records too slowly.

    The record was not queued and has no number. Send it again, or drop it.
    """


class RecordRefused(ProducerError):
    """The record cannot be sent, for example because it is too large.

    It was not queued and has no number.
    """


class BrokerFatal(ProducerError):
    """The client accepts no more records, for a reason that a new client would meet as well.

    Repair the cause that the message names, close this producer, and create a new one. Records that
    were not delivered are reported as failed.
    """


class FlushTimeout(ProducerError):
    """Some records were neither delivered nor failed when the time-out of a flush expired."""


class JournalError(ProducerError):
    """The journal cannot be used: it is unreadable, locked, or belongs to another source."""


class ForkedError(ProducerError):
    """A forked child called its parent's producer; the call did nothing."""


class CallbackError(ProducerError):
    """The function `on_delivery` raised, or called the producer; the cause is attached."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that was not delivered, as far as the client knows.

    Attributes:
        source: The source of the event.
        epoch: The source's epoch.
        seq: The event's sequence number.
        reason: The client's error.
        may_stand: Whether the record may be in the topic nevertheless, because it may have been
            sent and the broker did not answer in time. If False, it is certainly not there.
    """

    source: str
    epoch: int
    seq: int
    reason: str
    may_stand: bool


class DeliveryFailed(ProducerError):
    """Queued records were not delivered, as far as the client knows.

    Their numbers are used up. If a record is not in the topic, its number is missing there. Readers
    wait for it as for any lost record, and then declare it missing. A payload that is sent again
    gets a new number. If its first record is in the topic after all (`may_stand`), readers see two
    events.

    Attributes:
        failures: The first failures.
        count: The number of all failures.
        may_stand: The number of these records that may be in the topic.
    """

    def __init__(self, failures: Sequence[Failure], count: int, may_stand: int) -> None:
        """Compose the message, which shows the first three failures."""
        self.failures = tuple(failures)
        self.count = count
        self.may_stand = may_stand
        first = "; ".join(f"{f.source}/{f.epoch}/{f.seq}: {f.reason}" for f in self.failures[:3])
        more = f" and {count - 3} more" if count > 3 else ""
        super().__init__(
            f"{count} record(s) not delivered ({first}{more}); {self._describe_consequence()}"
        )

    def _describe_consequence(self) -> str:
        if not self.may_stand:
            return (
                "their numbers stay unused and readers will declare them missing; send the"
                " payloads again, with new numbers"
            )
        return (
            f"{self.may_stand} of them may still be in the topic, and the numbers of the others"
            " stay unused; a payload that is sent again gets a new number and may be in the"
            " topic twice, so send again only payloads that may be there twice"
        )
