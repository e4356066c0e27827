"""Law: repeated work in one process leaves nothing in memory. Examples: planted leaks are found.

`make compiled` checks the compiled core, where a fault in the compiler can keep unreferenced
objects (python/mypy#21716: the attributes of exceptions, until 2.4).
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from typing import Any

import pytest

from tests import ROOT
from tests.kit.leaks import BLOCKS, BYTES, leaks
from tests.laws.leaking import WORK

pytestmark = pytest.mark.slow

EXACT = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""The C library counts its cache as memory in use, so it is switched off."""


def lines_of(*program: str) -> list[str]:
    """Return the output of a program, which runs in a separate process so that nothing else
    allocates.
    """
    run = subprocess.run(
        [sys.executable, *program], cwd=ROOT, env=EXACT, check=True, capture_output=True, text=True
    )
    return run.stdout.splitlines()


@pytest.mark.parametrize("work", WORK)
def test_work_leaks_nothing(work: str) -> None:
    assert lines_of("-m", "tests.laws.leaking", work) == []


class Saved(Exception):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


KEPT: list[Any] = []
NUMBERS = count(1 << 40)


def names(grown: list[str]) -> set[str]:
    return {line.partition(":")[0] for line in grown}


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        (lambda: Saved(next(NUMBERS)), {f"{__name__}.Saved", BLOCKS}),
        (lambda: next(NUMBERS), {BLOCKS}),  # The collector does not track numbers.
        (lambda: bytes(5_000), {BYTES}),  # This is too large for Python's allocator.
    ],
    ids=["exceptions", "numbers", "bytes"],
)
def test_planted_leak_is_found(plant: Any, named: set[str]) -> None:
    assert names(leaks(lambda: KEPT.append(plant()))) >= named
    KEPT.clear()
