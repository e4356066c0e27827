"""Stores the sources of a strategy: their newest times, and which of them are live.

A source is live until its end-of-stream marker, or until nothing from it has arrived for `idle_ns`.
It is live again once it sends. At most `max_sources` are remembered. Beyond that the source that
has been silent longest is forgotten with its counts.

Cost: O(1) for an arrival; O(sources) for each lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from topology.answer.waiting.policy import AFTER_ALL, BEFORE_ALL
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER
from topology.state.saved import BIG, FLAG, Shape
from topology.state.sources import KnownSource, SourceTable

MAX_SOURCES = 10_000
GONE_AFTER = 10
"""The multiple of `idle_ns` after which windows no longer count as lacking a silent source."""

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

    def observe(self, name: str, now_ns: int) -> S:
        """Return the source of that name, which has just sent, and record its arrival."""
        source = self.rows.get(name)
        if source is None:
            source = self.make_source(name, now_ns)
            self.add(source)
            return source
        source.said_bye = False
        source.last_arrival_ns = now_ns
        self.mark(source)
        return source

    def note_end(self, name: str) -> None:
        """Record the end-of-stream marker of a source."""
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
        """Return the smallest newest time of the live sources, or AFTER_ALL if there are none."""
        least_ns, since_ns = AFTER_ALL, now_ns - self._idle_ns
        # No list of the live sources is made, because this runs at each decision.
        for one in self.rows.values():
            if one.last_ns < least_ns and one.last_arrival_ns > since_ns and not one.said_bye:
                least_ns = one.last_ns
        return least_ns

    def is_idle_behind(self, bound_ns: int, now_ns: int) -> bool:
        """Return whether an idle source, which may still send, has sent nothing after the bound."""
        since_ns = now_ns - self._idle_ns
        departed_ns = now_ns - GONE_AFTER * self._idle_ns
        return any(
            departed_ns < one.last_arrival_ns <= since_ns
            and not one.said_bye
            and one.last_ns <= bound_ns
            for one in self.rows.values()
        )

    def next_idle_ns(self, now_ns: int) -> int:
        """Return the time at which the next live source becomes idle, or NEVER if none will."""
        return min([NEVER, *(one.last_arrival_ns + self._idle_ns for one in self.live(now_ns))])
