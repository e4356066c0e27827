"""LimeCEP's score of late events, beyond which one is discarded (LimeCEP 4.2, equations 1 and 2).

    score     = a ln(1 + behind) + b away² + c share;    0 for an event in order
    threshold = factor * mean score of the late events of its type, this one included

`behind` is how far its time is behind the newest of its type, in mean intervals of the type. `away`
is how far the type's rate is from the expected one, as a share of it. `share` is what one event is
of a window: 1 / (rate * WITHIN). The paper prints these with other signs and units, in which the
logarithm has no value (specs: patterns.md 4.2).

For comparison alone: a score promises nothing. The mean includes the event itself. Therefore the
first late event of a type passes for a factor of 1 or more, and none passes below.

Cost O(1); memory: five numbers for each type.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log


@dataclass(slots=True)
class TypeRate:
    """A record of the times of one type, and of the scores of its late events."""

    first_ns: int
    newest_ns: int
    events: int = 0
    late: int = 0
    scores: float = 0.0

    @property
    def interval_ns(self) -> float:
        """Mean interval; 1 until there are two times."""
        spread_ns = self.newest_ns - self.first_ns
        return spread_ns / (self.events - 1) if self.events > 1 and spread_ns else 1.0


class LatenessScore:
    """A score with the weights a, b and c.

    No rate is expected here, so that `away` is 0.
    """

    def __init__(
        self,
        within_ns: int,
        factor: float = 2.5,
        weights: tuple[float, float, float] = (0.6, 0.2, 0.2),
    ) -> None:
        self._within_ns = within_ns
        self._factor = factor
        self._weights = weights
        self._rates: dict[str, TypeRate] = {}

    def admits(self, type_: str, time_ns: int) -> bool:
        """Count the next event, and return whether it is accepted."""
        rate = self._rates.get(type_)
        if rate is None:
            rate = self._rates[type_] = TypeRate(time_ns, time_ns)
        rate.events += 1
        rate.first_ns = min(rate.first_ns, time_ns)
        if time_ns >= rate.newest_ns:
            rate.newest_ns = time_ns
            return True
        score = self._score(rate, time_ns)
        rate.late += 1
        rate.scores += score
        return score <= self._factor * rate.scores / rate.late

    def _score(self, rate: TypeRate, time_ns: int) -> float:
        a, _, c = self._weights
        interval_ns = rate.interval_ns
        behind = (rate.newest_ns - time_ns) / interval_ns
        return a * log(1 + behind) + c * interval_ns / self._within_ns
