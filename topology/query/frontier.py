"""Up to where the stream has come, as a query hears it.

`closed_ns`: what ends at or before it is closed: W has passed its end, and by so much that
clock errors leave nothing to come (W - E; E comes with each watermark, and is at least the
error of what came since). Every event in order raises W too, so that a window does not wait
for the next announcement.

A quality target (`close_early`) may close earlier.

`sure_ns`: what ends at or before it closed since nothing is to come, and not since that was
improbable or took too long.

`final_ns`: what ends at or before it is final: the complete frontier C has passed it, and W has by
`newcomers`; or W has by `correct_for`. C speaks for the sources that are known: one that is heard
for the first time may bring events from before it, and for these there is room. The errors that
count here are those of all sources, of idle ones too, for these may come back. Where no watermarks
come, `closed_ns` has passed it by `correct_for`. None goes back, and final_ns <= closed_ns.

Whether a window is confirmed does not wait for newcomers: what is known says nothing against it.

Proved by: tests/topology/window/test_finality.py, tests/laws/test_newcomers.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.model.event import Event
from topology.model.operator import Plain
from topology.query.numbers import packed, unpacked

NOT_YET: Final = -(1 << 66)
FOR_EVER: Final = 1 << 66


class Frontier:
    """Moved by `hear` and `announce`, made to count by `settle` when the instant is over.
    `watermark_ns` is W and `error_ns` E, as they were heard last."""

    __slots__ = (
        "_announced_ns",
        "_complete_ns",
        "_correct_for_ns",
        "_error_all_ns",
        "_heeds_errors",
        "_newcomers_ns",
        "closed_ns",
        "error_ns",
        "final_ns",
        "sure_ns",
        "watermark_ns",
    )

    def __init__(self, correct_for_ns: int, newcomers_ns: int, *, heeds_errors: bool) -> None:
        self._correct_for_ns = correct_for_ns
        self._newcomers_ns = newcomers_ns
        self._heeds_errors = heeds_errors
        self.watermark_ns = NOT_YET
        self._announced_ns = NOT_YET
        self._complete_ns = NOT_YET
        self.error_ns = 0
        self._error_all_ns = 0
        self.closed_ns = NOT_YET
        self.sure_ns = NOT_YET
        self.final_ns = NOT_YET

    @property
    def passed_ns(self) -> int:
        """Nothing that possibly lies before it comes any more, by the watermarks."""
        return self.watermark_ns - self.error_ns

    def hear(self, event: Event) -> None:
        """An event in order."""
        if event.ref_time_ns > self.watermark_ns:
            self.watermark_ns = event.ref_time_ns
        if event.error_ns > self.error_ns and self._heeds_errors:
            self.error_ns = event.error_ns
            self._error_all_ns = max(self._error_all_ns, event.error_ns)

    def announce(self, event: Event) -> None:
        """A watermark record."""
        self.watermark_ns = max(self.watermark_ns, event.ref_time_ns)
        self._announced_ns = self.watermark_ns
        self._complete_ns = max(self._complete_ns, event.complete_ns)
        if self._heeds_errors:
            self.error_ns = event.error_ns
            self._error_all_ns = max(event.error_ns, event.error_all_ns)

    def rise(self, ref_time_ns: int) -> None:
        """As `hear`, of an event that is no less sure than what was heard."""
        if ref_time_ns > self.watermark_ns:
            self.watermark_ns = ref_time_ns

    def room_ns(self, closing_ns: int, final_ns: int) -> int:
        """As long as W is below, `settle` closes nothing that ends at `closing_ns` or later, and
        makes nothing final that ends at `final_ns` or later."""
        until_ns = final_ns + self._error_all_ns
        room_ns = min(closing_ns + self.error_ns, until_ns + self._correct_for_ns)
        if self._complete_ns >= until_ns:
            room_ns = min(room_ns, until_ns + self._newcomers_ns)
        return room_ns

    def settle(self) -> None:
        watermark_ns = self.watermark_ns
        passed_ns = watermark_ns - self.error_ns
        if passed_ns > self.sure_ns:
            self.sure_ns = passed_ns
        if passed_ns > self.closed_ns:
            self.closed_ns = passed_ns
        # As `decided_ns`, without the calls: it runs at each instant.
        decided_ns = watermark_ns - self._newcomers_ns
        if decided_ns > self._complete_ns:
            decided_ns = self._complete_ns
        if decided_ns < watermark_ns - self._correct_for_ns:
            decided_ns = watermark_ns - self._correct_for_ns
        final_ns = decided_ns - self._error_all_ns
        if final_ns > self.final_ns:
            self.final_ns = min(final_ns, self.closed_ns)

    @property
    def decided_ns(self) -> int:
        """No event with a smaller reference time is to come that counts, by the watermarks."""
        return self._decided_ns(self._newcomers_ns)

    @property
    def heard_ns(self) -> int:
        """The same, were no source to come that has not been heard."""
        return self._decided_ns(0)

    def _decided_ns(self, newcomers_ns: int) -> int:
        watermark_ns = self.watermark_ns
        heard_ns = min(self._complete_ns, watermark_ns - newcomers_ns)
        return max(heard_ns, watermark_ns - self._correct_for_ns)

    def close_early(self, closed_ns: int, sure_ns: int, *, is_alone: bool) -> None:
        """Windows that end so far may be emitted. `is_alone`: no watermarks come."""
        self.closed_ns = max(self.closed_ns, closed_ns)
        if is_alone:  # else MERGE alone knows what is sure: events may wait there yet
            self.sure_ns = max(self.sure_ns, sure_ns)
            self.final_ns = max(self.final_ns, self.closed_ns - self._correct_for_ns)

    def after(self, watermarks: Sequence[Event]) -> Frontier:
        """As it would stand if these were announced."""
        other = Frontier(self._correct_for_ns, self._newcomers_ns, heeds_errors=self._heeds_errors)
        other.restore(self.snapshot())
        for event in watermarks:
            other.announce(event)
        other.settle()
        return other

    def give_up(self, until_ns: int) -> None:
        """What ends until there is final, as there is no room to keep it."""
        self.final_ns = max(self.final_ns, min(until_ns, self.closed_ns))

    def crowd(self) -> None:
        """There is no more room for newcomers."""
        self.give_up(self.heard_ns - self._error_all_ns)

    def end(self) -> None:
        """Nothing comes any more; what is missing stays so."""
        self.watermark_ns = self.closed_ns = self.sure_ns = self.final_ns = FOR_EVER

    def is_incomplete(self, end_ns: int) -> bool:
        """By the last announcement something is missing that may lie before there: a lost number,
        or a source that is not waited for; or it was not waited for certainty."""
        if self.sure_ns < self.closed_ns and self.sure_ns < end_ns:
            return True
        complete_ns = self._complete_ns - self.error_ns
        return self._complete_ns < self._announced_ns and complete_ns < end_ns

    def snapshot(self) -> Plain:
        times = (
            self.watermark_ns,
            self._announced_ns,
            self._complete_ns,
            self.error_ns,
            self._error_all_ns,
            self.closed_ns,
            self.sure_ns,
            self.final_ns,
        )
        return [packed(time_ns) for time_ns in times]

    def restore(self, state: Plain) -> None:
        (
            self.watermark_ns,
            self._announced_ns,
            self._complete_ns,
            self.error_ns,
            self._error_all_ns,
            self.closed_ns,
            self.sure_ns,
            self.final_ns,
        ) = (unpacked(time_ns) for time_ns in state)
