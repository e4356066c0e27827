"""An operator's day: random acts, one after another, while a sender keeps sending.

INORDER_CHAOS_SEED is the seed (tests/end_to_end/test_chaos.py).
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
"""Number of events, more than a day has time for, so that they last to its end."""

RATE = 100.0
PAUSE_S = (1.0, 5.0)

Act = Callable[[], object]


class Day:
    """A day with its remaining acts, those in `last` at the end; acts use `dice` too."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.dice = Random(SEED)
        self._say = say
        self._began_s = self._next_s = time.monotonic()
        self.left: list[Act] = []

    def plan(self, acts: Sequence[Act], last: Sequence[Act] = ()) -> None:
        shuffled = self.dice.sample(acts, len(acts))
        self.left = [*shuffled, *last][::-1]

    def act_due(self) -> int:
        """Perform the act that is due, and return how many are left."""
        if self.left and time.monotonic() >= self._next_s:
            act = self.left.pop()
            self._say(f"{time.monotonic() - self._began_s:6.1f} s  {_name(act)}")
            act()
            self._next_s = time.monotonic() + self.dice.uniform(*PAUSE_S)
        return len(self.left)

    def go_through(
        self, setting: Setting, meanwhile: Callable[[], object] = lambda: None, **of_sender: Any
    ) -> None:
        """Send all day, and wait until everything sent is emitted."""
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
