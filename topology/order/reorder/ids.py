"""Remembers the ids of events without numbers, to find their copies.

An id counts within its source, because only the records of one source are surely in one partition.
`Event.digest` is the digest of both (`topology.records.checker.digest_of_id`). An id is remembered
for `id_memory` after the first event with it arrived, by the arrival clock. So a replay and a
restart find the same copies. A dead letter is not remembered, because a better record may follow.

At most `max_ids` ids of all sources of a lane are remembered. Beyond that, the page with the oldest
ids is forgotten early, and they are counted in `forgotten`. Copies of their events are then taken
as new ones.

The state is saved in pages of ids in the order of their arrival. Only the last page changes, and a
page is removed as a whole.

Cost: O(1) per event. Memory: about 150 bytes for each id.
"""

from __future__ import annotations

from array import array
from typing import Final

from topology.order.reorder.settings import ReorderConfig
from topology.state.saved import INT, ShapeRefused, list_of
from topology.state.tables import Table

IDS: Final = "ids/"
PAGE: Final = 128
"""The number of ids of a page, which is less if `max_ids` is small."""


class RememberedIds(Table[int, list[int]]):
    """The remembered ids, saved in pages by number: the arrival and the digest of each in turn.

    Attributes:
        count: The number of remembered ids.
        forgotten: The number of ids that were forgotten before `id_memory` had passed.
    """

    def __init__(self, config: ReorderConfig) -> None:
        super().__init__(IDS, list_of(INT))
        self._memory_ns = config.id_memory_ns
        self._most = config.max_ids
        self._page = max(1, min(PAGE, self._most // 8))
        self._pages: dict[int, array[int]] = {}
        self._first = 0
        self._last = -1
        self._came_ns: dict[int, int] = {}
        self.count = 0
        self.forgotten = 0

    def is_duplicate(self, digest: int, now_ns: int) -> bool:
        """Return whether an event with this id came within `id_memory`."""
        came_ns = self._came_ns.get(digest)
        return came_ns is not None and now_ns - came_ns < self._memory_ns

    def remember(self, digest: int, now_ns: int) -> None:
        """Remember the id of an event that is not a copy."""
        page = self._pages.get(self._last)
        if page is None or len(page) >= 2 * self._page:
            self._last += 1
            page = self._pages[self._last] = array("q")
        page.append(now_ns)
        page.append(digest)
        self.count += 1
        self._came_ns[digest] = now_ns
        self.note(self._last)
        while self._is_first_page_expired(now_ns - self._memory_ns):
            self._drop_first(now_ns - self._memory_ns)

    def _is_first_page_expired(self, expired_ns: int) -> bool:
        """Return whether the first page is to be forgotten."""
        return self.count > self._most or self._pages[self._first][-2] <= expired_ns

    def _drop_first(self, expired_ns: int) -> None:
        page = self._pages.pop(self._first)
        self.note(self._first)
        self._first += 1
        self.count -= len(page) // 2
        for at in range(0, len(page), 2):
            came_ns, digest = page[at], page[at + 1]
            self.forgotten += came_ns > expired_ns
            if self._came_ns[digest] == came_ns:  # Otherwise it came again after it had expired.
                del self._came_ns[digest]

    # -- The table ---------------------------------------------------------------------------------

    def all_keys(self) -> list[int]:
        return list(self._pages)

    def find(self, key: int) -> list[int] | None:
        page = self._pages.get(key)
        return None if page is None else list(page)

    def name_of(self, key: int) -> str:
        return f"{key:d}"

    def key_of(self, name: str) -> int:
        return int(name)

    def put(self, key: int, row: list[int]) -> None:
        """Add a page from a restored state; pages may come in any order."""
        if not row or len(row) % 2 or key < 0:
            raise ValueError("it is not a page of ids")
        self._first = min(self._first, key) if self._pages else key
        self._last = max(self._last, key)
        self._pages[key] = array("q", row)
        self.count += len(row) // 2
        for at in range(0, len(row), 2):
            came_ns, digest = row[at], row[at + 1]
            self._came_ns[digest] = max(came_ns, self._came_ns.get(digest, came_ns))

    def check(self) -> None:
        """Raise ShapeRefused if a page of a restored state is missing."""
        if len(self._pages) != self._last - self._first + 1:
            raise ShapeRefused("a page of the ids that came is missing")
