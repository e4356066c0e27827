"""`quality: {accuracy, max_wait}`: a window is emitted as soon as the target allows it.

`accuracy` of the windows that hold an event are right when they are first emitted: none of the
events that belong to them, or possibly do, comes later. How long that takes is what the waiting
strategy decides, from what it has seen of each source; `max_wait` after
the end of a window it is emitted whatever is missing. What comes later corrects it, as always.

* A window is closed when the policy lets it pass, at the latest at its end and `max_wait`, by
  the arrival clock, and never before its end by that clock. Where events come
  ordered, also when W has passed it: what the merge waits for is never waited for again.
* Counted are windows in time, whatever the number of keys: one event that is missing makes the
  window wrong. Sessions, count windows, joins and patterns have no ends that are known
  beforehand; for these time is cut into pieces, and a piece counts as a window: of a sixteenth of
  `max_wait`, or, where an event matters for much longer, of a 256th of that, up to a quarter of
  `max_wait`. So what waits for minutes is not looked at many times a second. An event makes all
  pieces count that it may matter to: up to the gap of a session.
* An event of error e is taken for one that comes e before its time: so early it may matter.
* What is emitted before MERGE has passed its end is `uncertain`.

Windows closed by `max_wait`, or without a source that is silent for `idle_ns`, are outside the
promise (topology.waiting.budget), so that an outage makes nobody else wait, and yet part of
`achieved_ppm`, which is all windows; `missed_apart` are the wrong ones among them. Where `idle_ns`
is not above `max_wait` a source that is silent is waited for until `max_wait` all the same: so
windows have all that comes within it.

Cost: about 5 us an event, and O(sources) a piece that counts; O(sources) in the instants after a
window's end until it is emitted.
Memory and state: two tables a source, about 1 kB; of a window they are parts of the state, written
when the source has sent, of other queries with each checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Final
from zlib import crc32

from topology.answer.settings import QualityConfig
from topology.model.event import BYE, Event
from topology.model.kept import INT, KeptPart, Shape, ValueKind, Written, row_of
from topology.model.operator import NEVER, Changes, Figures, Plain, State
from topology.model.tables import read_rows, refuse_others
from topology.waiting.budget import PPM
from topology.waiting.driver import DRIVER, Closing, Decision, WindowDriver

PIECES: Final = 16
FEWEST_PIECES: Final = 4
"""In `max_wait`, however far events reach."""

PIECES_OF_REACH: Final = 256
MAX_PENDING: Final = 10_000
"""Windows emitted on probability whose fate is not known yet; the oldest counts as missed."""


TARGET: Final = Shape("answer.target", 1, _heard_events=INT, _late_events=INT, _driver=DRIVER)


@cache
def target_shape(target: Shape, policy: Shape) -> Shape:
    """Return the shape of a target that waits by a strategy of that shape."""
    return target.with_more(target.title, 1, policy=policy)


class QualityTarget(KeptPart):
    """The quality target of a query.

    It is one of windows of `size_ns` every `every_ns`; else of pieces, of which an event concerns
    all up to `reach_ns` after it. `zone_ns`: the least error to reckon with. `closed_ns`: what ends
    at or before it may be emitted.
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
        settings = quality.model_copy(update={"published": None})
        how = (repr(settings), size_ns, every_ns, reach_ns, self._shape.digest)
        self._waits = crc32(repr(how).encode())
        """A number for how it waits, and how that is written: a state counts windows by their
        length, and holds what the strategy keeps."""
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
        self._heard = Event("", "", 0, 0, 0, 0)
        """What the policy looks at. One is enough, for none is kept."""
        self._ignored: list[Decision] = []
        self._heard_events = 0
        self._late_events = 0
        self.closed_ns = -NEVER

    def hear(self, event: Event, *, speaks: bool = True, margin_ns: int = 0) -> None:
        """An event of the query, in the order of arrival. One that has gone around others of its
        source does not speak of how far that is. It may matter `margin_ns` longer than others."""
        self._look_at(event)
        self._heard_events += 1
        latest_ns = 2 * event.ref_time_ns - self._heard.ref_time_ns
        reach_ns = self._reach_ns + margin_ns
        self._driver.take(self._heard, latest_ns, self._ignored, reach_ns, speaks=speaks)
        if self._ignored:
            self._late_events += 1
            self._ignored.clear()

    def hear_of(self, other: Event) -> None:
        """How far the source is: a heartbeat, a bye, or an event that the query leaves out."""
        self._look_at(other)
        self.policy.observe(self._heard, other.at_ns)
        if other.kind == BYE:
            self.policy.leave(self._heard.source, other.at_ns)
        self._driver.heed(other.at_ns)

    def _look_at(self, event: Event) -> None:
        error_ns = max(event.error_ns, self._zone_ns) if self._heeds_errors else 0
        heard = self._heard
        heard.source, heard.at_ns = event.source, event.at_ns
        heard.ref_time_ns = event.ref_time_ns - error_ns

    def settle(self, now_ns: int, passed_ns: int) -> None:
        """The instant is over. `passed_ns`: MERGE has let go all that comes before it."""
        self._driver.announce(min(NEVER, passed_ns - 1), now_ns)
        for decision in self._driver.on_time(now_ns):
            if isinstance(decision, Closing):
                self.closed_ns = decision.bound_ns + 1

    @property
    def is_waiting(self) -> bool:
        """Windows with events are not closed yet."""
        return self._driver.is_waiting

    def due_ns(self) -> int:
        """When to settle though nothing arrives."""
        due_ns = self._driver.next_deadline_ns()
        return NEVER if due_ns is None else due_ns

    def end(self, now_ns: int) -> None:
        self._driver.on_end(now_ns)

    # -- for people --------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """Figures of windows with events. Shares in ppm, of windows but `late_ppm`, of events."""
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
            "late_ppm": self._late_events * PPM // max(1, self._heard_events),
            "missed": missed,
            "missed_outside_target": self._driver.missed_apart,
        }

    def explain(self) -> dict[str, Any]:
        filled = self._driver.filled
        assert filled is not None
        return {"closed_by": dict(filled.closed), "policy": self.policy.figures()}

    # -- state -------------------------------------------------------------------------------------

    def dump(self) -> Plain:
        return [self._waits, self.closed_ns, self._shape.dump(self)]

    def load(self, plain: Plain) -> bool:
        """Read what was dumped. Return whether that waited in the same way, and was written so:
        else only what it had closed counts."""
        waits, closed_ns, row = row_of(plain, PERHAPS_TARGET, 3)
        self.closed_ns = INT.load(closed_ns, None, self, "closed_ns")
        if waits == self._waits:
            self._shape.put(self, row)
        return bool(waits == self._waits)

    # The policy's tables may be written by themselves.

    def keep_apart(self) -> None:
        for table in self.policy.tables():
            table.is_apart = True

    def parts(self) -> State:
        return {
            name: row for table in self.policy.tables() for name, row in table.snapshot().items()
        }

    def changed_parts(self) -> Changes:
        """Return those that have changed since the last call; None: removed."""
        return {
            name: row for table in self.policy.tables() for name, row in table.changes().items()
        }

    def load_parts(self, parts: Mapping[str, Plain]) -> None:
        others: State = {}
        for _ in read_rows([*self.policy.tables()], parts, None, others):
            pass
        refuse_others(others)


class PerhapsTarget(ValueKind):
    """The kind of a quality target, or of none. It reads nothing where one of the two was none."""

    def dump(self, value: QualityTarget | None) -> Plain:
        return None if value is None else value.dump()

    def read_into(self, one: Any, name: str, plain: Plain, written: Written | None) -> None:
        target = getattr(one, name)
        if target is not None and plain is not None:
            target.load(plain)


PERHAPS_TARGET: Final = PerhapsTarget("target", is_plain=False)


def piece_ns(max_wait_ns: int, reach_ns: int) -> int:
    """How long the pieces are into which time is cut where windows have no ends."""
    longest_ns = max_wait_ns // FEWEST_PIECES
    return max(1, min(longest_ns, max(max_wait_ns // PIECES, reach_ns // PIECES_OF_REACH)))
