"""Progress of a backfill: now and then a line on standard error that says what is done.

    reading and ordering: stage 2, 3 of 8 tasks, 50 s

The figures come from Spark's status tracker. Stages are numbered in the order in which they begin,
within the work that is being done; earlier work is not reported. On a terminal a line is written
every `TERMINAL_EVERY_S`, elsewhere, as for a replay, every `PLAIN_EVERY_S`; shorter work writes no
line. Spark Connect has no tracker, so nothing is reported there.

Cost: a thread while work is done, and a few calls of Java for each line.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TextIO

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark_analytics.session import is_connected

TERMINAL_EVERY_S: Final = 3.0
PLAIN_EVERY_S: Final = 10.0
LONGEST_CALL_S: Final = 5.0
"""The longest time for which the end waits for an unfinished line."""


class Tracker(Protocol):
    """`pyspark.StatusTracker`."""

    def getActiveStageIds(self) -> Any: ...  # noqa: N802 - Spark's names

    def getStageInfo(self, stageId: int) -> Any: ...  # noqa: N802, N803


def tracker_of(spark: SparkSession) -> Tracker | None:
    """The session's tracker; None with Spark Connect."""
    if is_connected(spark):
        return None
    tracker: Tracker = spark.sparkContext.statusTracker()
    return tracker


@contextmanager
def watched(
    what: str, tracker: Tracker | None, stream: TextIO | None = None, every_s: float | None = None
) -> Iterator[None]:
    """Writes lines about `what` while the context lasts; on standard error by default."""
    stream = stream or sys.stderr
    if every_s is None:
        every_s = TERMINAL_EVERY_S if stream.isatty() else PLAIN_EVERY_S
    if tracker is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(
        target=_report, args=(_Lines(what, tracker), stream, every_s, ended), daemon=True, name=what
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LONGEST_CALL_S)


def _report(lines: _Lines, stream: TextIO, every_s: float, ended: threading.Event) -> None:
    while not ended.wait(every_s):
        try:
            line = lines.now()
        except (Py4JError, OSError):
            return  # Java has ended: who runs the job says so
        if ended.is_set():
            return
        print(line, file=stream, flush=True)


class _Lines:
    def __init__(self, what: str, tracker: Tracker) -> None:
        self._what = what
        self._tracker = tracker
        self._seen: dict[int, int] = {}
        """Our number of each stage, by Spark's number."""

        self._started_s = time.monotonic()

    def now(self) -> str:
        words = [self._what + ":"]
        for stage in sorted(self._tracker.getActiveStageIds()):
            found = self._tracker.getStageInfo(stage)
            if found is not None:  # else it has ended meanwhile
                number = self._seen.setdefault(stage, len(self._seen) + 1)
                done = f"{found.numCompletedTasks:,} of {found.numTasks:,}"
                words.append(f"stage {number}, {done} tasks,")
        return " ".join([*words, f"{time.monotonic() - self._started_s:.0f} s"])
