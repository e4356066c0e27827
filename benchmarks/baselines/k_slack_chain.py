"""K-Slack for several queries over one stream, in one store (slack.md 4.5).

The published chain puts a buffer of size K2 - K1 behind one of size K1 and so on, each
tapped by its query. Here there is one sorted store and a cursor for each K at clock - K:
memory is rate * the largest K instead of rate * their sum, an event is sorted in once, and
each query waits only its own K. An event below what a cursor has let go is late there, and
in order for the slower ones. What each tap lets go, and when, is just what a reorder by
time with a `KSlack` of its own would.

`worth_sharing`: whether one store is smaller than one per query, where the queries take
different shares of the stream. Cost: O(log held) to find the place, and moving it in.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Final, NamedTuple

from topology.model.event import Event
from topology.model.operator import NEVER
from topology.waiting.policy import BEFORE_ALL, refuse_below

Key = tuple[int, str, int, int]
NO_KEY: Final[Key] = (BEFORE_ALL, "", 0, 0)


class Tapped(NamedTuple):
    """What the query of place `tap` is given at `at_ns`; `late`: out of order."""

    tap: int
    event: Event
    at_ns: int
    late: bool


class KSlackChain:
    """`ks_ns` in the order of the taps, each >= 0."""

    def __init__(self, ks_ns: Sequence[int]) -> None:
        for k_ns in ks_ns:
            refuse_below("k_ns", k_ns, 0)
        self._ks_ns = list(ks_ns)
        self._store: list[tuple[Key, Event]] = []
        self._last: list[Key] = [NO_KEY] * len(ks_ns)  # what each tap let go last
        self._clock_ns = BEFORE_ALL
        self._now_ns = -NEVER

    @property
    def held(self) -> int:
        return len(self._store)

    def on_batch(self, events: Sequence[Event], now_ns: int) -> list[Tapped]:
        released: list[Tapped] = []
        for event in events:
            if event.at_ns > self._now_ns:
                self._release(released)
                self._now_ns = event.at_ns
            self._take(event, released)
        if now_ns > self._now_ns:
            self._release(released)
            self._now_ns = now_ns
        return released

    def on_end(self) -> list[Tapped]:
        released: list[Tapped] = []
        self._release(released)
        self._clock_ns = NEVER
        self._release(released)
        return released

    def _take(self, event: Event, released: list[Tapped]) -> None:
        key = (event.ref_time_ns, event.source, event.epoch, event.seq)
        self._clock_ns = max(self._clock_ns, event.ref_time_ns)
        late = [tap for tap, last in enumerate(self._last) if key < last]
        released += [Tapped(tap, event, self._now_ns, late=True) for tap in late]
        if len(late) < len(self._last):
            insort(self._store, (key, event), key=_key)

    def _release(self, released: list[Tapped]) -> None:
        store = self._store
        slowest = len(store)
        for tap, k_ns in enumerate(self._ks_ns):
            begin = bisect_right(store, self._last[tap], key=_key)
            end = bisect_right(store, self._clock_ns - k_ns, lo=begin, key=_time)
            for key, event in store[begin:end]:
                released.append(Tapped(tap, event, self._now_ns, late=False))
                self._last[tap] = key
            slowest = min(slowest, max(begin, end))
        del store[:slowest]


def _key(entry: tuple[Key, Event]) -> Key:
    return entry[0]


def _time(entry: tuple[Key, Event]) -> int:
    return entry[0][0]


def worth_sharing(shares_ppm: Sequence[int], ks_ns: Sequence[int]) -> bool:
    """Whether one store for all holds no more than one for each: the largest K against the
    sum of share * K."""
    each = sum(share * k for share, k in zip(shares_ppm, ks_ns, strict=True))
    return max(ks_ns) * 1_000_000 <= each
