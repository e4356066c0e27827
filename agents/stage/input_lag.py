"""Measures the lag in time of one input partition: how long its next record has waited.

Two lower bounds on the arrival of that record are known, and the later one is used:

* the arrival time of the last record read, because a log is in the order of arrival;
* the request time of the broker's last answer in which the log ended at or before that record.

The first is a time of the broker's clock, the second of this machine's monotonic clock.

So the true lag is at most the reported one. The difference is at most the interval between two
records or answers. The second bound also works for topics without arrival times. A backlog from
before the start has only the first bound, and none until some of it is read.

At most `MAX_ANSWERS` answers are kept. They are `ANSWERS_APART_NS` apart at first. Each time there
are more, every second one is dropped and the distance doubles.
"""

from __future__ import annotations

from collections import deque
from typing import Final

ANSWERS_APART_NS: Final = 500_000_000
MAX_ANSWERS: Final = 600

SILENT_AFTER_NS: Final = 10_000_000_000
"""Time without an answer after which a partition that was read to its end may have new records.

At the slowest pace a broker's answer takes 2 s, so two requests fit into this time. The watchdog
reports the partition as silent after 6 s without an answer.
"""


class InputLag:
    """The lag of a partition since it was opened.

    `arrived_ns` is the arrival time of the last record read, 0 if it is unknown. Each call takes
    amortized constant time.
    """

    def __init__(self) -> None:
        self._answers: deque[tuple[int, int]] = deque()
        self._apart_ns = ANSWERS_APART_NS
        self.arrived_ns = 0

    def note_answer(self, asked_at_ns: int, end_offset: int) -> None:
        """Record the monotonic time of a request, and the log's end in its answer."""
        answers = self._answers
        if len(answers) > 1 and asked_at_ns - answers[-2][0] < self._apart_ns:
            answers[-1] = (max(answers[-1][0], asked_at_ns), end_offset)
            return
        answers.append((asked_at_ns, end_offset))
        if len(answers) > MAX_ANSWERS:
            self._answers = deque([*list(answers)[:-1:2], answers[-1]])
            self._apart_ns *= 2

    def ns(self, next_offset: int, now_ns: int | None, mono_ns: int) -> int | None:
        """Return how long the record at `next_offset` has waited, in ns; None if unknown.

        `now_ns` is the time of the broker's clock, None if unknown, and `mono_ns` the monotonic
        time.
        """
        answers = self._answers
        while len(answers) > 1 and answers[1][1] <= next_offset:
            answers.popleft()
        if len(answers) == 1:
            self._apart_ns = ANSWERS_APART_NS
        lags_ns = [] if now_ns is None or not self.arrived_ns else [now_ns - self.arrived_ns]
        if answers and answers[0][1] <= next_offset:
            asked_at_ns = answers[0][0]
            if len(answers) == 1 and mono_ns - asked_at_ns < SILENT_AFTER_NS:
                return 0
            lags_ns.append(mono_ns - asked_at_ns)
        return max(0, min(lags_ns)) if lags_ns else None
