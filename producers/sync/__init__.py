"""Time sync between sources and a server, so that readers know the sources' clocks.

    packet         bytes <-> a packet; docs/sync_protocol.md has the layout
    reason         why a packet or a round comes to nothing, one word each
    keys           who may speak for which source: the key file, and the signatures
    stamps         when the kernel received a datagram
    limiter        so many packets a second from one address
    seen           reports taken already
    answering      the server's side of the protocol, without a socket
    server         the socket around it
    publishing     samples on their way to the topic
    metrics        the server's counts for Prometheus
    known          what rounds say about an offset, by plain intersection of intervals
    jumps          whether the source's own clock has jumped
    conversation   the source's side of the protocol with one server, without a socket
    client         the threads and sockets around it

reorder_drift_merge.md 2.1, 2.2, 2.4 and 2.5.
"""

from producers.sync.client import SyncClient
from producers.sync.keys import KeyRing
from producers.sync.settings import SyncSettings

__all__ = ["KeyRing", "SyncClient", "SyncSettings"]
