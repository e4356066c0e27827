"""Examples: the benchmark of the sync server in a form of seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import sync
from benchmarks.__main__ import bench


@pytest.mark.slow
def test_it_counts_every_exchange_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "figures.md"
    bench(sync.command, "--exchanges", "600", "--markdown", str(file))
    rows = file.read_text()
    for row in (
        "| REQ, RSP |",
        "| REQ, RSP, REPORT, ACK |",
        "| the same, samples published |",
        "| a packet beyond the rate |",
        "| REQ, RSP, REPORT, ACK without a socket |",
    ):
        assert row in rows
