"""Decides when a quality target allows a window to be emitted: `quality: {accuracy, max_wait}`.

The target is the share of windows with events that must be right when they are first emitted. A
window is right if no event that may belong to it arrives later. Late events correct a window that
is wrong. The waiting strategy decides how long to wait, from the past delays of each source.

* A window is closed when the strategy allows it, by the arrival clock: at the latest at its end
  plus `max_wait`, never before its end. If the events are ordered, W closes it too, because events
  that MERGE has awaited are not awaited again.
* The share counts time windows, however many keys they have: one missing event makes a window
  wrong. Sessions, count windows, joins and patterns do not know their ends beforehand. For these,
  time is divided into pieces, and a piece counts as a window. A piece is 1/16 of `max_wait`. If
  events have an effect for longer than 16 times `max_wait`, a piece is 1/256 of that time, up to
  1/4 of `max_wait`. An event counts for every piece that it may affect.
* An event with the time error e counts as earlier by e, because it may belong to windows that are
  so much earlier.
* A result that is emitted before MERGE has passed its end is `uncertain`.

The target does not cover windows that are closed by `max_wait`, or without waiting for a source
that is silent for `idle_ns` (`topology.answer.waiting.budget`). So an outage does not delay other
sources. `achieved_ppm` does cover these windows, and `missed_outside_target` counts the wrong
ones. If `idle_ns` is at most `max_wait`, a silent source is awaited until `max_wait`, so windows
get every event that arrives by then.

Cost: about 5 us an event; O(sources) for each piece that counts, and for each instant between the
end of a window and its emission. Memory and state: two tables per source, about 1 kB. Window
queries write a source's tables as separate parts of the state, only after it has sent. Other
queries write all tables at each checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Final
from zlib import crc32

from topology.answer.settings import QualityConfig
from topology.answer.waiting.budget import PPM
from topology.answer.waiting.driver import DRIVER, Closing, Decision, WindowDriver
from topology.base.event import BYE, Event
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER, Changes, Figure, Figures, Plain, State, total
from topology.state.saved import INT, PLAIN, SavedPart, Shape, ValueKind, tuple_of
from topology.state.tables import read_rows, refuse_others

PIECES: Final = 16
FEWEST_PIECES: Final = 4
"""The minimum number of pieces in `max_wait`, however long events have an effect."""

PIECES_OF_REACH: Final = 256
MAX_PENDING: Final = 10_000
"""The maximum number of windows that were emitted early and may still be wrong.

Beyond this number, the oldest counts as missed.
"""


TARGET: Final = Shape("answer.target", 1, _observed_events=INT, _late_events=INT, _driver=DRIVER)
SAVED: Final = tuple_of(INT, INT, PLAIN)
"""A saved target: a checksum of its settings, `closed_ns`, and the other fields."""


def target_figures(first: str) -> dict[str, Figure]:
    """Return the figures of a quality target; `first` is the name of the query's first output."""
    return {
        "target_ppm": Figure(
            f"Share of instants that should be complete at their {first}, strictest query"
        ),
        "achieved_ppm": Figure(
            f"Share of instants that were complete at their {first}, worst query"
        ),
        "wait_mean_ns": Figure(f"Mean time between an instant and its {first}, slowest query"),
        "wait_max_ns": Figure(f"Longest time between an instant and its {first}"),
        "late_ppm": Figure(f"Share of events that arrived after the {first} of their instant"),
        "missed": total(f"Instants under a quality target whose {first} missed an event"),
        "missed_outside_target": total(
            f"Instants outside every quality target whose {first} missed an event"
        ),
    }


@cache
def target_shape(target: Shape, policy: Shape) -> Shape:
    """Return the shape of a target whose waiting strategy has the shape `policy`."""
    return target.with_more(target.title, 1, policy=policy)


