"""Print the progress of the tests, for a log as for a terminal.

In a terminal pytest's own display does so. In a CI log its lines of dots are uninformative and
late. There, at most one line every ten seconds reports how many tests are done, and which have been
running longest. A failure is named at once. A run of minutes ends with a list of where the time
went, in a terminal too.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import pytest

INTERVAL_S: Final = 10.0
NAMED_RUNNING: Final = 2
NAMED_SLOWEST: Final = 10
TOLD_FROM_S: Final = 60.0
"""Shorter runs get no list of times."""


class Progress:
    """A pytest plugin for the process that reports (not for xdist's workers)."""

    def __init__(self, config: pytest.Config, total: int = 0) -> None:
        self._config = config
        self._total = total
        self._done = 0
        self._failed = 0
        self._started_s = time.monotonic()
        self._told_s = self._started_s
        self._running: dict[str, float] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total = self._total or len(session.items)

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._total = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        if hasattr(report, "wasxfail"):
            return None  # This is a known fault, for which pytest's own message is right.
        if report.failed:
            return ("failed" if report.when == "call" else "error"), "", "FAILED"
        if report.skipped:
            return "skipped", "", "SKIPPED"
        return ("passed" if report.when == "call" else ""), "", ""  # It prints no dot.

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed += 1
            self._say(f"FAILED {report.nodeid} ({report.when})")
        if report.when == "teardown":
            self._running.pop(report.nodeid, None)
            self._done += 1
        if time.monotonic() - self._told_s >= INTERVAL_S or self._done == self._total:
            self._told_s = time.monotonic()
            self._say(self.line())

    def line(self) -> str:
        """Return the current state in one line."""
        part = 100 * self._done // self._total if self._total else 0
        now_s = time.monotonic()
        longest = sorted(self._running.items(), key=lambda one: one[1])[:NAMED_RUNNING]
        running = ", ".join(f"{nodeid} {now_s - start_s:.0f} s" for nodeid, start_s in longest)
        return (
            f"[{part:3d}%] {self._done} of {self._total} tests in {now_s - self._started_s:.0f} s,"
            f" {self._failed} failed" + (f"; running {running}" if running else "")
        )

    def _say(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)


def wanted(config: pytest.Config) -> bool:
    """Return whether to print lines: not in an xdist worker or a terminal, or with --verbose."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return False
    return not reporter.isatty and config.get_verbosity() == 0


def where_it_went(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return the seconds of all tests by top folder, and the slowest tests; nothing for a short
    run.

    Set-up and teardown count too; the first test that needs a shared fixture pays for it.
    """
    by_test: defaultdict[str, float] = defaultdict(float)
    by_room: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        by_test[report.nodeid] += report.duration
        path = report.nodeid.partition("::")[0].removeprefix("tests/")
        by_room[path.partition("/")[0]] += report.duration
    whole_s = sum(by_room.values())
    if whole_s < TOLD_FROM_S:
        return []
    rooms = ", ".join(f"{room} {spent_s:.0f}" for room, spent_s in _largest_first(by_room))
    slowest = _largest_first(by_test)[:NAMED_SLOWEST]
    return [
        f"seconds of tests: {whole_s:.0f} in all; {rooms}",
        *(f"{spent_s:6.1f} s {nodeid}" for nodeid, spent_s in slowest),
    ]


def _largest_first(spent_s: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(spent_s.items(), key=lambda each: -each[1])
