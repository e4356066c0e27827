"""Workers that are ended, whatever becomes of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.worker import Worker, running


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Worker]]:
    """To be ended, whatever becomes of the test."""
    started: list[Worker] = []
    with running(may_start=started):
        yield started
        for worker in started:
            worker.close()
