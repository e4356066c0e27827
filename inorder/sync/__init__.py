"""Measure the clock of a source against sync servers: the source's side of the protocol.

    client         the threads and sockets for the conversations
    conversation   the protocol with one server, without a socket
    jumps          detection of jumps of the source's own clock
    keys           the key file with the keys of each source, and the signatures
    known          the offset that follows from rounds, by intersection of intervals
    packet         bytes <-> a packet; docs/reference/sync_protocol.md has the layout
    reason         the reasons why a packet or a round fails, one word each
    settings       the settings of a source
    stamps         the time at which the kernel received a datagram

The server's side is `producers.sync_server`, a part of the engine.
"""

from inorder.sync.client import SyncClient
from inorder.sync.keys import KeyRing
from inorder.sync.settings import SyncSettings

__all__ = ["KeyRing", "SyncClient", "SyncSettings"]
