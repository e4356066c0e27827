"""Define the reasons why a packet or a round fails: one word each, the label of its count."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A reason why a packet or a round fails.

    The first group is about bytes, the second about trust, and the rest about rounds.
    """

    TRUNCATED = "truncated"
    OVERSIZED = "oversized"
    MAGIC = "magic"
    VERSION = "version"
    KIND = "kind"
    FIELDS = "fields"
    """A field that must be zero in a packet of this kind is not zero."""
    STAMPS = "stamps"
    """t1 or t4 is 2^62 ns or more from 1970: readers may reject such a round."""
    SOURCE = "source"
    """The name is empty, too long or not UTF-8, or bytes follow it."""

    RATE = "rate"
    """More packets from this address than are accepted."""
    KEY_UNKNOWN = "key_unknown"
    KEY_OF_OTHERS = "key_of_others"
    """The key is valid, but not for this source."""
    FORGED = "forged"
    """The signature does not fit the bytes."""
    COOKIE = "cookie"
    """A report of a round that this run of the server has not answered."""
    OLD = "old"
    """A report more than 5 s after its answer."""
    REPEATED = "repeated"
    """A report that was taken before."""

    ABSURD = "absurd"
    """Timestamps that no round can have, such as an answer before its request."""
    SERVER_CLOCK = "server_clock"
    """The server's clock stepped, or the packet was in its queue for over a second."""
    FULL = "full"
    """No room for the sample on its way to the broker, or for the record of the report."""
    UNSENT = "unsent"
    """The system did not take a packet that was to be sent."""

    TIMEOUT = "timeout"
    """No answer within the time-out; each try counts."""
    UNACKNOWLEDGED = "unacknowledged"
    """Answered, but the report was not confirmed."""
    UNEXPECTED = "unexpected"
    """An answer that is not awaited, or no longer."""
    JUMP = "jump"
    """The source's clock jumped during the round."""
    SOURCE_CLOCK = "source_clock"
    """The source's own clock cannot be used.

    It may be so early or late that readers may reject the round. Or it is so far from the clock
    that never steps that mono does not fit.
    """
    UNREACHABLE = "unreachable"
    """The name does not exist, or the network or the host reports that nobody is there."""
    FAILED = "failed"
    """Any other failure; the log has it."""
