"""Protect resources that a forked child must not share with its parent.

A child has its parent's memory and open files, and none of its threads. An object that must not be
used in a child compares process ids (`is_ours`). An object that must be released in the child at
once is registered (`abandon_at_fork`). Examples are a lock, which the child would keep after its
parent's death, and a client that needs the missing threads to close.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Shared(Protocol):
    """An object that a forked child gets a copy of, which the child must not use."""

    def left_to_parent(self) -> None:
        """Release the copy in the child, before any other code of the child runs.

        This method must not raise.
        """


_SHARED: Final[WeakSet[Shared]] = WeakSet()


def abandon_at_fork(shared: Shared) -> None:
    """Make each child that is forked from now on call `left_to_parent`, while `shared` exists."""
    _SHARED.add(shared)


def is_ours(pid: int) -> bool:
    """Return whether `pid` is the id of this process; False in a forked child."""
    return os.getpid() == pid


def _abandon_all() -> None:
    for shared in list(_SHARED):
        shared.left_to_parent()


os.register_at_fork(after_in_child=_abandon_all)
