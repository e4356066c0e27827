"""How long the next record to read of one input partition has waited: its lag in time.

When that record arrived is known by two bounds, of which the later one counts:

* the arrival of the record read last, as a log is in the order of arrival;
* the moment of the last answer of the broker by which the log ended at or before that record.

So the lag is at most what is reported, and less by the distance of two records or answers at most.
The second bound also serves topics that bear no append time. A backlog that
was there before the worker was has the first bound alone, and none until something of it was read.

At most `MAX_ANSWERS` answers are kept, `ANSWERS_APART_NS` apart at first, twice as far each time
that there are more.
"""

from __future__ import annotations

from collections import deque
from typing import Final

ANSWERS_APART_NS: Final = 500_000_000
MAX_ANSWERS: Final = 600

SILENT_AFTER_NS: Final = 10_000_000_000
"""After so long a partition that was read to its end is not believed to be empty still. A broker is
asked twice within it at the quietest pace, where its answer takes 2 s; the watchdog reports it
silent after 6 s without one."""


class InputLag:
    """The lag of a partition from when it is opened, by the wall clock. O(1), amortized.
    `arrived_ns`: when what was read last arrived; 0 where that is not known."""

    def __init__(self) -> None:
        self._answers: deque[tuple[int, int]] = deque()
        self._apart_ns = ANSWERS_APART_NS
        self.arrived_ns = 0

    def answered(self, asked_at_ns: int, end_offset: int) -> None:
        """The broker was asked then, and the log ended there."""
        answers = self._answers
        if len(answers) > 1 and asked_at_ns - answers[-2][0] < self._apart_ns:
            answers[-1] = (max(answers[-1][0], asked_at_ns), end_offset)
            return
        answers.append((asked_at_ns, end_offset))
        if len(answers) > MAX_ANSWERS:
            self._answers = deque([*list(answers)[:-1:2], answers[-1]])
            self._apart_ns *= 2

    def ns(self, next_offset: int, now_ns: int) -> int | None:
        """The lag; None where nothing is known yet."""
        answers = self._answers
        while len(answers) > 1 and answers[1][1] <= next_offset:
            answers.popleft()
        if len(answers) == 1:
            self._apart_ns = ANSWERS_APART_NS
        since_ns = self.arrived_ns
        if answers and answers[0][1] <= next_offset:
            asked_at_ns = answers[0][0]
            if len(answers) == 1 and now_ns - asked_at_ns < SILENT_AFTER_NS:
                return 0
            since_ns = max(since_ns, asked_at_ns)
        return max(0, now_ns - since_ns) if since_ns else None
