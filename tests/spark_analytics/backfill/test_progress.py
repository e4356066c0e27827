"""Examples: what a backfill says while it runs, by a tracker that is none of Spark's."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spark_analytics.marks import SPARK

pytestmark = SPARK

LONGEST_S = 20.0


class Fake:
    """Each time it is asked, the next of `stages` by number: tasks done, and of how many. Then Java
    ends."""

    def __init__(self, *stages: Mapping[int, tuple[int, int] | None]) -> None:
        self._stages = list(stages)
        self._now: Mapping[int, tuple[int, int] | None] = {}
        self.is_over = threading.Event()

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 - Spark's names
        if not self._stages:
            self.is_over.set()
            raise ConnectionRefusedError
        self._now = self._stages.pop(0)
        return list(self._now)

    def getStageInfo(self, stageId: int) -> Any:  # noqa: N802, N803
        found = self._now[stageId]
        if found is None:
            return None
        return SimpleNamespace(numCompletedTasks=found[0], numTasks=found[1])


def test_lines_tell_the_tasks_done() -> None:
    from spark_analytics.backfill.progress import watched

    fake = Fake({7: (0, 40)}, {7: (39, 40), 9: (1, 8)}, {9: (8, 8), 11: None}, {})
    out = io.StringIO()
    with watched("ordering", fake, out, 0.001):
        assert fake.is_over.wait(LONGEST_S)
    lines = [re.sub(r"\d+ s$", "N s", line) for line in out.getvalue().splitlines()]
    assert lines == [
        "ordering: stage 1, 0 of 40 tasks, N s",
        "ordering: stage 1, 39 of 40 tasks, stage 2, 1 of 8 tasks, N s",
        "ordering: stage 2, 8 of 8 tasks, N s",
        "ordering: N s",
    ]


def test_nothing_is_said_once_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_analytics.backfill import progress

    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.001)
    fake = Fake(*[{1: (1, 2)}] * 100_000)
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    with progress.watched("ordering", fake):
        began_s = time.monotonic()
        while not out.getvalue() and time.monotonic() < began_s + LONGEST_S:
            time.sleep(0.001)
    said = out.getvalue()
    assert said.startswith("ordering: stage 1, 1 of 2 tasks, ")
    assert "ordering" not in {each.name for each in threading.enumerate()}


def test_without_a_tracker_nothing_is_said() -> None:
    from spark_analytics.backfill.progress import watched

    out = io.StringIO()
    with watched("ordering", None, out, 0.0):
        assert "ordering" not in {each.name for each in threading.enumerate()}
    assert out.getvalue() == ""
