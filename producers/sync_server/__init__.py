"""The server that measures sources' clocks, the far end of `inorder.sync`.

    answering      the protocol, without a socket
    limiter        so many packets a second from one address
    metrics        the server's counts for Prometheus
    publishing     samples on their way to the topic
    seen           reports taken already
    server         the socket around it
    vectors        whole exchanges, byte by byte, for those who write a client in another language

Packets, keys and reasons are shared with the client (`inorder.sync`).
"""