@mypyc_attr(allow_interpreted_subclasses=True)
class QualityTarget(SavedPart):
    """The quality target of a query.

    It counts windows of `size_ns` every `every_ns`, or pieces of time if `every_ns` is 0. An event
    affects all pieces up to `reach_ns` after it. `zone_ns` is the smallest time error to assume for
    an event. Results that end at or before `closed_ns` may be emitted.
    """

    SHAPE: ClassVar[Shape] = TARGET

    def __init__(
        self,
        quality: QualityConfig,
        *,
        size_ns: int = 0,
        every_ns: int = 0,
        reach_ns: int = 0,
        heeds_errors: bool = True,
        zone_ns: int = 0,
    ) -> None:
        self._quality = quality
        self._heeds_errors = heeds_errors
        self._zone_ns = zone_ns
        self._reach_ns = reach_ns
        cap_ns = quality.max_wait_ns + 1
        if not every_ns:
            every_ns = size_ns = piece_ns(quality.max_wait_ns, reach_ns)
            cap_ns = max(1, cap_ns - every_ns)
        self.policy = quality.policy(size_ns)
        self._shape = target_shape(self.SHAPE, self.policy.SHAPE)
        how = (repr(quality), size_ns, every_ns, reach_ns, self._shape.digest)
        self._waits = crc32(repr(how).encode())
        """A checksum of the settings and the shape.

        A stored state with another checksum may have windows of another length, or the tables of
        another strategy. So only its `closed_ns` is loaded.
        """
        self._driver = WindowDriver(
            self.policy,
            every_ns,
            size_ns,
            closed="left",
            offset_ns=size_ns % every_ns,
            cap_ns=cap_ns,
            only_filled=True,
            max_pending=MAX_PENDING,
            patient=quality.idle_ns <= quality.max_wait_ns,
        )
        self._observed = Event("", "", 0, 0, 0, 0)
        """The event that is passed to the strategy; it is reused, because no strategy keeps it."""
        self._ignored: list[Decision] = []
        self._observed_events = 0
        self._late_events = 0
        self.closed_ns = -NEVER

    def observe(self, event: Event, *, speaks: bool = True, margin_ns: int = 0) -> None:
        """Take an event of the query, in the order of arrival.

        If `speaks` is false, the event does not show how far its source has advanced. The effect of
        the event lasts `margin_ns` longer than `reach_ns`.
        """
        self._set_observed(event)
        self._observed_events += 1
        latest_ns = 2 * event.ref_time_ns - self._observed.ref_time_ns
        reach_ns = self._reach_ns + margin_ns
        self._driver.take(self._observed, latest_ns, self._ignored, reach_ns, speaks=speaks)
        if self._ignored:
            self._late_events += 1
            self._ignored.clear()

    def observe_other(self, other: Event) -> None:
        """Take a sign of progress: a heartbeat, an end-of-stream marker, or an ignored event."""
        self._set_observed(other)
        self.policy.observe(self._observed, other.at_ns)
        if other.kind == BYE:
            self.policy.note_end(self._observed.source, other.at_ns)
        self._driver.open_instant(other.at_ns)

    def _set_observed(self, event: Event) -> None:
        error_ns = max(event.error_ns, self._zone_ns) if self._heeds_errors else 0
        observed = self._observed
        observed.source, observed.at_ns = event.source, event.at_ns
        observed.ref_time_ns = event.ref_time_ns - error_ns

    def settle(self, now_ns: int, passed_ns: int) -> None:
        """End the instant; MERGE has emitted everything before `passed_ns`."""
        self._driver.announce(min(NEVER, passed_ns - 1), now_ns)
        for decision in self._driver.on_time(now_ns):
            if isinstance(decision, Closing):
                self.closed_ns = decision.bound_ns + 1

    @property
    def is_waiting(self) -> bool:
        """Whether windows with events are still open."""
        return self._driver.is_waiting

    def due_ns(self) -> int:
        """Return the next instant at which `settle` must be called even if nothing arrives."""
        due_ns = self._driver.next_deadline_ns()
        return NEVER if due_ns is None else due_ns

    def end(self, now_ns: int) -> None:
        self._driver.on_end(now_ns)

    # -- Figures -----------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """Return the figures of the windows with events.

        Shares are in ppm: `late_ppm` of events, the others of windows.
        """
        filled = self._driver.filled
        assert filled is not None
        windows = sum(filled.closed.values())
        missed = self._driver.missed
        right_ppm = PPM - missed * PPM // max(1, windows, missed)
        return {
            "target_ppm": self._quality.accuracy_ppm,
            "achieved_ppm": right_ppm,
            "wait_mean_ns": max(0, filled.waited_ns) // max(1, windows),
            "wait_max_ns": filled.longest_ns,
            "late_ppm": self._late_events * PPM // max(1, self._observed_events),
            "missed": missed,
            "missed_outside_target": self._driver.missed_apart,
        }

    def explain(self) -> dict[str, Any]:
        filled = self._driver.filled
        assert filled is not None
        return {"closed_by": dict(filled.closed), "policy": self.policy.figures()}

    # -- State -------------------------------------------------------------------------------------

    def dump(self) -> Plain:
        return SAVED.dump((self._waits, self.closed_ns, self._shape.dump(self)))

    def load(self, plain: Plain) -> bool:
        """Read a dumped state, and return whether it fits these settings.

        If it does not, only its `closed_ns` is used.
        """
        waits, self.closed_ns, row = SAVED.load(plain, self, "target")
        if waits == self._waits:
            self._shape.put(self, row)
        return bool(waits == self._waits)

    # The tables of the strategy may be written as separate parts of the state.

    def save_tables_apart(self) -> None:
        for table in self.policy.tables():
            table.is_apart = True

    def parts(self, *, only_changed: bool) -> Changes:
        """Return all parts of the state, or those that changed since the last such call.

        A part that was removed is None.
        """
        parts: Changes = {}
        for table in self.policy.tables():
            parts |= table.changes() if only_changed else table.snapshot()
        return parts

    def load_parts(self, parts: Mapping[str, Plain]) -> None:
        others: State = {}
        for _ in read_rows([*self.policy.tables()], parts, others):
            pass
        refuse_others(others)


class PerhapsTarget(ValueKind):
    """The stored form of a quality target or None; it is read only if the query has a target."""

    def dump(self, value: QualityTarget | None) -> Plain:
        return None if value is None else value.dump()

    def read_into(self, one: Any, name: str, plain: Plain) -> None:
        target = getattr(one, name)
        if target is not None and plain is not None:
            target.load(plain)


PERHAPS_TARGET: Final = PerhapsTarget("target", is_plain=False)


def piece_ns(max_wait_ns: int, reach_ns: int) -> int:
    """Return the length of the pieces of time, for queries whose windows have no known ends."""
    longest_ns = max_wait_ns // FEWEST_PIECES
    return max(1, min(longest_ns, max(max_wait_ns // PIECES, reach_ns // PIECES_OF_REACH)))
