"""Define the reasons why a packet or a round fails; each is one word and labels a count."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A reason why a packet or a round fails.

    The first group is about the packet's bytes, the second about authentication, and the rest about
    rounds.
    """

    TRUNCATED = "truncated"
    OVERSIZED = "oversized"
    MAGIC = "magic"
    VERSION = "version"
    KIND = "kind"
    FIELDS = "fields"
    """A field that must be zero in a packet of this kind is not zero."""
    STAMPS = "stamps"
    """t1 or t4 is 2^62 ns or more from 1970, so the packet is rejected."""
    SOURCE = "source"
    """The name is empty, too long or not UTF-8, or bytes follow it."""

    RATE = "rate"
    """More packets came from this address than are accepted."""
    KEY_UNKNOWN = "key_unknown"
    KEY_OF_OTHERS = "key_of_others"
    """The key is valid, but not for this source."""
    FORGED = "forged"
    """The signature does not match the bytes."""
    COOKIE = "cookie"
    """The report is of a round that this run of the server has not answered."""
    OLD = "old"
    """The report came more than 5 s after its answer."""
    REPEATED = "repeated"
    """The report had been accepted before."""

    ABSURD = "absurd"
    """The timestamps are impossible, such as an answer before its request."""
    SERVER_CLOCK = "server_clock"
    """The server's clock stepped, or the packet was in its queue for over a second."""
    FULL = "full"
    """The server had no room for the sample in its queue to the broker, or to remember the report.
    """
    UNSENT = "unsent"
    """The operating system did not accept a packet for sending."""

    TIMEOUT = "timeout"
    """No answer came within the time-out; each try counts."""
    UNACKNOWLEDGED = "unacknowledged"
    """The request was answered, but the report was not acknowledged."""
    UNEXPECTED = "unexpected"
    """The answer was not expected, or no longer."""
    JUMP = "jump"
    """The source's clock jumped during the round."""
    SOURCE_CLOCK = "source_clock"
    """The source's own clock cannot be used.

    Its time may be too far from 1970, so that readers could reject the round. Or its difference
    from the clock that never steps is too large for the packet.
    """
    UNREACHABLE = "unreachable"
    """The name does not exist, or the network or the host reports that the server is unreachable.
    """
    FAILED = "failed"
    """Any other failure; its error is logged."""
