"""Why a packet or a round comes to nothing: one word each, the label of its count."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The first group is about bytes, the second about trust, the rest about rounds."""

    TRUNCATED = "truncated"
    OVERSIZED = "oversized"
    MAGIC = "magic"
    VERSION = "version"
    KIND = "kind"
    FIELDS = "fields"
    """A field that must be zero in a packet of this kind is not."""
    STAMPS = "stamps"
    """t1 or t4 is 2^62 ns or more from 1970: readers may reject such a round."""
    SOURCE = "source"
    """The name is empty, too long, no UTF-8, or bytes follow it."""

    RATE = "rate"
    """More packets from this address than are let in."""
    KEY_UNKNOWN = "key_unknown"
    KEY_OF_OTHERS = "key_of_others"
    """The key is good, and not for this source."""
    FORGED = "forged"
    """The signature does not fit the bytes."""
    COOKIE = "cookie"
    """A report of a round that this server, as it runs now, has not answered."""
    OLD = "old"
    """A report more than 5 s after its answer."""
    REPEATED = "repeated"
    """A report taken before."""

    ABSURD = "absurd"
    """Stamps that no round can have: answered before asked, say."""
    SERVER_CLOCK = "server_clock"
    """The server's clock stepped, or the packet lay in its queue for over a second."""
    FULL = "full"
    """No room: for the sample on its way to the broker, or to remember the report."""
    UNSENT = "unsent"
    """The system did not take a packet to be sent."""

    TIMEOUT = "timeout"
    """No answer within the time-out; counted for every try."""
    UNACKNOWLEDGED = "unacknowledged"
    """Answered, but the report was not confirmed."""
    UNEXPECTED = "unexpected"
    """An answer to what is not asked, or not asked any more."""
    JUMP = "jump"
    """The source's clock jumped during the round."""
    SOURCE_CLOCK = "source_clock"
    """The source's own clock is so early or late that readers may reject the round, or so
    far from the one that only runs that mono cannot be known."""
    UNREACHABLE = "unreachable"
    """No such name, or the network or the host reports that nobody is there."""
    FAILED = "failed"
    """Anything else; the log has it."""
