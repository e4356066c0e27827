"""Decide how far beyond the frontier to read, by a share ALPHA of the way from clock X back to it.

An event is read when the clock is `wait = ceil(alpha * (X - F))` beyond it. ALPHA is in parts per
million: 10^6 is plain buffering, and 0 reads all existing events. The load is an argument, so no
code here reads a clock.

`Fixed` keeps ALPHA. `Tcp` is the published control (algorithm 3), as printed. It halves ALPHA while
the processor is idle, and sets it to 1 at once when it is busy. Ours is `topology.answer.budget`.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from topology.answer.spending import WHOLE


class Load(NamedTuple):
    """The cost of a time span.

    Attributes:
        first_ns: The time for items read for the first time, and for all other work.
        again_ns: The time for items that were read again.
        span_ns: The length of the span.
    """

    first_ns: int
    again_ns: int
    span_ns: int

    @property
    def busy_ppm(self) -> int:
        """The share of the span, in ppm, that was busy; an empty span counts as busy."""
        if self.span_ns <= 0:
            return WHOLE
        return (self.first_ns + self.again_ns) * WHOLE // self.span_ns


class Policy(Protocol):
    def wait_ns(self, ahead_ns: int) -> int:
        """Return the wait if the clock is `ahead_ns` beyond the frontier."""
        ...

    def observe(self, load: Load, ahead_ns: int) -> None:
        """Adapt to the load of a span that is over."""
        ...


class Fixed:
    def __init__(self, alpha_ppm: int) -> None:
        self.alpha_ppm = alpha_ppm

    def wait_ns(self, ahead_ns: int) -> int:
        return -(-ahead_ns * self.alpha_ppm // WHOLE)

    def observe(self, load: Load, ahead_ns: int) -> None:
        """Do nothing, because ALPHA is fixed."""


class Tcp(Fixed):
    """The published control of ALPHA.

    The paper leaves three decisions open, which are ours: the start value, that ALPHA never becomes
    negative, and that a small ALPHA becomes 0.
    """

    LOW: Final = 800_000
    HIGH: Final = 900_000
    STEP: Final = 50_000
    SMALL: Final = 20_000

    def __init__(self) -> None:
        super().__init__(WHOLE)
        self._last_ppm = WHOLE
        self._is_slow = False

    def observe(self, load: Load, ahead_ns: int) -> None:
        busy_ppm = load.busy_ppm
        if busy_ppm > self.HIGH:
            self._last_ppm = self.alpha_ppm
            self.alpha_ppm = WHOLE
            self._is_slow = False
        elif busy_ppm < self.LOW:
            target = self.alpha_ppm - self.STEP if self._is_slow else self.alpha_ppm // 2
            if not self._is_slow and (WHOLE - self._last_ppm) // 2 > target:
                self._is_slow = True
                target = self.alpha_ppm - self.STEP
            target = max(0, target)
            self.alpha_ppm = 0 if target < self.SMALL else target
