"""The clock of a log, from the append times of its records: a broker's clock that is wrong for a
while is wrong for no longer.

Append times rise, and the clock goes with them. Where they do not, or rise by too much, the stamps
that the sources gave their records decide (their own clocks, which no broker moves):

* A step *ahead* is doubted if the log was busy, and the stamps have not gone along: it is larger
  than `LEAST_NS`, and than the time in which the last `BLOCK` to two `BLOCK`s of records came; and
  no stamp is further ahead of the clock than half of those were, by half of the step, but one that
  is as far ahead as one of those was, give or take as much: that is a source's own clock, which may
  stand, or be hours ahead. Time goes on by differences of append time then. So it does for a broker
  that is an hour ahead for a minute; a silence of an hour is none, since the stamp that ends it is
  an hour later; nor is the mending of a clock that was behind, since all stamps were ahead of that.
* A doubt ends when the append times step back again; when a stamp goes along after all (what came
  first had been kept, as after an outage); or when the step has lasted as long as it is large.
* Where append times are *behind* by more than `BACK_NS` time goes on at half their speed, until
  they have caught up. Below that the doubt remains, as they do not rise evenly anyway.

So the clock never goes back, and is ahead of the truth by no more than a broker was, and for twice
as long at most. It follows from the records alone, in their order, however they are cut.

Cost: O(1) a record; where append times rise plainly (`goes_on`) O(`BLOCK`) for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import sub
from typing import Final

LEAST_NS: Final = 30_000_000_000
"""A smaller step ahead is believed: it does little harm, and takes as long to be mended."""
BACK_NS: Final = 1_000_000_000
"""So much may a new leader's clock be behind the last one's."""
BLOCK: Final = 64
"""Records that are looked at together."""
GRAIN_NS: Final = 1_000_000_000
"""How far stamps were ahead of the clock is kept in multiples of this."""
MOST_RECENT: Final = 4_096
"""Records of which nothing has been asked yet."""


class AppendClock:
    """`now_ns` never goes back, None before the first record. `doubted_ns`: how much of the append
    time is not believed; `behind_ns`: how far it is behind."""

    __slots__ = (
        "_append_ns", "_blocks", "_count", "_leads", "_recent", "_since_ns", "doubted_ns", "now_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.now_ns: int | None = None
        self.doubted_ns = 0
        self._append_ns = 0
        self._since_ns = 0  # when the doubt began, by the doubted clock
        self._count = 0
        # The last full block, and the one that fills: when it began, and how far its stamps were
        # ahead, in grains. They stand while the clock is doubted.
        self._blocks = [[0], [0]]
        self._leads: list[int] = []  # of both, in order; empty: not known
        self._recent: list[tuple[int, int]] = []  # arrival and stamp of what is in no block yet

    @property
    def behind_ns(self) -> int:
        """0 where it is no more than leaders' clocks may differ."""
        behind_ns = 0 if self.now_ns is None else self.now_ns - self._append_ns
        return behind_ns if behind_ns > BACK_NS else 0

    @property
    def off_ns(self) -> int:
        """How far the broker's clock is ahead or behind, as far as is known."""
        return self.doubted_ns or self.behind_ns

    def goes_on(self, appended_ns: Sequence[int]) -> bool:
        """The next records have been appended one after another, soon after the last one: that is
        when each of them arrives, whatever its stamp."""
        if self.now_ns is None or self.doubted_ns or appended_ns[0] < self.now_ns:
            return False
        steps_ns: list[int] = list(map(sub, appended_ns, (self.now_ns, *appended_ns)))
        return min(steps_ns) >= 0 and max(steps_ns) <= LEAST_NS

    def went_on(self, appended_ns: int, stamped: Iterable[tuple[int, int]], count: int) -> None:
        """They did, up to that time. `stamped`: arrival and stamp of the last `2 * BLOCK` that bear
        one, or of all of them if they are fewer; `count`: how many do."""
        self._fold()
        self.now_ns = self._append_ns = appended_ns
        self._count += max(0, count - 2 * BLOCK)
        self._recent += stamped

    def take(self, append_ns: int, stamp_ns: int | None) -> int:
        """When the next record arrives; None: it bears no stamp of its own."""
        if self.now_ns is None:
            self.now_ns = append_ns
        if not self.doubted_ns and 0 <= append_ns - self.now_ns <= LEAST_NS:  # as mostly
            self.now_ns = self._append_ns = append_ns
            self._note(stamp_ns)
            return append_ns
        last_ns, self._append_ns = self._append_ns, append_ns
        step_ns = append_ns - self.doubted_ns - self.now_ns
        if step_ns > LEAST_NS and self._is_doubtful(step_ns, stamp_ns):
            if not self.doubted_ns:
                self._since_ns = append_ns
            self.doubted_ns += step_ns
        elif step_ns >= -BACK_NS:
            self.now_ns += max(step_ns, 0)
        elif self.doubted_ns:
            self._take_back(append_ns)
        else:
            self.now_ns += max(append_ns - last_ns, 0) // 2
        if self.doubted_ns and self._is_borne_out(append_ns, stamp_ns):
            self.doubted_ns = 0
            self.now_ns = max(self.now_ns, append_ns)
        if not self.doubted_ns:
            self._note(stamp_ns)
        return self.now_ns

    def _take_back(self, append_ns: int) -> None:
        assert self.now_ns is not None
        left_ns = append_ns - self.now_ns
        self.doubted_ns = left_ns if left_ns > LEAST_NS else 0
        self.now_ns = max(self.now_ns, append_ns - self.doubted_ns)

    def _is_doubtful(self, step_ns: int, stamp_ns: int | None) -> bool:
        assert self.now_ns is not None
        self._fold()
        if self._count <= BLOCK:
            return False
        if step_ns <= self.now_ns - self._blocks[0][0]:
            return False
        if GRAIN_NS * self._sorted_leads()[0] >= step_ns // 2:
            return False
        return not self._goes_along(step_ns, stamp_ns)

    def _goes_along(self, step_ns: int, stamp_ns: int | None) -> bool:
        if stamp_ns is None:
            return False
        assert self.now_ns is not None
        leads, lead_ns, half_ns = self._sorted_leads(), stamp_ns - self.now_ns, step_ns // 2
        if lead_ns < GRAIN_NS * (leads[len(leads) // 2] + 1) + half_ns:
            return False
        return not any(
            GRAIN_NS * lead - half_ns < lead_ns < GRAIN_NS * (lead + 1) + half_ns
            for lead in set(leads)
        )

    def _sorted_leads(self) -> list[int]:
        if not self._leads:
            first, second = self._blocks
            self._leads = sorted([*first[1:], *second[1:]])
        return self._leads

    def _is_borne_out(self, append_ns: int, stamp_ns: int | None) -> bool:
        if append_ns - self._since_ns >= self.doubted_ns:
            return True
        return self._goes_along(self.doubted_ns, stamp_ns)

    def _note(self, stamp_ns: int | None) -> None:
        if stamp_ns is not None:
            assert self.now_ns is not None
            self._recent.append((self.now_ns, stamp_ns))
            if len(self._recent) > MOST_RECENT:
                self._fold()

    def _fold(self) -> None:
        """Into blocks; of those before the last full one nothing is asked."""
        recent = self._recent
        passed = max(0, len(recent) - 2 * BLOCK)
        self._count += passed
        for arrival_ns, stamp_ns in recent[passed:]:
            if not self._count % BLOCK:
                self._blocks = [self._blocks[1], [arrival_ns]]
            self._blocks[1].append((stamp_ns - arrival_ns) // GRAIN_NS)
            self._count += 1
        recent.clear()
        self._leads = []

    def snapshot(self) -> list[int]:
        """Nothing before the first record."""
        self._fold()
        if self.now_ns is None:
            return []
        first, second = self._blocks
        doubt = self.doubted_ns, self._since_ns
        return [self.now_ns, self._append_ns, *doubt, self._count, len(first), *first, *second]

    def restore(self, state: Sequence[int]) -> None:
        if state:
            self.now_ns, self._append_ns, self.doubted_ns, self._since_ns = state[:4]
            self._count, size, *blocks = state[4:]
            self._blocks = [blocks[:size], blocks[size:]]
