"""Remembers the last numbers of a source, to distinguish copies from other events of a number.

For each of the last `SIZE` numbers that came, the timestamp and a digest of the content are
remembered. So are those of the first numbers of an epoch, because most restarts begin with them.
`topology.order.reorder.trial` decides with them. They are remembered only for sources that write no
epochs, and only for their newest epoch. The sequence knows which numbers came.

All sources together remember at most `MAX_BYTES`. Beyond that, the half of the sources that has
been silent longest is dropped from memory. A dropped source is remembered again from its next
number on.

The state is saved in pages of `PAGE` numbers, and only changed pages are written. Numbers that are
`SIZE` apart share a place, so the pages of a source never become more.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import lru_cache
from marshal import dumps
from typing import Any, Final
from zlib import crc32

from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.state.saved import INT, list_of
from topology.state.tables import NumberAndKey, NumberedTable

RECENT: Final = "recent/"
SIZE: Final = 256
LAST: Final = SIZE - 1
"""The place of a number is `PAGE + (number & LAST)`, behind those of the first numbers."""
PAGE: Final = 16
PAGES: Final = SIZE // PAGE
FIRST_PAGE: Final = PAGES
"""The page of the first numbers, which are as many as a page has."""
BYTES: Final = (SIZE + PAGE) * 12
"""The memory of one source, without its objects."""
MAX_BYTES: Final = 64 * 2**20
"""The memory of all sources of an operator together, about 22,000 sources."""
MOST: Final = MAX_BYTES // BYTES
MOST_TYPES: Final = 256
"""The maximum number of types of events whose checksums are kept."""
NEVER_QUICK: Final = 1 << 62
"""The `quick_from` of a source that has no places for its last numbers."""


def digest_of(event: Event) -> int:
    """Return a checksum of 32 bits of an event's payload and type, or 0 if it has no payload.

    For most events the codec has computed it while it read them.
    """
    if event.digest:
        return event.digest
    value = event.value
    if value is None or value == b"":
        return 0
    content = value if isinstance(value, bytes) else content_of(value)
    return crc32(content, digest_of_type(event.type))


@lru_cache(MOST_TYPES)
def digest_of_type(type_: str) -> int:
    return crc32(type_.encode(errors="surrogatepass"))


def content_of(value: Any) -> bytes:
    """Return bytes for a payload that are the same in every process and version of Python.

    `marshal` takes half of the time of `repr`. Its format 2 writes a shared object each time.
    """
    try:
        return dumps(value, 2)
    except ValueError:
        return repr(value).encode()


@mypyc_attr(acyclic=True)
class Recent:
    """The first and the last numbers of one source.

    The last ones have places only once a number is not among the first, because many sources of a
    large fleet send little.

    Attributes:
        since: The smallest number that is remembered if it came.
        first: The first number that an epoch usually begins with.
        quick_from: The smallest number that `remember_last` need not handle.
        unsaved: The smallest number whose page has changed since the last checkpoint.
        is_first_unsaved: Whether the page of the first numbers has changed.
    """

    __slots__ = (
        "digests",
        "first",
        "is_first_unsaved",
        "quick_from",
        "since",
        "stamps",
        "unsaved",
    )

    def __init__(self, first: int) -> None:
        self.first = first
        self.forget()

    def forget(self) -> None:
        self.stamps = array("q", bytes(8 * PAGE))
        self.digests = array("I", bytes(4 * PAGE))
        self.quick_from = NEVER_QUICK
        self.since = 0
        self.unsaved = self.first + PAGE
        self.is_first_unsaved = True

    def covers(self, number: int, highest: int) -> bool:
        """Return whether the number is remembered if it came."""
        return number >= self.since and (
            number > highest - SIZE or self.first <= number < self.first + PAGE
        )

    def place_of(self, number: int) -> int:
        """Return the place of a number that is remembered."""
        begun = number - self.first
        return begun if 0 <= begun < PAGE else PAGE + (number & LAST)

    def note(self, event: Event, highest: int) -> None:
        """Remember an event, unless its number is too far below the highest one that came."""
        number = event.seq
        if number > highest - SIZE or 0 <= number - self.first < PAGE:
            self.remember_last(event)
            self.unsaved = min(self.unsaved, max(number, self.first + PAGE))

    def remember_last(self, event: Event) -> None:
        """Remember an event whose number is among the first or the last ones."""
        place = self.place_of(event.seq)
        if place < PAGE:
            self.is_first_unsaved = True
        elif self.quick_from == NEVER_QUICK:
            self.make_room()
        self.stamps[place] = event.ts_ns
        self.digests[place] = digest_of(event)

    def make_room(self) -> None:
        """Make places for the last numbers."""
        self.stamps.frombytes(bytes(8 * SIZE))
        self.digests.frombytes(bytes(4 * SIZE))
        self.quick_from = self.first + PAGE

    def raise_numbers(self, cycle: int) -> None:
        """Treat all numbers as later ones by a cycle, because they come after a wrap."""
        if self.quick_from == NEVER_QUICK:
            self.make_room()
        for of_places in (self.stamps, self.digests):
            turned = SIZE - (cycle & LAST)
            last = of_places[PAGE:]
            of_places[PAGE:] = last[turned:] + last[:turned]
        for begun in range(PAGE):
            place = PAGE + (self.first + begun + cycle & LAST)
            if self.stamps[begun] and not self.stamps[place]:
                self.stamps[place], self.digests[place] = self.stamps[begun], self.digests[begun]

    def page(self, page: int) -> list[int]:
        at = self.place_of_page(page)
        return [*self.stamps[at : at + PAGE], *self.digests[at : at + PAGE]]

    def place_of_page(self, page: int) -> int:
        return 0 if page == FIRST_PAGE else PAGE + page * PAGE


class Recents(NumberedTable[list[int]]):
    """The last numbers of all sources, saved in pages by (index of the page, source)."""

    source_at = 1

    def __init__(self, first: int) -> None:
        super().__init__(RECENT, list_of(INT))
        self._first = first
        self.by_source: dict[str, Recent] = {}

    def of(self, source: str) -> Recent:
        """Return the memory of a source, creating it if there is none."""
        recent = self.by_source.get(source)
        if recent is None:
            recent = self.by_source[source] = Recent(self._first)
        return recent

    def restart(self, source: str) -> None:
        """Forget the numbers of a source, if any are remembered, because it begins an epoch."""
        recent = self.by_source.get(source)
        if recent is not None:
            recent.forget()
            self.mark_changed(source)

    def drop(self, source: str) -> None:
        """Drop the memory of a source, if there is one."""
        if self.by_source.pop(source, None) is not None:
            self.mark_changed(source)

    def raise_numbers(self, source: str, cycle: int) -> None:
        """Treat the numbers of a source as later ones by a cycle, if they are remembered."""
        recent = self.by_source.get(source)
        if recent is not None:
            recent.raise_numbers(cycle)
            self.mark_changed(source)

    def mark_changed(self, source: str) -> None:
        """Record all pages of a source as changed."""
        self.mark_pages_changed(source, 0, LAST)
        self.note((FIRST_PAGE, source))

    def mark_pages_changed(self, source: str, first: int, last: int) -> None:
        """Record the pages of the numbers `first`..`last` as changed."""
        for page in range(max(first, last - LAST) // PAGE, last // PAGE + 1):
            self.note((page % PAGES, source))

    # -- The table ---------------------------------------------------------------------------------

    def all_keys(self) -> Iterable[NumberAndKey]:
        for source in self.by_source:
            for page in range(PAGES + 1):
                if self.find((page, source)) is not None:
                    yield page, source

    def find(self, key: NumberAndKey) -> list[int] | None:
        recent = self.by_source.get(key[1])
        row = [] if recent is None else recent.page(key[0])
        return row if any(row) else None

    def put(self, key: NumberAndKey, row: list[int]) -> None:
        if len(row) != 2 * PAGE or not 0 <= key[0] <= FIRST_PAGE:
            raise ValueError("it is not a page")
        recent = self.of(key[1])
        at = recent.place_of_page(key[0])
        if at and recent.quick_from == NEVER_QUICK:
            recent.make_room()
        try:
            recent.stamps[at : at + PAGE] = array("q", row[:PAGE])
            recent.digests[at : at + PAGE] = array("I", row[PAGE:])
        except OverflowError as wrong:
            raise ValueError("a number of it is too large") from wrong
