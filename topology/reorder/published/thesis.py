"""REORDER's rules `thesis` and `rfc`: how long a hole is waited for, as published.

* `thesis`: equations (3.1)-(3.11) as printed: deviation against the updated average, factor 2.
  S. Rajendran, thesis, 3.2.1.
* `rfc`: the same with the deviation against the old average and factor 4 (RFC 6298).

Both go by how often a source speaks and by how long its early events were held, so they look at
every event: a source under them takes no short way. Cold, as in `topology.reorder.timeout`, the
wait is `max_wait`. Cost: O(1) an event.

Proved by: tests/topology/model/test_histogram.py, tests/oracle/test_oracle_waits.py
"""

from __future__ import annotations

from typing import Any, ClassVar

from topology.model.event import BLOCKED, UNBLOCKED, Event
from topology.model.outcome import Step
from topology.reorder.published.smoothed import Smoothed
from topology.reorder.sequence import Sequence
from topology.reorder.settings import Shared
from topology.reorder.source import NumberedBuffer
from topology.reorder.timeout import WARM_FILLED, WARM_OPENED, Timeout


class Thesis(Timeout):
    """(3.11) = min(cap, max(t_inter, t_buffer))."""

    __slots__ = ("_buffered", "_deviations", "_filled", "_inter", "_opened")

    def __init__(self, max_wait_ns: int, alpha_ppm: int, beta_ppm: int, rfc: bool = False) -> None:
        super().__init__(max_wait_ns)
        self._deviations = 4 if rfc else 2
        self._inter = Smoothed(alpha_ppm, against_new=not rfc)
        self._buffered = Smoothed(beta_ppm, against_new=not rfc)
        self._filled = 0
        self._opened = 0

    def opened(self) -> None:
        self._opened += 1

    def filled(self, fill_ns: int) -> None:
        self._filled += 1

    def in_order(self, interval_ns: int) -> None:
        """Two consecutive numbers came unheld, `interval_ns` apart."""
        self._inter.add(interval_ns)

    def left_hold(self, held_ns: int) -> None:
        """An early event left after `held_ns`."""
        self._buffered.add(held_ns)

    def wait_ns(self) -> int:
        if self._filled < WARM_FILLED and self._opened < WARM_OPENED:
            return self.max_wait_ns
        inter, buffered = self._inter, self._buffered
        inter_ns = inter.average_ns + self._deviations * inter.deviation_ns
        buffer_ns = buffered.average_ns + self._deviations * buffered.deviation_ns
        return min(self.max_wait_ns, max(inter_ns, buffer_ns))

    def snapshot(self) -> Any:
        return [self._filled, self._opened, self._inter.snapshot(), self._buffered.snapshot()]

    def restore(self, state: Any) -> None:
        self._filled, self._opened, inter, buffered = state
        self._inter.restore(inter)
        self._buffered.restore(buffered)


class PacedBuffer(NumberedBuffer):
    """A source whose pace is measured."""

    __slots__ = ("_direct_ns", "_direct_seq", "_thesis")

    sees_all: ClassVar[bool] = True

    def __init__(self, source: str, shared: Shared) -> None:
        super().__init__(source, shared)
        self._thesis: Thesis | None = None
        self._direct_seq = -2
        self._direct_ns = 0

    def new_timeout(self) -> Timeout:
        settings = self.shared.settings
        is_rfc = settings.rule == "rfc"
        self._thesis = Thesis(settings.max_wait_ns, settings.alpha_ppm, settings.beta_ppm, is_rfc)
        return self._thesis

    def _paced(self) -> Thesis:
        self.estimator()
        assert self._thesis is not None
        return self._thesis

    def _release(self, sequence: Sequence, event: Event, now_ns: int, step: Step) -> None:
        """Only consecutive numbers that both came unheld tell the source's pace."""
        clock_ns = event.ts_ns if self.shared.settings.event_clock else now_ns
        if event.seq == self._direct_seq + 1:
            self._paced().in_order(clock_ns - self._direct_ns)
        self._direct_seq = event.seq
        self._direct_ns = clock_ns
        super()._release(sequence, event, now_ns, step)

    def _drain(self, sequence: Sequence, now_ns: int, step: Step) -> None:
        before = len(step.released)
        super()._drain(sequence, now_ns, step)
        for event in step.released[before:]:
            if event.kind not in (BLOCKED, UNBLOCKED):
                self._paced().left_hold(now_ns - event.arrival_ns)

    def pace_state(self) -> tuple[int, int]:
        return self._direct_seq, self._direct_ns

    def restore_pace(self, seq: int, at_ns: int) -> None:
        self._direct_seq, self._direct_ns = seq, at_ns
