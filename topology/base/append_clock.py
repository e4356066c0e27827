"""Computes the clock of a log from its records, and limits the harm of a wrong broker clock.

The broker's timestamps (`LogAppendTime`) usually rise, and the clock follows them. If they step
ahead too far, the sources' own timestamps decide whether to follow, since no broker changes those.
If they step back, the clock slows down.

* A step *ahead* is doubted if the log was busy and the record's own timestamp does not follow the
  step. The step must exceed both `LEAST_NS` and the time that the last one to two `BLOCK`s of
  records took.
* The lead of a timestamp is its distance ahead of the clock. A timestamp follows the step if its
  lead exceeds the median lead of those records by at least half of the step. It does not if its
  lead is within half of the step of one of their leads. Its source then has its own clock, which
  may stand still or be hours ahead.
* During a doubt, time advances by the differences of the broker's timestamps, for example if the
  broker is an hour ahead for a minute. A silence of an hour causes no doubt, since the timestamp
  that ends it is an hour later. The correction of a broker clock that was behind causes no doubt
  either, since all timestamps were ahead of that clock.
* A doubt ends when the broker's timestamps step back, or when the step has lasted for its own
  length. It also ends when a timestamp follows the step after all. Then the first records had been
  buffered, for example during an outage.
* If the broker's timestamps are *behind* by more than `BACK_NS`, time advances at half their speed
  until they have caught up. A smaller step back ends no doubt, since broker timestamps never rise
  evenly.

So the clock never goes back. It is ahead of the truth by no more than a broker was, and for at most
twice as long. It depends only on the records and their order, and not on how they are divided into
batches.

Cost: O(1) a record. If the broker's timestamps rise evenly (`goes_on`), O(`BLOCK`) for a whole
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import sub
from typing import Final

LEAST_NS: Final = 30_000_000_000
"""The largest step ahead that is always believed, because its harm is small and brief."""
BACK_NS: Final = 1_000_000_000
"""The largest step back that counts as normal, as after a change of the partition leader."""
BLOCK: Final = 64
"""The number of records that are examined together."""
GRAIN_NS: Final = 1_000_000_000
"""The unit in which the leads of timestamps over the clock are stored."""
MOST_RECENT: Final = 4_096
"""The maximum number of records that are collected before they are put into blocks."""


class AppendClock:
    """The clock of a log, computed from the timestamps of its records.

    `now_ns` never goes back, and is None before the first record. `doubted_ns` is the part of the
    broker's timestamp that is not believed. `behind_ns` is how far that timestamp is behind the
    clock.
    """

    __slots__ = (
        "_append_ns", "_blocks", "_count", "_leads", "_recent", "_since_ns", "doubted_ns", "now_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.now_ns: int | None = None
        self.doubted_ns = 0
        self._append_ns = 0
        self._since_ns = 0  # The broker's timestamp at which the doubt began.
        self._count = 0
        # The last full block and the one that is being filled. Each begins with its first arrival
        # time, followed by the leads of its timestamps in grains. Neither changes during a doubt.
        self._blocks = [[0], [0]]
        # The leads in both blocks, sorted; empty until they are needed.
        self._leads: list[int] = []
        # The arrival times and own timestamps of the records that are not in a block yet.
        self._recent: list[tuple[int, int]] = []

    @property
    def behind_ns(self) -> int:
        """How far the broker's timestamp is behind this clock; 0 if by at most `BACK_NS`."""
        behind_ns = 0 if self.now_ns is None else self.now_ns - self._append_ns
        return behind_ns if behind_ns > BACK_NS else 0

    @property
    def doubted_since_ns(self) -> int | None:
        """The broker's time before the step that is in doubt; None without a doubt."""
        return self._since_ns - self.doubted_ns if self.doubted_ns else None

    @property
    def off_ns(self) -> int:
        """How far the broker's clock is ahead of or behind this clock, as far as records show."""
        return self.doubted_ns or self.behind_ns

    def goes_on(self, appended_ns: Sequence[int]) -> bool:
        """Return whether the timestamps of the next records rise, by at most `LEAST_NS` each.

        If so, each record's arrival time is its broker timestamp, whatever its own timestamp is.
        The first step is from the clock's current time.
        """
        if self.now_ns is None or self.doubted_ns or appended_ns[0] < self.now_ns:
            return False
        steps_ns: list[int] = list(map(sub, appended_ns, (self.now_ns, *appended_ns)))
        return min(steps_ns) >= 0 and max(steps_ns) <= LEAST_NS

    def advance_to(self, appended_ns: int, stamped: Iterable[tuple[int, int]], count: int) -> None:
        """Advance the clock to `appended_ns`, the last of the records that `goes_on` has accepted.

        `count` is the number of these records that have their own timestamp. `stamped` has the
        arrival time and own timestamp of the last of them, at most `2 * BLOCK`.
        """
        self._fold()
        self.now_ns = self._append_ns = appended_ns
        self._count += max(0, count - 2 * BLOCK)
        self._recent += stamped

    def take(self, append_ns: int, stamp_ns: int | None) -> int:
        """Process the next record, and return its arrival time.

        `stamp_ns` is the record's own timestamp, or None if it has none.
        """
        if self.now_ns is None:
            self.now_ns = append_ns
        # This is the usual case.
        if not self.doubted_ns and 0 <= append_ns - self.now_ns <= LEAST_NS:
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
            self._reduce_doubt(append_ns)
        else:
            self.now_ns += max(append_ns - last_ns, 0) // 2
        if self.doubted_ns and self._is_confirmed(append_ns, stamp_ns):
            self.doubted_ns = 0
            self.now_ns = max(self.now_ns, append_ns)
        if not self.doubted_ns:
            self._note(stamp_ns)
        return self.now_ns

    def _reduce_doubt(self, append_ns: int) -> None:
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
        return not self._agrees_with_stamp(step_ns, stamp_ns)

    def _agrees_with_stamp(self, step_ns: int, stamp_ns: int | None) -> bool:
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

    def _is_confirmed(self, append_ns: int, stamp_ns: int | None) -> bool:
        if append_ns - self._since_ns >= self.doubted_ns:
            return True
        return self._agrees_with_stamp(self.doubted_ns, stamp_ns)

    def _note(self, stamp_ns: int | None) -> None:
        if stamp_ns is not None:
            assert self.now_ns is not None
            self._recent.append((self.now_ns, stamp_ns))
            if len(self._recent) > MOST_RECENT:
                self._fold()

    def _fold(self) -> None:
        """Move the recent records into blocks; only count those before the last `2 * BLOCK`."""
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
        """Return the state of the clock, which is empty before the first record."""
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
