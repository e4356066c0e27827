"""Where results go: what every kind of sink promises.

* `write` takes results in any order, with copies, in batches of any cut, and returns
  when they are as durable as the store is set up to be: the caller may then forget them.
  What the store holds afterwards depends on the set of results alone: of each id the
  highest revision (`sinks.result`). A retract takes the result away and its revision is
  remembered, so that a late older update cannot bring it back.
* A result that this store can never hold (a character it knows not, say) comes back as
  `Refused`, the others are written.
* `write` of nothing is a tick: work that is due by time is done then.
* A batch that failed may be in the store in part; it is written again, whole.

Failures are of two kinds. SinkUnavailable: the store does not answer or takes nothing now,
bounded retries included; the same batch will do later. SinkUnusable: a table or a key is
not as it must be, and waiting will not help. Neither loses anything: the caller has not
answered that it is done with the batch.

One object serves one thread at a time. Several objects, in several processes, may
write to one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sinks.result import Result

REFUSED: Final = "refused"
"""The reason of a dead letter for a `Refused`."""


class SinkError(Exception):
    """Nothing is known of the batch; it has to be written again."""


class SinkUnavailable(SinkError):
    """The store does not do as asked at this moment, retries included."""


class SinkUnusable(SinkError):
    """The store is not as it must be; the message states what to do."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The store can never hold this; `detail` is the reason."""

    result: Result
    detail: str


class Sink(Protocol):
    """See the module's docstring; `tests/sinks` holds every kind to it."""

    def write(self, results: Sequence[Result]) -> Sequence[Refused]:
        """Return when `results` are durable. SinkUnavailable, SinkUnusable."""

    def close(self) -> None:
        """Let go of files and connections; a second call does nothing."""
