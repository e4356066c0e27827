"""How far ahead of the frontier is read: a share ALPHA of the way from the clock X back to it.

`wait = ceil(alpha * (X - F))`: an event is read when the clock is so far beyond it. ALPHA is in
parts per million: 10^6 is plain buffering, 0 reads all that is there. The load is an argument:
nothing here has a clock.

`Fixed` keeps it. `Tcp` is the published control (algorithm 3), as printed: it halves while the
processor is idle, and goes back to 1 at once when it is busy. Ours is `topology.answer.budget`.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from topology.answer.spending import WHOLE


class Load(NamedTuple):
    """What a span cost: `first_ns` for what was read for the first time (and all else that has to
    be done), `again_ns` for what was read again."""

    first_ns: int
    again_ns: int
    span_ns: int

    @property
    def busy_ppm(self) -> int:
        """It is not known of an empty span, and counts as all."""
        if self.span_ns <= 0:
            return WHOLE
        return (self.first_ns + self.again_ns) * WHOLE // self.span_ns


class Policy(Protocol):
    def wait_ns(self, ahead_ns: int) -> int:
        """`ahead_ns`: from the frontier to the clock."""
        ...

    def observe(self, load: Load, ahead_ns: int) -> None:
        """A span is over."""
        ...


class Fixed:
    def __init__(self, alpha_ppm: int) -> None:
        self.alpha_ppm = alpha_ppm

    def wait_ns(self, ahead_ns: int) -> int:
        return -(-ahead_ns * self.alpha_ppm // WHOLE)

    def observe(self, load: Load, ahead_ns: int) -> None:
        """It stays as it is."""


class Tcp(Fixed):
    """Decided where the paper is silent: what it starts with, that alpha stays above 0, and that it
    is 0 when it is small."""

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
