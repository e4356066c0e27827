"""The units with a match that is sure, by when its members may have happened.

An event can put in doubt only what is sure, and only where its true time and a member's may be no
more than a window apart. So these units are kept by the stretch of time that their members may lie
in, in lists by its length: one match of an event whose clock was a second off must not have every
event look at a second of them.

Cost: a unit O(log n), and a move of references; a question two bisects for each length, by powers
of two, and at most twice the units that it finds of one.

Proved by: tests/topology/pattern/run/test_sure_units.py, tests/topology/pattern/run/test_reach.py
"""

from __future__ import annotations

from bisect import bisect_left, insort

from topology.model.result import CONFIRMED
from topology.pattern.run.ledger import Unit
from topology.pattern.store.entry import Entry, Key

Stretch = tuple[int, int, Key]
"""From, until, and whose: the key of a unit's anchor."""


class SureUnits:
    """Those of one run."""

    __slots__ = ("_by_length", "_stretches", "_units")

    def __init__(self) -> None:
        self._units: dict[Key, Unit] = {}
        self._stretches: dict[Key, Stretch] = {}
        self._by_length: dict[int, list[Stretch]] = {}

    def __len__(self) -> int:
        return len(self._units)

    def note(self, unit: Unit) -> None:
        """What is found of it may be something else than it was, or as sure no more."""
        key = unit.anchor.key
        known, stretch = self._stretches.get(key), _stretch_of(unit)
        if stretch == known:
            return
        if known is not None:
            self.drop(key)
        if stretch is not None:
            self._units[key] = unit
            self._stretches[key] = stretch
            insort(self._by_length.setdefault(_bits(stretch), []), stretch)

    def drop(self, key: Key) -> None:
        """The unit of this anchor is no more."""
        stretch = self._stretches.pop(key, None)
        if stretch is None:
            return
        del self._units[key]
        bits = _bits(stretch)
        alike = self._by_length[bits]
        del alike[bisect_left(alike, stretch)]
        if not alike:
            del self._by_length[bits]

    def around(self, entry: Entry, within_ns: int) -> list[Unit]:
        """Those with a member that may have happened at most so long before or after it."""
        low_ns, high_ns = entry.low_ns - within_ns, entry.high_ns + within_ns
        found: list[Unit] = []
        for bits, alike in self._by_length.items():
            at = bisect_left(alike, (low_ns - (1 << bits), low_ns, ()))
            end = bisect_left(alike, (high_ns + 1, high_ns, ()), at)
            found += [self._units[key] for _, until_ns, key in alike[at:end] if until_ns >= low_ns]
        return found


def _stretch_of(unit: Unit) -> Stretch | None:
    """None if nothing of it is sure."""
    low_ns, high_ns, is_any = 0, 0, False
    for found in unit.found.values():
        if found.confidence != CONFIRMED:
            continue
        for entries in found.match.bound:
            for entry in entries:
                if not is_any:
                    low_ns, high_ns, is_any = entry.low_ns, entry.high_ns, True
                if entry.low_ns < low_ns:
                    low_ns = entry.low_ns
                if entry.high_ns > high_ns:
                    high_ns = entry.high_ns
    return (low_ns, high_ns, unit.anchor.key) if is_any else None


def _bits(stretch: Stretch) -> int:
    low_ns, high_ns, _ = stretch
    return (high_ns - low_ns).bit_length()
