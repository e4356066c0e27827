"""Lets an embedded broker be reached at a port that its users can know beforehand.

librdkafka's mock cluster chooses its port itself. A Kafka client asks the first server that it is
given only for the brokers' addresses, and then connects to these. So a relay of such connections is
enough. Cost: none for records.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from socket import socket
from typing import Final

CHUNK_BYTES: Final = 1 << 16


async def relay_connections(door: socket, broker: str) -> asyncio.Server:
    """Relay each connection to the bound socket `door` to the broker at HOST:PORT."""
    host, _, port = broker.rpartition(":")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        writer.close()

    return await asyncio.start_server(relay, sock=door)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one side ends; then end the other one."""
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()
