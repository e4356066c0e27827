"""Find the offset that follows from rounds, by intersection of intervals.

D = server - source. A round gives two bounds: D(t1) <= t2 - t1 at the time of the request, and
D(t4) >= t3 - t4 at the time of the answer. At another time of the source's clock, each bound is
looser by `max_skew` times the distance.

The intersection of all rounds is an interval that contains D, while the source's clock drifts no
more than that. Readers of the samples get a narrower interval from the same rounds, because they
also estimate the rate. This module needs only that single assumption.

If the intersection of the rounds is empty, a clock jumped unnoticed or was set, or a server sends
wrong times. The newest round is then kept and the earlier ones are dropped. Bounds: `MAX_ROUNDS`,
and no round older than `WINDOW_NS`.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

MAX_ROUNDS: Final = 64
WINDOW_NS: Final = 300 * 1_000_000_000
PPB: Final = 1_000_000_000


class Interval(NamedTuple):
    """The interval of an offset; both ends are included."""

    lower_ns: int
    upper_ns: int

    @property
    def offset_ns(self) -> int:
        """The middle of the interval, in ns."""
        return (self.lower_ns + self.upper_ns) // 2

    @property
    def error_ns(self) -> int:
        """Half the width in ns, rounded up, so that offset +- error contains the interval."""
        return (self.upper_ns - self.lower_ns + 1) // 2

    def cut(self, other: Interval) -> Interval | None:
        """Return the intersection of both intervals, or None if it is empty."""
        lower_ns = max(self.lower_ns, other.lower_ns)
        upper_ns = min(self.upper_ns, other.upper_ns)
        return Interval(lower_ns, upper_ns) if lower_ns <= upper_ns else None


class _Round(NamedTuple):
    """The bounds of one round: D is at most `upper_ns` at the time `asked_ns`.

    At the time `answered_ns`, D is at least `lower_ns`.
    """

    asked_ns: int
    upper_ns: int
    answered_ns: int
    lower_ns: int


class Known:
    """The rounds of one server with one source, in one segment of the source's clock.

    Attributes:
        contradictions: The number of rounds whose intersection with the earlier ones was empty.
    """

    def __init__(self, max_skew_ppb: int) -> None:
        """Prepare an empty set of rounds.

        Args:
            max_skew_ppb: The maximum rate error of the source's clock, in parts per billion.
        """
        self._max_skew_ppb = max_skew_ppb
        self._rounds: deque[_Round] = deque(maxlen=MAX_ROUNDS)
        self.contradictions = 0

    def __len__(self) -> int:
        """Return the number of rounds."""
        return len(self._rounds)

    def add(self, t1_ns: int, t2_ns: int, t3_ns: int, t4_ns: int) -> None:
        """Add a round, whose own interval must not be empty.

        Args:
            t1_ns: The time at which the request was sent, by the source's clock.
            t2_ns: The time at which the request was received, by the server's clock.
            t3_ns: The time at which the answer was sent, by the server's clock.
            t4_ns: The time at which the answer was received, by the source's clock.
        """
        taken = _Round(t1_ns, t2_ns - t1_ns, t4_ns, t3_ns - t4_ns)
        self._rounds.append(taken)
        while t4_ns - self._rounds[0].answered_ns > WINDOW_NS:
            self._rounds.popleft()
        if self.interval(t4_ns) is None:
            self.contradictions += 1
            self._rounds.clear()
            self._rounds.append(taken)

    def clear(self) -> None:
        """Drop all rounds."""
        self._rounds.clear()

    def interval(self, at_ns: int) -> Interval | None:
        """Return the offset's interval at the source's time `at_ns`, or None without a round."""
        if not self._rounds:
            return None
        upper_ns = min(r.upper_ns + self._drift_bound_ns(at_ns - r.asked_ns) for r in self._rounds)
        lower_ns = max(
            r.lower_ns - self._drift_bound_ns(at_ns - r.answered_ns) for r in self._rounds
        )
        return Interval(lower_ns, upper_ns) if lower_ns <= upper_ns else None

    @property
    def span_ns(self) -> int:
        """The time from the first round to the last, by the source's clock, in ns."""
        return self._rounds[-1].answered_ns - self._rounds[0].answered_ns if self._rounds else 0

    def _drift_bound_ns(self, distance_ns: int) -> int:
        return -(-abs(distance_ns) * self._max_skew_ppb // PPB)
