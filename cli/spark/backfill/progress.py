"""Progress of a backfill: now and then a line on standard error that says what is done.

    reading and ordering: stage 2, 3 of 8 tasks, 50 s

The figures are those of Spark's status tracker. A stage is one of what is being done, in the order
in which they began; what has been done before it began is not told. On a terminal a line comes
every `TERMINAL_EVERY_S`, elsewhere, as a replay's, every `PLAIN_EVERY_S`; what is done sooner says
nothing. Spark Connect has no tracker, so there nothing is told.

Cost: a thread as long as something is done, and a few calls of Java for each line.

Proved by: tests/cli/spark/test_how_far.py
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

from cli.progress import PLAIN_EVERY_S
from spark_analytics.session import is_connected

TERMINAL_EVERY_S: Final = 3.0
LONGEST_CALL_S: Final = 5.0
"""So long the end waits for a line that is being made."""


class Tracker(Protocol):
    """`pyspark.StatusTracker`."""

    def getActiveStageIds(self) -> Any: ...  # noqa: N802 - Spark's names

    def getStageInfo(self, stageId: int) -> Any: ...  # noqa: N802, N803


def tracker_of(spark: SparkSession) -> Tracker | None:
    """None by Spark Connect."""
    if is_connected(spark):
        return None
    tracker: Tracker = spark.sparkContext.statusTracker()
    return tracker


@contextmanager
def watched(
    what: str, tracker: Tracker | None, stream: TextIO | None = None, every_s: float | None = None
) -> Iterator[None]:
    """As long as this lasts, lines about `what`; on standard error unless said otherwise."""
    stream = stream or sys.stderr
    if every_s is None:
        every_s = TERMINAL_EVERY_S if stream.isatty() else PLAIN_EVERY_S
    if tracker is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(
        target=_tell, args=(_Lines(what, tracker), stream, every_s, ended), daemon=True, name=what
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LONGEST_CALL_S)


def _tell(lines: _Lines, stream: TextIO, every_s: float, ended: threading.Event) -> None:
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
        """Stages by Spark's number: the how-manieth each is."""

        self._started_s = time.monotonic()

    def now(self) -> str:
        told = [self._what + ":"]
        for stage in sorted(self._tracker.getActiveStageIds()):
            found = self._tracker.getStageInfo(stage)
            if found is not None:  # else it has ended meanwhile
                number = self._seen.setdefault(stage, len(self._seen) + 1)
                done = f"{found.numCompletedTasks:,} of {found.numTasks:,}"
                told.append(f"stage {number}, {done} tasks,")
        return " ".join([*told, f"{time.monotonic() - self._started_s:.0f} s"])
