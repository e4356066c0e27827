"""Keeps the last emitted content of each result, and decides which operation comes next.

A result has an id and is corrected until it is final (`topology.base.result`). An operator keeps a
`CurrentResult` for each result that may still change, and asks it for the operation:

    not emitted, or retracted        emit
    emitted, and the content is new  update; the caller decides whether a new `final` alone counts
    emitted, and no longer true      retract

Revisions count from 0 without gaps; a retraction has a revision too.

A `ResultEmitter` collects and counts the emitted results. WINDOW, JOIN and DETECTOR have subclasses
that build the values; PATTERN makes its own (`topology.queries.pattern.run.match_results`).

Cost: O(1). Memory: about 64 bytes for each current result, and its content.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from topology.base.native import mypyc_attr
from topology.base.operator import Figures
from topology.base.outcome import Step
from topology.base.result import (
    CONFIRMED,
    EMIT,
    RETRACT,
    UNCERTAIN,
    UNPROVEN,
    UPDATE,
    Finding,
    Result,
)

NO_NEWS: Final = ""

C = TypeVar("C")


class CurrentResult(Generic[C]):
    """A result as it was last emitted, with its `revision` and `content`.

    `live` is true until the result is retracted; if it is emitted again, its revisions continue.
    """

    __slots__ = ("content", "final", "live", "revision")

    def __init__(
        self, content: C, revision: int = -1, *, live: bool = False, final: bool = False
    ) -> None:
        """Make a result; by default it has not been emitted yet."""
        self.content = content
        self.revision = revision
        self.live = live
        self.final = final

    def show(self, content: C, *, is_news: bool, is_final: bool) -> str:
        """Make the content current and return the operation, or NO_NEWS if nothing is emitted.

        `is_news`: whether the change since the last emitted content must be emitted.
        """
        if self.live and not is_news:
            return NO_NEWS
        op = UPDATE if self.live else EMIT
        self.content = content
        self.revision += 1
        self.live = True
        self.final = is_final
        return op

    def retract(self, *, is_final: bool = True) -> str:
        """Retract the result and return the operation; unless it is final, an emit may follow."""
        self.revision += 1
        self.live = False
        self.final = is_final
        return RETRACT


@mypyc_attr(allow_interpreted_subclasses=True)
class ResultEmitter:
    """A collector of the `results` of a query.

    Each result names the `stream` and the `query`, and its key if the query `is_keyed`. `now_ns` is
    the instant at which results are emitted. `counts` is the number of added results, by operation.
    """

    def __init__(self, stream: str, query: str, *, is_keyed: bool) -> None:
        self._stream = stream
        self._query = query
        self._is_keyed = is_keyed
        self.results: list[Finding] = []
        self.now_ns = 0
        self.counts = {EMIT: 0, UPDATE: 0, RETRACT: 0}

    def add(self, result: Result) -> None:
        self.counts[result.op] += 1
        self.results.append(result)

    def flush(self, step: Step) -> None:
        """Move the collected results into the step."""
        step.results += self.results
        self.results.clear()

    def figures(self) -> Figures:
        counts = self.counts
        return {"emitted": counts[EMIT], "updated": counts[UPDATE], "retracted": counts[RETRACT]}


def confidence_of(*, is_sure: bool, is_proven: bool) -> str:
    """Return the confidence of a result.

    `is_proven` is false if only the end of the input decided the result.
    """
    if not is_proven:
        return UNPROVEN
    return CONFIRMED if is_sure else UNCERTAIN
