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

There are two kinds of failures. SinkUnavailable: the store does not answer or accepts nothing now,
even after bounded retries; the same batch will succeed later. SinkUnusable: a table or a key is not
as it must be, and waiting will not help. Neither loses anything, because the caller has not
confirmed the batch.

One object serves one thread at a time. Several objects, in several processes, may write to the same
store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sinks.result import Result

REFUSED: Final = "refused"
"""Reason of a dead letter for a refused result."""


class SinkError(Exception):
    """A batch may be stored only in part; it has to be written again."""


class SinkUnavailable(SinkError):
    """The store cannot accept results at the moment, even after retries."""


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


class Sink(Protocol):
    """A store for results; `tests/sinks` checks the guarantees of every kind."""

    def write(self, results: Sequence[Result]) -> Sequence[Refused]:
        """Write `results`; when they are durable, return those that were refused.

        Raises SinkUnavailable or SinkUnusable.
        """

    def close(self) -> None:
        """Close files and connections; a second call does nothing."""
