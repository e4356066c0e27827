"""Count memory that grows in a process while the same work is repeated.

Three counts are taken after each round: objects of each type that the collector knows, blocks of
Python's allocator, and bytes of the C library. A compiled class can hide its contents from the
collector, so the first count alone is not enough.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

WARM_UP: Final = 3
"""Runs of the work that fill tables and caches."""

ROUNDS: Final = 4
RUNS: Final = 2
"""Runs of the work in a round. A leak grows in each round, by at least one object a run."""

BLOCKS: Final = "blocks of Python's allocator"
BYTES: Final = "bytes of the C library"
OF_ONE: Final = {BLOCKS: 1, BYTES: 16}
"""The least growth that one object causes."""

MALLINFO: Final = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class Mallinfo(ctypes.Structure):
    """An answer of glibc's `mallinfo2`: the bytes in use are `uordblks` and `hblkhd`."""

    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO]


_mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
if _mallinfo is not None:
    _mallinfo.restype = Mallinfo


def leaks(work: Callable[[], object]) -> list[str]:
    """Return the name of each count that grows with `work`, and its growth per run."""
    for _ in range(WARM_UP):
        work()
    # The counts run one after the other, because counting objects itself needs blocks and bytes.
    return [*_growing(work, _allocated), *_growing(work, _by_type)]


def _growing(work: Callable[[], object], census: Callable[[], Mapping[str, int]]) -> list[str]:
    first = before = census()
    growing: set[str] | None = None
    for _ in range(ROUNDS):
        for _ in range(RUNS):
            work()
        now = census()
        more = {n for n in now if now[n] - before.get(n, 0) >= RUNS * OF_ONE.get(n, 1)}
        growing = more if growing is None else growing & more
        before = now
    runs = ROUNDS * RUNS
    grown = sorted(growing or ())
    return [f"{n}: {(before[n] - first.get(n, 0)) / runs:+.1f} a run" for n in grown]


def _forget_names() -> None:
    """Clear the interpreter's cache of attribute names.

    Names that are made at run time fill that table for a while.
    """
    clear = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
    clear()


def _allocated() -> dict[str, int]:
    _forget_names()
    gc.collect()
    told = _mallinfo() if _mallinfo is not None else Mallinfo()
    return {BLOCKS: sys.getallocatedblocks(), BYTES: told.uordblks + told.hblkhd}


def _by_type() -> Counter[str]:
    gc.collect()
    kinds = Counter(map(type, gc.get_objects()))
    named: Counter[str] = Counter()
    for kind, count in kinds.items():
        named[f"{kind.__module__}.{kind.__qualname__}"] += count
    return named
