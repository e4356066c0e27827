"""Serves clock measurements to sources that use `inorder.sync`.

    answering      implements the protocol without a socket
    limiter        limits the packets per second from one address
    metrics        exposes the server's counts to Prometheus
    publishing     sends samples to the topic
    seen           remembers accepted reports
    server         runs the protocol on a UDP socket
    vectors        writes complete exchanges, byte by byte, for authors of other clients

Packets, keys and reasons are shared with the client (`inorder.sync`).
"""
