"""Defines the guarantees of every kind of sink.

* `write` takes results in any order, with duplicates, in batches of any size. It returns when the
  store has accepted them with the durability for which it is configured; the caller may then forget
  them.
* Readers of the store find the highest revision of each id (`sinks.result`), in whatever order the
  results were written. The revision of a retract is stored, so that a late older update cannot
  restore the result.
* A result that this store can never hold is returned as `Refused`, for example because of a
  character that the store does not support. The others are written.
* `write` without results does only the work that is due by time.
* A batch that failed may be in the store in part; it is written again as a whole.
* A batch comes with the progress of its reader. The store keeps it as marks (`sinks.marks`), and
  makes it durable with the results or after them. So no mark is ahead of its results. If a mark is
  absent, or lower than the reader knows, BegunAnew is raised, and nothing of the call is kept.

There are two kinds of failures. SinkUnavailable: the store does not answer or accepts nothing now,
even after bounded retries; the same batch will succeed later. SinkUnusable: a table or a key is not
as it must be, and waiting will not help. Neither loses anything, because the caller has not
confirmed the batch.

One object serves one thread at a time. Several objects, in several processes, may write to the same
store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from sinks.result import Result

REFUSED: Final = "refused"
"""Reason of a dead letter for a refused result."""


class SinkError(Exception):
    """A batch may be stored only in part; it has to be written again."""


class SinkUnavailable(SinkError):
    """The store cannot accept results at the moment, even after retries."""


class BegunAnew(SinkUnavailable):
    """The store has lost marks since they were last read, and with them perhaps results."""


class SinkUnusable(SinkError):
    """The store cannot be used until it is repaired; the message states the remedy."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A result that the store does not take; `detail` is the reason.

    `cause` names what refused it, such as a constraint. It is empty if no store could hold it.
    """

    result: Result
    detail: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """The consumer group and the topic to which marks belong."""

    group: str
    topic: str


class MarkStep(NamedTuple):
    """The lowest mark that a partition can have before a batch, and the next offset after it."""

    known: int
    next: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a reader by a batch: a step for each partition."""

    reader: Reader
    steps: Mapping[int, MarkStep]

    def without_moves(self) -> Progress:
        """Return steps that move no mark, so that only their presence is checked."""
        return Progress(
            self.reader, {each: MarkStep(step.known, 0) for each, step in self.steps.items()}
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks that a store has of one reader.

    `positions` are the next offsets by partition. `is_older` says that the store had results before
    it had marks. `store` names the store in messages.
    """

    store: str
    positions: Mapping[int, int]
    is_older: bool


class Sink(Protocol):
    """A store for results; `tests/sinks` checks the guarantees of every kind."""

    def write(
        self, results: Sequence[Result], progress: Progress | None = None
    ) -> Sequence[Refused]:
        """Write `results` and move the marks; when both are durable, return what was refused.

        Raises SinkUnavailable, BegunAnew or SinkUnusable.
        """

    def marks(self, reader: Reader) -> Marks:
        """Return the marks of a reader; the store is created if it is absent.

        Raises SinkUnavailable or SinkUnusable.
        """

    def mark(self, reader: Reader, positions: Mapping[int, int]) -> None:
        """Create marks, or raise them; none is lowered.

        Raises SinkUnavailable or SinkUnusable.
        """

    def close(self) -> None:
        """Close files and connections; a second call does nothing."""
