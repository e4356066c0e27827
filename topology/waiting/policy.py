"""The contract of all waiting strategies.

A strategy watches arrivals and says up to which time nothing more is to be waited for,
its *frontier*, inclusive. It knows nothing of windows or buffers: two drivers turn the
frontier into behaviour (`topology.waiting.driver`, `topology.reorder.time_buffer`), so
any strategy drives either. No I/O, no clock: `now_ns` is an argument and never goes back.

* `observe(event, now_ns)`: an accepted event (neither duplicate nor malformed), late ones
  too, in arrival order. Only its time, source and type count, never its payload.
* `passes(bound_ns, now_ns)`: nothing at or below `bound_ns` is waited for any more. All
  arrivals stamped <= `now_ns` count, so drivers ask when the instant is over.
* The *frontier* is the largest bound that passes, or passed when it was asked for.
* `deadline_ns(bound_ns, now_ns)`: of a bound that does not pass now, the earliest later
  instant at which it may without an arrival; None: only an arrival helps.
* `confirmed_ns(now_ns)`: the frontier of one who waits for certainty: every live source
  has sent beyond it. `idle_ns` is how long a source may be silent and still live.
* `closed`, `resolved`, `void`, `late`: what came of it. `leave`: a source said bye.

Asking changes nothing: two drivers that ask at different instants decide alike, as long
as each asks at the deadlines. Laws that hold for all: tests/topology/waiting/test_laws.py.

Late here is what a driver calls late; *lateness* of an arrival is its distance to the
largest time before it, *delay* arrival - time, which is negative where clocks are offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from topology.model.event import Event
from topology.model.kept import BIG, FLAG, Kept, Shape
from topology.model.native import mypyc_attr
from topology.model.operator import NEVER, Figures
from topology.model.tables import Table

BEFORE_ALL: Final = -NEVER
"""The frontier before the first event."""

AFTER_ALL: Final = NEVER
"""The frontier after the end."""

# Why a window closed.
CONFIRMED: Final = "confirmed"
PROBABLE: Final = "probable"
CAP: Final = "cap"
IDLE: Final = "idle"
END: Final = "end"

PROMISED: Final = frozenset({CONFIRMED, PROBABLE})
"""Closings that a promised accuracy speaks of; the others are counted apart."""


SLACK: Final = Shape("waiting.slack", 1, _ended=FLAG)
FLOORED: Final = SLACK.with_more("waiting.floored", 1, _floor_ns=BIG, _now_ns=BIG)


@mypyc_attr(allow_interpreted_subclasses=True)
class SlackPolicy(Kept):
    """A strategy. What came of it does not move it, unless an heir says so."""

    SHAPE = SLACK
    __slots__ = SLACK.fields

    certain: ClassVar[bool] = False
    """Whether what is at or below `confirmed_ns` is complete as far as can be known."""

    def __init__(self) -> None:
        self._ended = False

    def observe(self, event: Event, now_ns: int) -> None:
        raise NotImplementedError

    def passes(self, bound_ns: int, now_ns: int) -> bool:
        """Return whether nothing at or below the bound is waited for. Where a strategy weighs each
        bound by itself, what passed may no longer pass a while later: the drivers act on the first
        instant."""
        raise NotImplementedError

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        return None

    def newest_ns(self) -> int:
        """The largest time accepted."""
        raise NotImplementedError

    def confirmed_ns(self, now_ns: int) -> int:
        """Return the certain frontier; where a strategy knows no certainty, its frontier."""
        raise NotImplementedError

    def waives(self, bound_ns: int, now_ns: int) -> bool:
        """Whether a source that has not sent beyond `bound_ns` is left out as idle."""
        return False

    def closed(self, bound_ns: int, now_ns: int, by: str, windows: int = 1) -> None:
        """`windows` windows up to the one that ends at `bound_ns` were closed."""

    def resolved(self, missed: bool, by: str, windows: int = 1) -> None:
        """It is known whether closed windows missed an event."""

    def void(self, by: str) -> None:
        """A window that was closed does not count: there was never an event in it."""

    def late(self, ts_ns: int, lateness_ns: int) -> None:
        """An observed event came after its time had been passed."""

    def leave(self, source: str, now_ns: int) -> None:
        """The source said bye: it is waited for no more until it sends again."""

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True

    def figures(self) -> Figures:
        """For people and their monitors; no part of the state."""
        return {}

    def tables(self) -> Sequence[Table[Any, Any]]:
        """Return the tables that may be saved apart: they hold much, of which each event changes
        little. Each has a prefix of its own; that of one of them may be empty."""
        return ()


@mypyc_attr(allow_interpreted_subclasses=True)
class FlooredSlack(SlackPolicy):
    """A strategy whose frontier does not fall while nothing arrives (`_raw_ns`): what it
    was when an instant began is kept, though an arrival may lower it."""

    SHAPE = FLOORED
    __slots__ = ("_floor_ns", "_now_ns")

    def __init__(self) -> None:
        super().__init__()
        self._floor_ns = BEFORE_ALL
        self._now_ns = BEFORE_ALL

    def _observe(self, event: Event, now_ns: int) -> None:
        raise NotImplementedError

    def _raw_ns(self, now_ns: int) -> int:
        raise NotImplementedError

    def observe(self, event: Event, now_ns: int) -> None:
        if now_ns > self._now_ns:
            if self._now_ns != BEFORE_ALL:
                self._floor_ns = max(self._floor_ns, self._raw_ns(now_ns - 1))
            self._now_ns = now_ns
        self._observe(event, now_ns)

    def passes(self, bound_ns: int, now_ns: int) -> bool:
        return bound_ns <= self._floor_ns or bound_ns <= self._raw_ns(now_ns)

    def confirmed_ns(self, now_ns: int) -> int:
        return max(self._floor_ns, self._raw_ns(now_ns))

    def end(self) -> None:
        super().end()
        self._floor_ns = AFTER_ALL
