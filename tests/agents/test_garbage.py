"""Example: garbage in a circle is gone after COLLECT_S, and is not looked for before."""

from __future__ import annotations

import gc
import weakref

from agents.garbage import COLLECT_S, Collecting


class Circle:
    def __init__(self) -> None:
        self.itself = self


def test_a_circle_lies_no_longer_than_a_minute() -> None:
    now_s = 100.0
    collecting = Collecting(lambda: now_s)
    gc.disable()  # it is found by time alone
    try:
        circle = weakref.ref(Circle())
        now_s += COLLECT_S / 2
        collecting.look()
        assert circle() is not None
        now_s += COLLECT_S / 2
        collecting.look()
        assert circle() is None
    finally:
        gc.enable()
