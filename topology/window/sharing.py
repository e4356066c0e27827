"""Windows that slide share the work of adding up their slices: two stacks.

What a key has in the slices before a turning point is kept as sums from each slice up to
there, what it has after as one sum from there on. A window is then one of the former and the
latter taken together, whatever the number of its slices; when windows begin behind the
turning point, a new one is set at the end of the window that is asked for. So for each slide
a key pays three mergings, on average, and not one for each slice of the window. Needs nothing
but merging: no inverse, which min, max and the like do not have.

A late event changes sums that are held: then what is held of its key is forgotten and made
anew. Memory: up to one row of row per pane. Nothing of this is state: it is derived.

Proved by: tests/topology/window/test_oracle.py, tests/topology/window/test_worlds.py
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.window.row import Row

Slice = tuple[int, Row]
"""Where it begins, and what a key has there."""


class Sums:
    """The sums of one key. `front`: from each slice to `turn_ns`, falling; `back`: from there on to
    `end_ns`."""

    __slots__ = ("back", "end_ns", "front", "start_ns", "turn_ns")

    def __init__(self, slices: Sequence[Slice], start_ns: int, end_ns: int) -> None:
        self.front: list[Slice] = []
        self.back: Row | None = None
        self.start_ns = start_ns
        self.turn_ns = self.end_ns = end_ns
        sums: Row | None = None
        for slice_ns, row in reversed(slices):
            grown = row.copy()
            if sums is not None:
                grown.merge(sums)
            self.front.append((slice_ns, grown))
            sums = grown

    def window(self, slices: Sequence[Slice], start_ns: int, end_ns: int) -> Row:
        """`slices` of [start, end), neither of which falls from one question to the next."""
        self.start_ns = start_ns
        for slice_ns, row in slices:
            if slice_ns >= self.end_ns:
                if self.back is None:
                    self.back = row.copy()
                else:
                    self.back.merge(row)
        self.end_ns = end_ns
        while self.front and self.front[-1][0] < start_ns:
            self.front.pop()
        if not self.front:
            return (self.back or slices[0][1]).copy()
        together = self.front[-1][1].copy()
        if self.back is not None:
            together.merge(self.back)
        return together


class Sharing:
    """For all keys."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[str, Sums] = {}

    def window(self, key: str, slices: Sequence[Slice], start_ns: int, end_ns: int) -> Row:
        """What the key has in the slices, which are those of [start, end), rising."""
        sums = self._sums.get(key)
        if sums is not None and start_ns < sums.start_ns:  # an old window, emitted anew
            together = slices[0][1].copy()
            for _, row in slices[1:]:
                together.merge(row)
            return together
        if sums is None or start_ns >= sums.turn_ns:
            sums = self._sums[key] = Sums(slices, start_ns, end_ns)
        return sums.window(slices, start_ns, end_ns)

    def forget(self, key: str) -> None:
        """A slice of the key that has been added up is another now."""
        self._sums.pop(key, None)

    def forget_before(self, time_ns: int) -> None:
        """Keys of which no window has been asked for that begins then or later."""
        for key in [key for key, sums in self._sums.items() if sums.start_ns < time_ns]:
            del self._sums[key]
