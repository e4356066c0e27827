"""Writes the seconds of each test of a run to the file that INORDER_SECONDS names."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests import ROOT
from tests.tiers.choice import SERVICES, Measured

VARIABLE: Final = "INORDER_SECONDS"
MARKS: Final = "marks"


class Marker:
    """A pytest plugin for the processes that run tests: a report gets the marks of its test."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.user_properties.append((MARKS, sorted({mark.name for mark in item.iter_markers()})))
        return report


class Recorder:
    """A pytest plugin for the process that reports. It leaves out skipped tests."""

    def __init__(self, into: Path) -> None:
        self._into = into
        self._seconds: dict[str, float] = {}
        self._marks: dict[str, list[str]] = {}
        self._skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid
        self._seconds[test] = self._seconds.get(test, 0.0) + report.duration
        found = dict(report.user_properties).get(MARKS)
        self._marks[test] = sorted(SERVICES.intersection(found if isinstance(found, list) else ()))
        if report.skipped:
            self._skipped.add(test)

    def pytest_sessionfinish(self) -> None:
        ran = self._seconds.keys() - self._skipped
        rows = ([test, self._seconds[test], self._marks[test]] for test in sorted(ran))
        self._into.parent.mkdir(parents=True, exist_ok=True)
        self._into.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def register(config: pytest.Config) -> None:
    """Register what a measured run needs in this process."""
    if into := os.environ.get(VARIABLE):
        config.pluginmanager.register(Marker())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Recorder(ROOT / into))


def read(path: Path) -> Iterator[Measured]:
    """Yield the tests of a run that has been recorded."""
    for line in path.read_text(encoding="utf-8").splitlines():
        test, seconds, marks = json.loads(line)
        yield Measured(test, seconds, frozenset(marks))
