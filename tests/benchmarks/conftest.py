"""Fixtures for small runs of benchmarks in the tests' own process."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def without_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the garbage collections that a benchmark makes before each measurement.

    In a test run, each would walk all objects for a second, and thaw what tests/conftest.py has
    frozen.
    """
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda *_: 0)
