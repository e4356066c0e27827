"""End to end: the whole demo has every event in its place, nothing late, and a balanced account."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from cli.program import PROGRAM

TIMEOUT_S = 400.0


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_S)
def test_demo_marks_nothing_late() -> None:
    done = subprocess.run(
        [*PROGRAM, "demo", "--json"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stderr.split())
    assert re.search(r"order: 0 violations in 12,767 events of events.ordered; 0 marked late", said)
    assert "balance: holds" in said
    verdict = json.loads(done.stdout)
    assert verdict["balanced"]
    assert all(row["injected"] == row["found"] for row in verdict["rows"].values())
