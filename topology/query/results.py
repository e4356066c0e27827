"""What was emitted of each result, and what is news.

A result is known by an id and corrected until it is final (`topology.model.result`). Whoever finds
results keeps a `CurrentResult` for each one that may still change, and asks it for the operation
by which a content is to be emitted:

    not emitted, or retracted     emit
    emitted, and this is news     update: the content is another, or is final, where that is emitted
    emitted, and holds no more    retract

Revisions count from 0 without a hole, retracts too.

What is emitted is gathered, and counted, by a `ResultEmitter`; each room has one of its own that
makes the values. Cost: O(1). Memory: some 64 bytes for each current result, and its content.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from topology.model.operator import Figures
from topology.model.outcome import Step
from topology.model.result import (
    CONFIRMED,
    EMIT,
    RETRACT,
    UNCERTAIN,
    UNPROVEN,
    UPDATE,
    Finding,
)

NO_NEWS: Final = ""

C = TypeVar("C")


class CurrentResult(Generic[C]):
    """A result as it was emitted last, under this `revision`. Its `content` is what distinguishes
    news from what is known. `live` until it is retracted; if it comes again its number goes on."""

    __slots__ = ("content", "final", "live", "revision")

    def __init__(
        self, content: C, revision: int = -1, *, live: bool = False, final: bool = False
    ) -> None:
        """By default it was not emitted yet."""
        self.content = content
        self.revision = revision
        self.live = live
        self.final = final

    def show(self, content: C, *, is_news: bool, is_final: bool) -> str:
        """The operation by which the content is emitted, and then is current; NO_NEWS if it stays
        as it is. `is_news`: a reader who has the current one is to have this."""
        if self.live and not is_news:
            return NO_NEWS
        op = UPDATE if self.live else EMIT
        self.content = content
        self.revision += 1
        self.live = True
        self.final = is_final
        return op

    def retract(self, *, is_final: bool = True) -> str:
        """Not final: it may come again."""
        self.revision += 1
        self.live = False
        self.final = is_final
        return RETRACT


class ResultEmitter:
    """Gathers the `results` of a query. `now_ns`: the instant in which is emitted. The `counts` by
    operation only grow."""

    def __init__(self) -> None:
        self.results: list[Finding] = []
        self.now_ns = 0
        self.counts = {EMIT: 0, UPDATE: 0, RETRACT: 0}

    def count(self, op: str) -> None:
        self.counts[op] += 1

    def finish(self, step: Step) -> None:
        """The step takes what was emitted."""
        step.results += self.results
        self.results.clear()

    def figures(self) -> Figures:
        counts = self.counts
        return {"emitted": counts[EMIT], "updated": counts[UPDATE], "retracted": counts[RETRACT]}


def confidence_of(*, is_sure: bool, is_proven: bool) -> str:
    """Return the confidence of a result; `is_proven`: not by the end of the input alone."""
    if not is_proven:
        return UNPROVEN
    return CONFIRMED if is_sure else UNCERTAIN
