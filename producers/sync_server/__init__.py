"""Measures the clocks of sources that use `inorder.sync`, as a server.

    answering      the protocol, without a socket
    limiter        limits the packets per second from one address
    metrics        the server's counts for Prometheus
    publishing     sends samples to the topic
    seen           remembers accepted reports
    server         the socket around it
    vectors        complete exchanges, byte by byte, for authors of clients in other languages

Packets, keys and reasons are shared with the client (`inorder.sync`).
"""
