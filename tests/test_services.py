"""Examples: an absent service is a failure in CI and a skip with its reason elsewhere."""

from __future__ import annotations

import pytest
from _pytest.outcomes import Failed, Skipped

from tests.services import require


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
