"""Examples: an absent service is a failure in CI and a skip with its reason elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

from benchmarks.traces import TraceAbsent
from tests.services import require, without_trace


def test_in_ci_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(Failed, match="redis-server not found"):
        require("redis-server not found")


def test_elsewhere_it_skips_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(Skipped, match="redis-server not found"):
        require("redis-server not found")


def test_nothing_missing_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    require(None)


def test_without_traces_ci_fails_unless_it_says_that_it_has_none(
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
