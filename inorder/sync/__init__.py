"""Time sync between a source and the sync servers, the source's side.

    client         the threads and sockets around it
    conversation   the protocol with one server, without a socket
    jumps          whether the source's own clock has jumped
    keys           who may speak for which source: the key file, and the signatures
    known          what rounds show about an offset, by plain intersection of intervals
    packet         bytes <-> a packet; docs/reference/sync_protocol.md has the layout
    reason         why a packet or a round comes to nothing, one word each
    settings       what a source may set
    stamps         when the kernel received a datagram

The server's side is `producers.sync_server`, a part of the engine.
"""

from inorder.sync.client import SyncClient
from inorder.sync.keys import KeyRing
from inorder.sync.settings import SyncSettings

__all__ = ["KeyRing", "SyncClient", "SyncSettings"]
