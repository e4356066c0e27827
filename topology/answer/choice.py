"""CHOICE: which answer a detector with `answer: auto` gives: it waits, corrects, or reads ahead.

At the end of a span each of the three ways is known by three figures: how long a result waits, what
taking back costs of a processor, and which share of the results is taken back or changed. The
figures of ways that are not on are known, too, so none has to be tried. A way *fits* if

    price <= max(room, SLIGHT)    and    changed <= withdrawn, where the query sets it

`room` is what the query is granted, as far as it is free (`budget`): the load is an argument. The
first way is to wait until nothing changes. It costs nothing, and always fits.

The best is the way with the shortest wait among those that fit. Three rules keep the choice from
flapping:

* A way that has not fitted for `LEAVES` spans in a row is left, for the best that fits.
* Another way is taken if, for `patience` spans in a row, its wait was an eighth shorter and it
  fitted with a quarter to spare; or if it is slower and waits at most a sixteenth longer.
* Patience is `PATIENCE` spans. It doubles, up to `MOST_PATIENCE`, whenever a way is left that was
  kept for less than `LASTS` spans; it is `PATIENCE` again when one is left that was kept longer.

So there are at most two changes in `patience` spans, and two in 16 s under a load that comes and
goes too fast to follow.

All follows from the figures, in integers. The decision is part of the state; the figures that led
to it are kept for people.

Cost: O(ways) for a span. Memory: a few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from topology.model.native import mypyc_attr
from topology.model.operator import Plain
from topology.model.saved import Saved

SLIGHT_PPM: Final = 10_000
"""A price that is always paid: to do without it would free no processor."""
LEAVES: Final = 2
PATIENCE: Final = 10
MOST_PATIENCE: Final = 160
LASTS: Final = 100
GAIN: Final = 8
GAIN_NS: Final = 1_000_000
"""A wait that is shorter by less is no shorter."""


class Way(NamedTuple):
    """`answer`: as in the file. `wait_ns`: behind the newest event, mean. `price_ppm`: of a
    processor. `changed_ppm`: of what is emitted."""

    answer: str
    wait_ns: int
    price_ppm: int
    changed_ppm: int


class Chosen(NamedTuple):
    """The answer that a detector has chosen. `changes` count since it was made or restored."""

    query: str
    answer: str
    changes: int = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Choice(Saved):
    """`answer`: the one that is on, since `since_ns`; None: from the beginning. `withdrawn_ppm`:
    the largest share of results that may be withdrawn; None: any. `changes`: how often the answer
    changed; no part of the state."""

    FIELDS = ("answer", "since_ns", "_fitted", "_unfitted", "_kept", "_patience", "_because")

    def __init__(self, answer: str, withdrawn_ppm: int | None = None) -> None:
        self.answer = answer
        self.since_ns: int | None = None
        self.changes = 0
        self._withdrawn_ppm = withdrawn_ppm
        self._fitted = 0
        self._unfitted = 0
        self._kept = 0
        self._patience = PATIENCE
        self._because: list[Plain] = []
        self._ways: list[Way] = []
        self._room_ppm = 0

    def weigh(self, now_ns: int, ways: Sequence[Way], room_ppm: int) -> bool:
        """A span is over. The slowest way comes first, and the one that is on is among them.
        Whether it has changed."""
        self._ways, self._room_ppm = list(ways), room_ppm
        self._kept = min(self._kept + 1, LASTS)
        held = next(way for way in ways if way.answer == self.answer)
        if not self._fits(held, spare=False):
            self._fitted = 0
            self._unfitted += 1
            if self._unfitted < LEAVES:
                return False
            is_soon = self._kept < LASTS
            self._patience = min(2 * self._patience, MOST_PATIENCE) if is_soon else PATIENCE
            self._change(now_ns, held, self._best(spare=False))
            return True
        self._unfitted = 0
        best = self._best(spare=True)
        if _gains(best, held):
            pass
        elif (slower := self._as_good(held)) is not None:
            best = slower
        else:
            self._fitted = 0
            return False
        self._fitted += 1
        if self._fitted < self._patience:
            return False
        self._change(now_ns, held, best)
        return True

    def _fits(self, way: Way, *, spare: bool) -> bool:
        whole, part = (4, 3) if spare else (1, 1)
        if way.price_ppm * whole > max(self._room_ppm, SLIGHT_PPM) * part:
            return False
        most_ppm = self._withdrawn_ppm
        return most_ppm is None or way.changed_ppm * whole <= most_ppm * part

    def _best(self, *, spare: bool) -> Way:
        best = self._ways[0]
        for way in self._ways[1:]:
            if way.wait_ns < best.wait_ns and self._fits(way, spare=spare):
                best = way
        return best

    def _as_good(self, held: Way) -> Way | None:
        """A slower way that waits hardly longer."""
        for way in self._ways:
            if way.answer == held.answer:
                return None
            if self._fits(way, spare=True) and not _gains(held, way, 2 * GAIN):
                return way
        return None

    def _change(self, now_ns: int, held: Way, best: Way) -> None:
        self.changes += 1
        self._because = [*held, *best, self._room_ppm]
        self.answer, self.since_ns = best.answer, now_ns
        self._fitted = self._unfitted = self._kept = 0

    # -- for people --------------------------------------------------------------------------------

    def explain(self) -> dict[str, Any]:
        """Which way holds, since when, and why; and how all of them stand."""
        return {
            "answer": self.answer,
            "since": self.since_ns,
            "because": self._reason(),
            "changes": self.changes,
            "room_ppm": self._room_ppm,
            "patience_spans": self._patience,
            "ways": [{**way._asdict(), "fits": self._fits(way, spare=False)} for way in self._ways],
        }

    def _reason(self) -> str:
        if not self._because:
            return "it is how it begins"
        before, best = Way(*self._because[:4]), Way(*self._because[4:8])
        room_ppm = self._because[8]
        costs = f"costs {_percent(best.price_ppm)} of a processor"
        if best.wait_ns < before.wait_ns:
            waits = f"{_ms(best.wait_ns)} in place of {_ms(before.wait_ns)}"
            return f"it waits {waits}, and {costs} where {_percent(room_ppm)} may be taken"
        if before.price_ppm > max(room_ppm, SLIGHT_PPM):
            took = f"`{before.answer}` took {_percent(before.price_ppm)} of a processor"
            return f"{took} where {_percent(room_ppm)} may be taken; this {costs}"
        if not _gains(before, best):
            return f"`{before.answer}` waits no shorter: {_ms(before.wait_ns)}"
        share = _percent(before.changed_ppm)
        return f"of what `{before.answer}` emitted, {share} was taken back or changed"


def _gains(way: Way, before: Way, part: int = GAIN) -> bool:
    least_ns = max(before.wait_ns // part, GAIN_NS * GAIN // part)
    return before.wait_ns - way.wait_ns >= least_ns


def _ms(wait_ns: int) -> str:
    return f"{wait_ns / 1e6:,.1f} ms"


def _percent(ppm: int) -> str:
    return f"{ppm / 1e4:.2f} %"
