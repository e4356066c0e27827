"""Reports taken already, for as long as a copy of one could still pass.

Two generations, of at least `keep_s` each: an entry is kept for `keep_s` at least, and
not much longer than twice that while packets come. Bound: `max_entries` a generation; a
report that finds no room is refused, not forgotten, for a copy would be as good as the
first. Cost: O(1).
"""

from __future__ import annotations


class SeenTokens:
    """Times are of a clock that does not go back, in seconds."""

    def __init__(self, keep_s: float, max_entries: int) -> None:
        self._keep_s = keep_s
        self._max_entries = max_entries
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._born_s = float("-inf")

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def has(self, token: bytes, now_s: float) -> bool:
        self._age(now_s)
        return token in self._young or token in self._old

    @property
    def is_full(self) -> bool:
        """Whether the generation is full that an entry would go to, as of the last `has`."""
        return len(self._young) >= self._max_entries

    def add(self, token: bytes) -> None:
        """After `has` and `is_full`; both false."""
        self._young.add(token)

    def _age(self, now_s: float) -> None:
        age_s = now_s - self._born_s
        if age_s < self._keep_s:
            return
        self._old = self._young if age_s < 2 * self._keep_s else set()
        self._young = set()
        self._born_s = now_s
