"""A day of an operator: acts thrown by the dice, one after the other, while a sender goes on.

The seed of the dice is INORDER_CHAOS_SEED (tests/end_to_end/test_chaos.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import Setting
from tests.end_to_end.test_chaos import SEED
from tests.end_to_end.waiting import Emitted
from tests.waiting import QUIET_S, wait_until

EVENTS = 40_000
"""More than a day has time for: events come to the end of it."""

RATE = 100.0
PAUSE_S = (1.0, 5.0)

Act = Callable[[], object]


class Day:
    """The acts that are left. `dice` are for the acts too; those of `last` end the day."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.dice = Random(SEED)
        self._say = say
        self._began_s = self._next_s = time.monotonic()
        self.left: list[Act] = []

    def plan(self, acts: Sequence[Act], last: Sequence[Act] = ()) -> None:
        shuffled = self.dice.sample(acts, len(acts))
        self.left = [*shuffled, *last][::-1]

    def act_due(self) -> int:
        """How many acts are left."""
        if self.left and time.monotonic() >= self._next_s:
            act = self.left.pop()
            self._say(f"{time.monotonic() - self._began_s:6.1f} s  {_name(act)}")
            act()
            self._next_s = time.monotonic() + self.dice.uniform(*PAUSE_S)
        return len(self.left)

    def go_through(
        self, setting: Setting, meanwhile: Callable[[], object] = lambda: None, **of_sender: Any
    ) -> None:
        """Send all the day, until all that was sent is out."""
        rows = crowd(EVENTS, seed=SEED).rows
        sender = Sender(setting, rows, speed=RATE / RATE_HZ, **of_sender).start()
        emitted = Emitted(setting)
        wait_until(
            lambda: not self.left,
            "the end of the day",
            lambda: (sender.share, emitted.poll(), self.act_due(), meanwhile()),
        )
        sender.stop()
        emitted.wait_for(sender.different, meanwhile, quiet_s=2 * QUIET_S)
        emitted.close()


def _name(act: Act) -> str:
    words = [getattr(act, "func", act).__name__, *getattr(act, "args", ())]
    return " ".join(map(str, words)).strip("_")
