"""The local copy of one partition's state: what every kind of copy promises.

The truth is a compacted Kafka changelog, written inside the transaction of each
checkpoint. The copy only makes a restart quick: it has one offset of that
changelog, and the restore reads the changelog from there on. So a copy may always
be thrown away, and may never be wrong.

* A copy is at `position`: it holds just what the changelog holds up to that offset,
  which is excluded. None: it is empty, or cannot be used, which is the same.
* `apply` writes the changes of one commit, after the commit, and moves the copy on
  from `base` to `position`, whole or not at all. A copy that is elsewhere is
  left as it is: StaleStore.
* `apply` with `base` None takes an empty copy, or what is left of an unusable one.
* The owner calls `clear` where a copy must not be built on (agents.state.local_copy).

One object serves one partition and one thread at a time. Keys and values are bytes,
keys are not empty.

Failures are of four kinds, all StoreError: StaleStore (somebody else has moved the
copy: leave it alone), StoreLocked (another process has it open), StoreUnavailable
(the disk or the server does not answer), StoreDamaged (what is there cannot be
trusted: `set_aside`). None of them endangers the state: the owner counts it and goes on
without a copy, or with an empty one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

Changes = Mapping[bytes, bytes | None]
"""New values by key; None: the key is removed."""


class StoreError(Exception):
    """The copy cannot be used as asked; the changelog still can."""


class StaleStore(StoreError):
    """The copy is not at the position where the change begins."""


class StoreLocked(StoreError):
    """Another process or object has the copy open."""


class StoreUnavailable(StoreError):
    """The disk or the server did not do as asked, retries included."""


class StoreDamaged(StoreError):
    """What is there is not what was written; `set_aside` makes room for a new beginning."""


@dataclass(frozen=True, slots=True)
class StoreName:
    """Whose state this is: a partition of a changelog of a stage."""

    application: str
    stage: str
    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not (self.application and self.stage and self.topic) or self.partition < 0:
            raise ValueError(f"{self!r} names no partition's state: a part is empty or negative")

    def __str__(self) -> str:
        return f"{self.application}/{self.stage}/{self.topic}/{self.partition}"


class StateStore(Protocol):
    """See the module's docstring; `tests/agents/state` holds every kind to it."""

    def position(self) -> int | None:
        """The changelog offset to read next; None where there is nothing to build on."""

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and values, in no order; a key may come twice, with one value.

        Read it to its end before the next `apply`. StaleStore, if the copy moved
        meanwhile; StoreDamaged, if not all of it can be read.
        """

    def apply(self, changes: Changes, base: int | None, position: int) -> None:
        """Move the copy from `base` to `position`.

        StaleStore if it is not at `base`. After StoreUnavailable it is
        at either, or is unusable: ask `position` and go on from there.
        """

    def clear(self) -> None:
        """Make the copy empty, with `position` None.

        StaleStore if somebody else moved it since this object last looked.
        """

    def set_aside(self) -> str:
        """Begin anew with an empty copy after StoreDamaged; the answer describes, for people, what
        became of the old one."""

    def close(self) -> None:
        """Let go of files and connections; a second call does nothing."""


def check_change(changes: Changes, base: int | None, position: int) -> None:
    """ValueError where the caller mixed up its offsets or keys; not for bad data."""
    if position < 0:
        raise ValueError(f"position {position} is no changelog offset; it starts at 0")
    if base is not None and position < base:
        raise ValueError(f"a copy never goes back: base {base}, position {position}")
    if base == position and changes:
        raise ValueError(f"{len(changes)} changes need a position above their base {base}")
    if b"" in changes:
        raise ValueError("a key of the state is empty; give each a name")
