"""Defines the interface of local copies of a partition's state, and the errors that they raise.

The authoritative state is a compacted Kafka changelog, written inside the transaction of each
checkpoint. A copy only makes a restart quick. It has one offset of that changelog, and the restore
reads the changelog from there on. So a copy may always be thrown away, but must never be wrong.

* A copy is at `position`: it has exactly the content of the changelog before that offset. None
  means that it is empty or cannot be used, which has the same effect.
* `apply` writes the changes of one commit, after the commit. It moves the copy from `base` to
  `position`, whole or not at all. It leaves a copy at another position unchanged and raises
  StaleStore.
* `apply` with `base` None is for an empty copy, or the rest of an unusable one.
* The owner calls `clear` if a copy must not be used (`agents.state.local_copy`).

One object serves one partition and one thread at a time. Keys and values are bytes, and keys are
not empty.

Failures are of four kinds, all StoreError:

* StaleStore: another worker has moved the copy, so leave it alone;
* StoreLocked: another process has it open;
* StoreUnavailable: the disk or the server does not answer;
* StoreDamaged: the content cannot be trusted (`set_aside`).

None of them endangers the state. The owner counts the failure and continues without a copy, or with
an empty one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

Changes = Mapping[bytes, bytes | None]
"""New values by key; None removes the key."""


class StoreError(Exception):
    """The copy cannot be used as requested, but the changelog still can."""


class StaleStore(StoreError):
    """The copy is not at the position at which the change begins."""


class StoreLocked(StoreError):
    """Another process or object has the copy open."""


class StoreUnavailable(StoreError):
    """The disk or the server failed, even after retries."""


class StoreDamaged(StoreError):
    """The content differs from what was written; `set_aside` makes room for an empty copy."""


@dataclass(frozen=True, slots=True)
class StoreName:
    """The name of a partition's state: its application, stage, input topic and partition number."""

    application: str
    stage: str
    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not (self.application and self.stage and self.topic) or self.partition < 0:
            raise ValueError(
                f"{self!r} is not the name of a partition's state: a part is empty or negative"
            )

    def __str__(self) -> str:
        return f"{self.application}/{self.stage}/{self.topic}/{self.partition}"


class StateStore(Protocol):
    """A local copy; see the module's docstring. `tests/agents/state` tests every kind."""

    def position(self) -> int | None:
        """Return the changelog offset to read next; None if the copy is empty or unusable."""

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and values in any order; a key may occur twice, with the same value.

        Exhaust the iterator before the next `apply`. Raises StaleStore if the copy moved meanwhile,
        and StoreDamaged if not all of it can be read.
        """

    def apply(self, changes: Changes, base: int | None, position: int) -> None:
        """Move the copy from `base` to `position` by these changes.

        Raises StaleStore if the copy is not at `base`. After StoreUnavailable it is at either
        position, or unusable: call `position` and continue from there.
        """

    def clear(self) -> None:
        """Make the copy empty, with `position` None.

        Raises StaleStore if another worker has moved the copy since this object last read its
        position.
        """

    def set_aside(self) -> str:
        """Replace a damaged copy by an empty one, after StoreDamaged.

        Returns a readable description of what happened to the old copy.
        """

    def close(self) -> None:
        """Close files and connections; a second call does nothing."""


def check_change(changes: Changes, base: int | None, position: int) -> None:
    """Raise ValueError if the caller confused offsets or gave an empty key."""
    if position < 0:
        raise ValueError(f"position {position} is not a changelog offset; offsets start at 0")
    if base is not None and position < base:
        raise ValueError(f"a copy cannot go back: base {base}, position {position}")
    if base == position and changes:
        raise ValueError(f"{len(changes)} changes need a position above their base {base}")
    if b"" in changes:
        raise ValueError("a key of the state is empty; give each a name")
