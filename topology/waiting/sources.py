"""The sources of a strategy: how far each has come, and which of them still count.

A source counts (is live) until it says bye, or, where `idle_ns` is given, until nothing of
it has arrived for so long; it counts again once it sends. At most `max_sources` are
remembered: the longest idle one is forgotten, and with it what was known of it.

Once `keep_apart` was called each is a part of the state by itself, so that a checkpoint writes
those that have sent since the last one.

Cost: O(1) to hear; the smallest newest time O(sources) after the source that had it moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeVar

from topology.model.native import mypyc_attr
from topology.model.operator import NEVER, Plain
from topology.model.saved import Saved
from topology.waiting.policy import AFTER_ALL, BEFORE_ALL

MAX_SOURCES = 10_000
GONE_AFTER = 10
"""A source that has been silent for so many times `idle_ns` is no longer missed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Source(Saved):
    """One source: `last_ns` its newest time, `received_ns` when it last sent."""

    __slots__ = ("last_ns", "received_ns", "said_bye")
    FIELDS: ClassVar[tuple[str, ...]] = ("last_ns", "received_ns", "said_bye")

    def __init__(self) -> None:
        self.last_ns = BEFORE_ALL
        self.received_ns = BEFORE_ALL
        self.said_bye = False


S = TypeVar("S", bound=Source)


class Sources(Saved, Generic[S]):
    def __init__(
        self, make: Callable[[], S], idle_ns: int | None, max_sources: int = MAX_SOURCES
    ) -> None:
        self._make = make
        self._idle_ns = NEVER if idle_ns is None else idle_ns
        self._max_sources = max_sources
        self._least_ns: int | None = None  # smallest newest time, None: not known
        self.known: dict[str, S] = {}
        self.newest_ns = BEFORE_ALL
        self._changed: dict[str, None] | None = None  # since `parts`, once they are kept apart

    def keep_apart(self) -> None:
        self._changed = {}

    def hear(self, name: str, now_ns: int) -> S:
        """The source of that name, which has just sent."""
        source = self.known.get(name)
        if source is None:
            if len(self.known) >= self._max_sources:
                idle = min(self.known, key=lambda one: (self.known[one].received_ns, one))
                del self.known[idle]
                self._note(idle)
            source = self.known[name] = self._make()
            self._least_ns = None
        if source.said_bye:
            source.said_bye = False
            self._least_ns = None
        source.received_ns = now_ns
        self._note(name)
        return source

    def _note(self, name: str) -> None:
        if self._changed is not None:
            self._changed[name] = None

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
            self._note(name)

    def live(self, now_ns: int) -> list[S]:
        since_ns = now_ns - self._idle_ns
        return [
            one for one in self.known.values() if not one.said_bye and one.received_ns > since_ns
        ]

    def least_ns(self, now_ns: int) -> int:
        """The smallest newest time of the live sources; the largest of all where none is."""
        if self._idle_ns < NEVER:
            least_ns, since_ns = AFTER_ALL, now_ns - self._idle_ns
            for one in self.known.values():  # at each decision, so without a list of the live
                if one.last_ns < least_ns and one.received_ns > since_ns and not one.said_bye:
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
            departed_ns < one.received_ns <= since_ns
            and not one.said_bye
            and one.last_ns <= bound_ns
            for one in self.known.values()
        )

    def next_idle_ns(self, now_ns: int) -> int | None:
        """When the next live source will no longer be."""
        if self._idle_ns == NEVER:
            return None
        return min((one.received_ns + self._idle_ns for one in self.live(now_ns)), default=None)

    def snapshot(self) -> Plain:
        known = self.parts() if self._changed is None else {}
        return [self.newest_ns, known]

    def parts(self) -> dict[str, Plain]:
        return {name: one.snapshot() for name, one in self.known.items()}

    def changed_parts(self) -> dict[str, Plain]:
        """Those that changed since the last call; None: forgotten."""
        changed, self._changed = self._changed or {}, {}
        known = self.known
        return {name: known[name].snapshot() if name in known else None for name in changed}

    def restore(self, state: Plain) -> None:
        self.newest_ns, known = state
        self.restore_parts(known)

    def restore_parts(self, parts: Mapping[str, Plain]) -> None:
        for name, one in parts.items():
            source = self.known[name] = self._make()
            source.restore(one)
        self._least_ns = None
