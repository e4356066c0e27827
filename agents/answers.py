"""Reads an HTTP response up to a maximum size."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import StreamReader


async def read_at_most(content: StreamReader, most: int) -> bytes:
    """Return the whole content, or its first `most` + 1 bytes if it has more than `most`."""
    found = b""
    while len(found) <= most and not content.at_eof():
        found += await content.read(most + 1 - len(found))
    return found
