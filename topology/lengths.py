"""How long windows and intervals may be, and in how many windows an event may lie."""

from __future__ import annotations

from typing import Final

MAX_LENGTH_NS: Final = 100 * 366 * 86_400 * 10**9
"""A hundred years; longer ones are a slip."""

MAX_SLICES: Final = 10_000
"""Windows that one event may belong to."""
