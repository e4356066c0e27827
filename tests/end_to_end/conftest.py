"""Fixtures for workers that are always stopped, whatever happens to a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.numbered import NUMBERED, Begun
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.worker import Worker, running, worker_on
from tests.services import SharedKafka


@pytest.fixture
def settles(kafka: SharedKafka, tmp_path: Path) -> Settles:
    """Return a maker of new applications in the folder of the test."""
    return Settles(kafka.bootstrap, tmp_path)


@pytest.fixture
def begun(settles: Settles) -> Iterator[Begun]:
    """Yield a function that makes a new application and starts its worker, which is ready."""
    started: list[Worker] = []

    def begin(**more: Any) -> tuple[Setting, Worker]:
        setting = settles.fused(**{"stream": NUMBERED, **more})
        worker = worker_on(setting)
        started.append(worker)
        worker.begin()
        return setting, worker

    try:
        yield begin
    finally:
        with running(may_start=started):
            pass


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Return a function that prints a line at once, although output is captured, for tests that
    take minutes.
    """

    def said(line: str) -> None:
        with capfd.disabled():
            print(f"\n{line}", flush=True)

    return said
