"""Law: the same work, done again and again in one process, leaves nothing behind. `make compiled`
shows it of the compiled core, where a fault of the compiler may keep what nobody refers to any
more (python/mypy#21716: the attributes of exceptions, until 2.4). Examples: leaks that are
planted."""

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
"""The C library counts what it keeps for the next call as in use: let it keep nothing."""


def lines_of(*program: str) -> list[str]:
    """What it prints. In a process of its own, in which nothing else is made."""
    run = subprocess.run(
        [sys.executable, *program], cwd=ROOT, env=EXACT, check=True, capture_output=True, text=True
    )
    return run.stdout.splitlines()


@pytest.mark.parametrize("work", WORK)
def test_nothing_grows(work: str) -> None:
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
        (lambda: next(NUMBERS), {BLOCKS}),  # the collector does not know numbers
        (lambda: bytes(5_000), {BYTES}),  # nor does Python's allocator have this one
    ],
    ids=["exceptions", "numbers", "bytes"],
)
def test_a_leak_is_found_and_named(plant: Any, named: set[str]) -> None:
    assert names(leaks(lambda: KEPT.append(plant()))) >= named
    KEPT.clear()
