"""Remembers accepted reports while a duplicate could still be accepted.

Entries are stored in two generations. Each is at least `keep_s` long, so an entry is stored for at
least `keep_s`, and for about twice that at most while packets arrive. Bound: `max_entries` a
generation. If there is no space, a new report is refused, because a report that is accepted but not
stored could be accepted twice. Cost: O(1).
"""

from __future__ import annotations


class SeenTokens:
    """The set of accepted reports; `now_s` is the time of a monotonic clock."""

    def __init__(self, keep_s: float, max_entries: int) -> None:
        self._keep_s = keep_s
        self._max_entries = max_entries
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._born_s = float("-inf")

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def has(self, token: bytes, now_s: float) -> bool:
        self._expire(now_s)
        return token in self._young or token in self._old

    @property
    def is_full(self) -> bool:
        """Whether the generation that would take a new entry is full, as of the last `has`."""
        return len(self._young) >= self._max_entries

    def add(self, token: bytes) -> None:
        """Add a report; call this only if `has` and `is_full` are both false."""
        self._young.add(token)

    def _expire(self, now_s: float) -> None:
        age_s = now_s - self._born_s
        if age_s < self._keep_s:
            return
        self._old = self._young if age_s < 2 * self._keep_s else set()
        self._young = set()
        self._born_s = now_s
