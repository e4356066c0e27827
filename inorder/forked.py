"""What a forked child must not share with its parent.

A child has the memory of its parent and its open files, and none of its threads. What
must not be used there knows it by the id of its process (`is_ours`); what the child should
release as soon as it lives is registered (`left_at_fork`): a lock that the child would
keep beyond its parent's death, a client whose end needs threads that the child has not.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Shared(Protocol):
    """Something that a child gets a copy of and must not use."""

    def left_to_parent(self) -> None:
        """Called in the child, before anything else of it runs: release what is held. Must not
        raise."""


_SHARED: Final[WeakSet[Shared]] = WeakSet()


def left_at_fork(shared: Shared) -> None:
    """Have `left_to_parent` called in each child forked from now on, while `shared` lives."""
    _SHARED.add(shared)


def is_ours(pid: int) -> bool:
    """Whether `pid`, noted when something was made, is this process and not its parent."""
    return os.getpid() == pid


def _in_child() -> None:
    for shared in list(_SHARED):
        shared.left_to_parent()


os.register_at_fork(after_in_child=_in_child)
