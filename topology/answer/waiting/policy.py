"""Defines the contract of all waiting strategies.

A strategy watches arrivals. It returns the time up to which it waits for no further event, its
*frontier*, inclusive. It has no windows and no buffers. Two drivers turn the frontier into actions
(`topology.answer.waiting.driver`, `topology.order.reorder.time_buffer`), so any strategy works
with either. A strategy has no I/O and no clock: `now_ns` is an argument and never goes back.

* `observe(event, now_ns)` takes an accepted event (neither duplicate nor malformed), late ones too,
  in the order of arrival. Only its time, source and type are used, never its payload.
* `passes(bound_ns, now_ns)` is true if the strategy no longer waits for events at or below
  `bound_ns`. All arrivals up to `now_ns` count, so drivers ask when the instant is over.
* The *frontier* is the largest bound that passes now or has passed at an earlier call by a driver.
* `deadline_ns(bound_ns, now_ns)` is for a bound that does not pass now. It is the earliest later
  instant at which the bound may pass without an arrival, or None if only an arrival helps.
* `confirmed_ns(now_ns)` is the frontier of certainty: every live source has sent something after
  it. A source is live if it has been silent for less than `idle_ns`, and its last event was not an
  end-of-stream marker. A strategy without certainty returns its frontier.
* `note_closed`, `note_resolved`, `note_void` and `late` tell the strategy what became of windows
  and events. `note_end` tells it about a source's end-of-stream marker.

Asking does not change the strategy. So two drivers that ask at different instants decide alike, if
each asks at the deadlines. tests/topology/answer/waiting/test_laws.py has the laws for all
strategies.

The driver decides whether an event is late, not the strategy. The *lateness* of an arrival is the
largest time that arrived before it, minus its own time. Its *delay* is arrival - time, which is
negative if clocks are offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER, Figures
from topology.state.saved import BIG, FLAG, Saved, Shape
from topology.state.tables import Table

BEFORE_ALL: Final = -NEVER
"""The frontier before the first event."""

AFTER_ALL: Final = NEVER
"""The frontier after the end."""

# The reasons why a window closed.
CONFIRMED: Final = "confirmed"
PROBABLE: Final = "probable"
CAP: Final = "cap"
IDLE: Final = "idle"
END: Final = "end"

PROMISED: Final = frozenset({CONFIRMED, PROBABLE})
"""The reasons that count for a quality target; windows closed for other reasons do not."""


SLACK: Final = Shape("waiting.slack", 1, _ended=FLAG)
FLOORED: Final = SLACK.with_more("waiting.floored", 1, _floor_ns=BIG, _now_ns=BIG)


@mypyc_attr(allow_interpreted_subclasses=True)
class SlackPolicy(Saved):
    """A waiting strategy. Only some subclasses adapt to the outcomes of their decisions."""

    SHAPE = SLACK
    __slots__ = SLACK.fields

    certain: ClassVar[bool] = False
    """Whether `confirmed_ns` is certain: every live source has sent something after it."""

    def __init__(self) -> None:
        self._ended = False

    def observe(self, event: Event, now_ns: int) -> None:
        raise NotImplementedError

    def passes(self, bound_ns: int, now_ns: int) -> bool:
        """Return whether the strategy waits for no event at or below the bound.

        If a strategy judges each bound separately, a bound may pass now and not pass later. The
        drivers act on the first instant at which it passes.
        """
        raise NotImplementedError

    def deadline_ns(self, bound_ns: int, now_ns: int) -> int | None:
        return None

    def newest_ns(self) -> int:
        """Return the largest accepted time."""
        raise NotImplementedError

    def confirmed_ns(self, now_ns: int) -> int:
        """Return the frontier of certainty, or the frontier if the strategy has no certainty."""
        raise NotImplementedError

    def ignores_idle(self, bound_ns: int, now_ns: int) -> bool:
        """Return whether a source that has sent nothing after `bound_ns` is left out as idle."""
        return False

    def note_closed(self, bound_ns: int, now_ns: int, by: str, windows: int = 1) -> None:
        """Handle the closing of `windows` windows, the last of which ends at `bound_ns`."""

    def note_resolved(self, missed: bool, by: str, windows: int = 1) -> None:
        """Handle the outcome of closed windows, once it is certain whether they missed an event."""

    def note_void(self, by: str) -> None:
        """Handle a closed window that does not count, because no event was in it."""

    def late(self, ts_ns: int, lateness_ns: int) -> None:
        """Handle an event that arrived after the frontier had passed its time."""

    def note_end(self, source: str, now_ns: int) -> None:
        """Handle a source's end-of-stream marker: do not wait for it until it sends again."""

    def end(self) -> None:
        """Handle the end of the input."""
        self._ended = True

    def figures(self) -> Figures:
        """Return figures for people and monitoring, which are not part of the state."""
        return {}

    def tables(self) -> Sequence[Table[Any, Any]]:
        """Return the tables of the state that may be saved separately.

        These tables are large, and an event changes little of them. Each table has its own prefix;
        one of the prefixes may be empty.
        """
        return ()


@mypyc_attr(allow_interpreted_subclasses=True)
class FlooredSlack(SlackPolicy):
    """A strategy whose frontier never falls below its value before the current instant.

    `_find_frontier_ns` returns the frontier without this floor, and only an arrival may lower that
    value.
    """

    SHAPE = FLOORED
    __slots__ = ("_floor_ns", "_now_ns")

    def __init__(self) -> None:
        super().__init__()
        self._floor_ns = BEFORE_ALL
        self._now_ns = BEFORE_ALL

    def _observe_event(self, event: Event, now_ns: int) -> None:
        raise NotImplementedError

    def _find_frontier_ns(self, now_ns: int) -> int:
        raise NotImplementedError

    def observe(self, event: Event, now_ns: int) -> None:
        if now_ns > self._now_ns:
            if self._now_ns != BEFORE_ALL:
                self._floor_ns = max(self._floor_ns, self._find_frontier_ns(now_ns - 1))
            self._now_ns = now_ns
        self._observe_event(event, now_ns)

    def passes(self, bound_ns: int, now_ns: int) -> bool:
        return bound_ns <= self._floor_ns or bound_ns <= self._find_frontier_ns(now_ns)

    def confirmed_ns(self, now_ns: int) -> int:
        return max(self._floor_ns, self._find_frontier_ns(now_ns))

    def end(self) -> None:
        super().end()
        self._floor_ns = AFTER_ALL
