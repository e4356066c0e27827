"""Reads what an HTTP server answers, within a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import StreamReader


async def read_at_most(content: StreamReader, most: int) -> bytes:
    """Return all of the content; of more than `most` bytes the first ones, one too many."""
    found = b""
    while len(found) <= most and not content.at_eof():
        found += await content.read(most + 1 - len(found))
    return found
