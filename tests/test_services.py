"""Example: a missing trace fails in CI, unless CI declares that it has none."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

from benchmarks.traces import TraceAbsent
from tests.services import without_trace


def test_missing_trace_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = TraceAbsent(Path("nowhere"))
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("INORDER_DATA", raising=False)
    with pytest.raises(Failed, match="no trace at nowhere"):
        without_trace(missing)
    monkeypatch.setenv("INORDER_DATA", "none")
    with pytest.raises(Skipped, match="no trace at nowhere"):
        without_trace(missing)
