"""Benchmarks in small, within the process of a test run."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def without_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark collects garbage before each measurement. Here that would walk all objects of the
    test run, a second each time, and thaw what tests/conftest.py has frozen."""
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda *_: 0)
