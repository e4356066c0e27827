"""The sources of a strategy: how far each has come, and which of them still count.

A source counts (is live) until it says bye, or until nothing of it has arrived for `idle_ns`; it
counts again once it sends. At most `max_sources` are
remembered: the longest idle one is forgotten, and with it what was known of it.

Cost: O(1) to hear; O(sources) for each question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from topology.model.kept import BIG, FLAG, Shape
from topology.model.native import mypyc_attr
from topology.model.operator import NEVER
from topology.model.sources import KnownSource, SourceTable
from topology.waiting.policy import AFTER_ALL, BEFORE_ALL

MAX_SOURCES = 10_000
GONE_AFTER = 10
"""A source that has been silent for so many times `idle_ns` is no longer missed."""

SOURCE: Final = Shape("waiting.source", 1, last_ns=BIG, last_arrival_ns=BIG, said_bye=FLAG)


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


class Sources(SourceTable[S]):
    """The sources that a strategy knows."""

    def __init__(
        self,
        make: Callable[[str], S],
        shape: Shape,
        idle_ns: int,
        max_sources: int = MAX_SOURCES,
    ) -> None:
        super().__init__("of/", shape, make, max_sources)
        self._idle_ns = idle_ns

    def hear(self, name: str, now_ns: int) -> S:
        """Return the source of that name, which has just sent."""
        source = self.rows.get(name)
        if source is None:
            source = self.first_heard(name, now_ns)
            self.add(source)
            return source
        source.said_bye = False
        source.last_arrival_ns = now_ns
        self.mark(source)
        return source

    def leave(self, name: str) -> None:
        """Note that the source said bye."""
        source = self.rows.get(name)
        if source is not None:
            source.said_bye = True
            self.mark(source)

    def live(self, now_ns: int) -> list[S]:
        since_ns = now_ns - self._idle_ns
        return [
            one for one in self.rows.values() if not one.said_bye and one.last_arrival_ns > since_ns
        ]

    def least_ns(self, now_ns: int) -> int:
        """Return the smallest newest time of the live sources; AFTER_ALL where none is."""
        least_ns, since_ns = AFTER_ALL, now_ns - self._idle_ns
        for one in self.rows.values():  # at each decision, so without a list of the live
            if one.last_ns < least_ns and one.last_arrival_ns > since_ns and not one.said_bye:
                least_ns = one.last_ns
        return least_ns

    def idle_is_behind(self, bound_ns: int, now_ns: int) -> bool:
        """Return whether a source that is no longer waited for, but may yet speak, last sent below
        the bound."""
        since_ns = now_ns - self._idle_ns
        departed_ns = now_ns - GONE_AFTER * self._idle_ns
        return any(
            departed_ns < one.last_arrival_ns <= since_ns
            and not one.said_bye
            and one.last_ns <= bound_ns
            for one in self.rows.values()
        )

    def next_idle_ns(self, now_ns: int) -> int:
        """Return when the next live source will no longer be; NEVER if none will."""
        return min([NEVER, *(one.last_arrival_ns + self._idle_ns for one in self.live(now_ns))])
