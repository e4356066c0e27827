"""The sources of a strategy: how far each has come, and which of them still count.

A source counts (is live) until it says bye, or, where `idle_ns` is given, until nothing of
it has arrived for so long; it counts again once it sends. At most `max_sources` are
remembered: the longest idle one is forgotten, and with it what was known of it.

Cost: O(1) to hear; the smallest newest time O(sources) after the source that had it moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from topology.model.kept import BIG, FLAG, KeptPart, Shape, TableWithin
from topology.model.native import mypyc_attr
from topology.model.operator import NEVER
from topology.model.sources import KnownSource, SourceTable
from topology.waiting.policy import AFTER_ALL, BEFORE_ALL

MAX_SOURCES = 10_000
GONE_AFTER = 10
"""A source that has been silent for so many times `idle_ns` is no longer missed."""

SOURCE: Final = Shape("waiting.source", 1, last_ns=BIG, last_arrival_ns=BIG, said_bye=FLAG)


def sources_of(source: Shape) -> Shape:
    """Return the shape of `Sources` whose rows have that shape."""
    return Shape("waiting.sources", 1, newest_ns=BIG, table=TableWithin(source))


@mypyc_attr(allow_interpreted_subclasses=True)
class Source(KnownSource):
    """A source of a strategy; `last_ns` is its newest time."""

    SHAPE = SOURCE
    __slots__ = ("last_ns", "said_bye")

    def __init__(self, source: str) -> None:
        super().__init__(source, BEFORE_ALL)
        self.last_ns = BEFORE_ALL
        self.said_bye = False


S = TypeVar("S", bound=Source)


class StrategySources(SourceTable[S]):
    """The rows of `Sources`."""

    def __init__(self, make: Callable[[str], S], shape: Shape, max_sources: int) -> None:
        super().__init__("of/", shape, max_sources)
        self._make = make

    def fresh(self, key: str) -> S:
        return self._make(key)


class Sources(KeptPart, Generic[S]):
    """The sources that a strategy knows, in a `table`."""

    def __init__(
        self,
        make: Callable[[str], S],
        shape: Shape,
        idle_ns: int | None,
        max_sources: int = MAX_SOURCES,
    ) -> None:
        self._idle_ns = NEVER if idle_ns is None else idle_ns
        self._least_ns: int | None = None  # smallest newest time, None: not known
        self.table = StrategySources(make, shape, max_sources)
        self.known = self.table.rows
        self.newest_ns = BEFORE_ALL

    def hear(self, name: str, now_ns: int) -> S:
        """Return the source of that name, which has just sent."""
        source = self.known.get(name)
        if source is None:
            source = self.table.fresh(name)
            source.last_arrival_ns = now_ns
            self.table.add(source)
            self._least_ns = None
        if source.said_bye:
            source.said_bye = False
            self._least_ns = None
        source.last_arrival_ns = now_ns
        if not source.dirty:
            self.table.mark(source)
        return source

    def advance(self, source: S, ts_ns: int) -> None:
        """The source has come to `ts_ns`, not below where it was."""
        if source.last_ns == self._least_ns:
            self._least_ns = None
        source.last_ns = ts_ns
        if ts_ns > self.newest_ns:
            self.newest_ns = ts_ns

    def leave(self, name: str) -> None:
        source = self.known.get(name)
        if source is not None:
            source.said_bye = True
            self._least_ns = None
            self.table.mark(source)

    def live(self, now_ns: int) -> list[S]:
        since_ns = now_ns - self._idle_ns
        return [
            one
            for one in self.known.values()
            if not one.said_bye and one.last_arrival_ns > since_ns
        ]

    def least_ns(self, now_ns: int) -> int:
        """The smallest newest time of the live sources; the largest of all where none is."""
        if self._idle_ns < NEVER:
            least_ns, since_ns = AFTER_ALL, now_ns - self._idle_ns
            for one in self.known.values():  # at each decision, so without a list of the live
                if one.last_ns < least_ns and one.last_arrival_ns > since_ns and not one.said_bye:
                    least_ns = one.last_ns
        else:
            if self._least_ns is None:
                there = (one.last_ns for one in self.known.values() if not one.said_bye)
                self._least_ns = min(there, default=AFTER_ALL)
            least_ns = self._least_ns
        return least_ns if least_ns < AFTER_ALL else self.newest_ns

    def idle_is_behind(self, bound_ns: int, now_ns: int) -> bool:
        """Whether a source that is no longer waited for, but may yet speak, last sent below
        the bound."""
        if self._idle_ns == NEVER:
            return False
        since_ns = now_ns - self._idle_ns
        departed_ns = now_ns - GONE_AFTER * self._idle_ns
        return any(
            departed_ns < one.last_arrival_ns <= since_ns
            and not one.said_bye
            and one.last_ns <= bound_ns
            for one in self.known.values()
        )

    def next_idle_ns(self, now_ns: int) -> int | None:
        """When the next live source will no longer be."""
        if self._idle_ns == NEVER:
            return None
        return min((one.last_arrival_ns + self._idle_ns for one in self.live(now_ns)), default=None)
