"""Run the tests that reach a mutant's statement, the quickest first.

The tests run in a fork of the process that has collected them all.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests import ROOT
from tests.mutants.live import plant, watch
from tests.mutants.plant import Mutant

FIRST_S: Final = 60.0
"""The time of the tests in the first round, which each mutant meets before the others."""

MOST_S: Final = 7200
"""The limit of CPU seconds for the tests of a mutant; above it they are stuck."""

MOST_BYTES: Final = 12 << 30
CAUGHT: Final = 1
UNCAUGHT: Final = 0
BROKEN: Final = 2
"""The fault could not be planted, or the trial itself has failed."""

Tests = list[tuple[pytest.Item, float]]
"""The tests that reach a mutant, with their seconds."""


class Reach(NamedTuple):
    """A test's run without a fault: its seconds, whether it passes, and the mutants that it
    reaches.
    """

    test: str
    took_s: float
    passes: bool
    mutants: list[str]


class Trial:
    """A pytest plugin that collects as usual, and then tries mutants instead of tests."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        jobs: int,
        reach: Path,
        catches: Path,
        tell: Callable[[Mutant, bool, float], None],
    ) -> None:
        self._mutants, self._jobs, self._tell = mutants, jobs, tell
        self._reach, self._catches = reach, catches
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        gc.unfreeze()  # Let live.py find the functions.
        if not self._reach.exists():
            self._record(session.items)
        known = [Reach(*json.loads(line)) for line in self._reach.read_text().splitlines()]
        known.sort(key=lambda reach: reach.took_s)
        items = {item.nodeid: item for item in session.items}
        tests: dict[str, Tests] = {each.name: [] for each in self._mutants}
        for reach in known:
            if reach.passes and reach.test in items:
                for name in tests.keys() & reach.mutants:
                    tests[name].append((items[reach.test], reach.took_s))
        left = list(self._mutants)
        for is_last in False, True:
            left = self._round(left, tests, is_last)
        return True

    def _record(self, items: Sequence[pytest.Item]) -> None:
        """Run all tests once, with probes in place of faults; a stopped run leaves no record."""
        part = self._reach.with_suffix(".part")
        part.unlink(missing_ok=True)

        def run(mine: Sequence[pytest.Item]) -> int:
            reached = watch(ROOT, self._mutants)
            with part.open("a") as file:
                for item, passes, took_s in self._run(mine):
                    names = [self._mutants[number].name for number in sorted(reached)]
                    reached.clear()
                    file.write(json.dumps([item.nodeid, round(took_s, 3), passes, names]) + "\n")
                    file.flush()
            return 0

        shares = [items[number :: self._jobs] for number in range(self._jobs)]
        for _, code, _ in self._forked([partial(run, mine) for mine in shares]):
            if code != 0:
                raise RuntimeError(f"the tests did not run to their end ({code}); not all is known")
        part.replace(self._reach)

    def _round(
        self,
        mutants: Sequence[Mutant],
        tests: Mapping[str, Tests],
        is_last: bool,
    ) -> list[Mutant]:
        """Return the mutants that can still be caught, and report the others."""

        def run(mutant: Mutant) -> int:
            before_s = list(accumulate(took_s for _, took_s in tests[mutant.name]))
            chosen = [
                item
                for (item, _), each_s in zip(tests[mutant.name], before_s, strict=True)
                if (each_s > FIRST_S) is is_last
            ]
            if chosen and plant(ROOT, mutant) == 0:
                return BROKEN
            for item, passes, _ in self._run(chosen):
                if not passes:
                    with self._catches.open("a") as file:
                        file.write(json.dumps([mutant.name, item.nodeid]) + "\n")
                    return CAUGHT
            return UNCAUGHT

        left = []
        for number, code, took_s in self._forked([partial(run, mutant) for mutant in mutants]):
            mutant, caught = mutants[number], code != UNCAUGHT
            if code == BROKEN:
                raise RuntimeError(f"could not be tried: {mutant.name}")
            all_s = sum(each_s for _, each_s in tests[mutant.name])
            if caught or is_last or all_s <= FIRST_S:
                self._tell(mutant, caught, took_s)
            else:
                left.append(mutant)
        return left

    def _run(self, items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, bool, float]]:
        """Run tests, and yield each with its success and its seconds.

        Session fixtures stay until the process ends: closing librdkafka's broker in a fork, for
        example, never returns.
        """
        for item, following in zip_longest(items, items[1:]):
            item.config.pluginmanager.unregister(name="terminalreporter")
            self._failed = False
            began_s = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following or item.session)
            yield item, not self._failed, time.monotonic() - began_s

    def _forked(self, calls: Sequence[Callable[[], int]]) -> Iterator[tuple[int, int, float]]:
        """Yield (place, exit code, seconds) for each call, which runs in a separate process."""
        running: dict[int, tuple[int, float]] = {}
        left = list(enumerate(calls))[::-1]
        while left or running:
            while left and len(running) < self._jobs:
                place, call = left.pop()
                pid = os.fork()
                if pid == 0:
                    _child(call)
                running[pid] = place, time.monotonic()
            pid, status = os.wait()
            with suppress(ProcessLookupError):  # Fixtures can have started processes.
                os.killpg(pid, signal.SIGKILL)
            place, began_s = running.pop(pid)
            yield place, os.waitstatus_to_exitcode(status), time.monotonic() - began_s


def _child(call: Callable[[], int]) -> None:
    """Exit with the result of the call; a fault that kills the process counts as caught."""
    code = BROKEN
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_S, MOST_S))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        code = call()
    finally:
        os._exit(code)
