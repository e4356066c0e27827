"""TAP: where an operator that looks at several streams at once hears of one of them.

Everything passes unchanged. Whoever owns the chains takes what has passed all taps, in the order
of `at_ns`, up to the earliest time up to which one of them has spoken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from topology.model.event import Event, twin
from topology.model.operator import NEVER, Changes, Operator, Plain, State
from topology.model.outcome import Step


class Tap(Operator):
    """`now_ns`: all before it has passed. `is_alone`: nobody behind it changes what has passed;
    else it takes copies."""

    def __init__(self, *, is_alone: bool = True) -> None:
        self._is_alone = is_alone
        self._passed: list[Event] = []
        self.now_ns = -NEVER

    def take(self) -> list[Event]:
        """What has passed since this was last asked."""
        passed, self._passed = self._passed, []
        return passed

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        self._passed += events if self._is_alone else [twin(event) for event in events]
        self.now_ns = max(self.now_ns, now_ns)
        return Step(now_ns, list(events))

    def on_time(self, now_ns: int) -> Step:
        self.now_ns = max(self.now_ns, now_ns)
        return Step(now_ns)

    def on_end(self, now_ns: int) -> Step:
        return self.on_time(now_ns)

    def next_deadline_ns(self) -> int | None:
        return None

    def snapshot(self) -> State:
        return {}

    def changes(self) -> Changes:
        return {}

    def held(self) -> Iterable[Event]:
        return ()

    def restore(self, state: Mapping[str, Plain], held: Iterable[Event]) -> None:
        """Nothing stays here between two calls."""
