"""A clock that a test moves."""

from __future__ import annotations


class Clock:
    """A clock that replaces the module `time`, or one of its functions."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
