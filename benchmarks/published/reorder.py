"""REORDER as published: chooses the wait for a gap by `thesis` or by `rfc`.

* `thesis`: equations (3.1)-(3.11) as printed. The deviation is from the updated average, with
  factor 2. S. Rajendran, thesis, 3.2.1.
* `rfc`: the same with the deviation from the old average and factor 4 (RFC 6298).

Both measure how often a source sends and how long its early events were buffered. So they process
every event, and none takes the fast path. Until a source is warm
(`topology.order.reorder.timeout`), its wait is `max_wait`. Cost: O(1) for an event.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.published.smoothed import SMOOTHED, Smoothed
from topology.base.event import Event
from topology.base.outcome import Step
from topology.order.reorder.operator import Reorder
from topology.order.reorder.sequence import Sequence
from topology.order.reorder.settings import ReorderConfig
from topology.order.reorder.shared import Shared
from topology.order.reorder.source import NumberedBuffer, source_shape
from topology.order.reorder.timeout import WARM_FILLED, WARM_OPENED, Timeout
from topology.state.saved import INT, Shape, tuple_of

THESIS: Final = Shape(
    "published.thesis",
    1,
    _filled=INT,
    _opened=INT,
    _direct=tuple_of(INT, INT, INT),
    _inter=SMOOTHED,
    _buffered=SMOOTHED,
)
PACED_SOURCE: Final = source_shape("published.reorder_source", THESIS)


class Thesis(Timeout):
    """The wait of the thesis: (3.11) = min(cap, max(t_inter, t_buffer))."""

    SHAPE = THESIS
    __slots__ = (*THESIS.fields, "_deviations")

    def __init__(self, max_wait_ns: int, rfc: bool = False) -> None:
        super().__init__(max_wait_ns)
        self._deviations = 4 if rfc else 2
        self._inter = Smoothed(against_new=not rfc)
        self._buffered = Smoothed(against_new=not rfc)
        self._filled = 0
        self._opened = 0
        # The epoch, sequence number and time of the last event that was not buffered.
        self._direct = (0, -2, 0)

    def note_opened(self) -> None:
        self._opened += 1

    def note_filled(self, fill_ns: int) -> None:
        self._filled += 1

    def in_order(self, epoch: int, seq: int, at_ns: int) -> None:
        """Record that the event with this sequence number was emitted without buffering.

        Only two events with consecutive numbers show the source's pace.
        """
        if (epoch, seq - 1) == self._direct[:2]:
            self._inter.add(at_ns - self._direct[2])
        self._direct = (epoch, seq, at_ns)

    def left_hold(self, held_ns: int) -> None:
        """Record that an early event was emitted after `held_ns` in the buffer."""
        self._buffered.add(held_ns)

    def wait_ns(self) -> int:
        if self._filled < WARM_FILLED and self._opened < WARM_OPENED:
            return self.max_wait_ns
        times = self._inter, self._buffered
        wait_ns = max([t.average_ns + self._deviations * t.deviation_ns for t in times])
        return min(self.max_wait_ns, wait_ns)

    def measure(self) -> Thesis:
        return self


class PacedBuffer(NumberedBuffer):
    """A source whose pace is measured.

    An event that begins a sequence or an epoch also counts as not buffered, if it is emitted when
    it arrives.
    """

    SHAPE = PACED_SOURCE
    __slots__ = ("_arriving", "_by_event_clock", "_is_rfc")

    def __init__(self, source: str, shared: Shared, is_rfc: bool, by_event_clock: bool) -> None:
        super().__init__(source, shared)
        self._is_rfc = is_rfc
        self._by_event_clock = by_event_clock
        self._arriving: Event | None = None

    def arrive(self, event: Event, step: Step) -> None:
        self._arriving = event
        super().arrive(event, step)
        self._arriving = None

    def make_timeout(self) -> Timeout:
        return Thesis(self.shared.max_wait_ns, self._is_rfc)

    def _pace(self) -> Thesis:
        thesis = self.ensure_timeout()
        assert isinstance(thesis, Thesis)
        return thesis

    def _leaves_unheld(self, event: Event, now_ns: int) -> None:
        at_ns = event.ts_ns if self._by_event_clock else now_ns
        self._pace().in_order(event.epoch, event.seq, at_ns)

    def _release(self, sequence: Sequence, event: Event, now_ns: int, step: Step) -> None:
        self._leaves_unheld(event, now_ns)
        super()._release(sequence, event, now_ns, step)

    def _drain(self, sequence: Sequence, now_ns: int, step: Step) -> None:
        events = sequence.front
        held_ns = [now_ns - event.at_ns for event in events]
        super()._drain(sequence, now_ns, step)
        for event, each_ns in zip(events, held_ns, strict=True):
            if event is self._arriving:
                self._leaves_unheld(event, now_ns)
            else:
                self._pace().left_hold(each_ns)


class PacedReorder(Reorder):
    """A REORDER with sources whose pace is measured.

    With `by_event_clock` the pace is measured by the timestamps of events, not by their arrivals.
    """

    takes_plain: bool = False

    def __init__(
        self,
        stream: str,
        config: ReorderConfig,
        *,
        is_rfc: bool = False,
        by_event_clock: bool = False,
    ) -> None:
        make = partial(PacedBuffer, is_rfc=is_rfc, by_event_clock=by_event_clock)
        config = config.model_copy(update={"rule": "fixed"})  # The rule `miss` would add figures.
        super().__init__(stream, config, make, PACED_SOURCE)
