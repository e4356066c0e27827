"""Sinks in tests do not wait between their attempts."""

from __future__ import annotations

import pytest

from sinks import attempts


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "BACKOFF_S", 0.001)
