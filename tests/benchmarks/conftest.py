"""Small runs of benchmarks within the process of a test run."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def without_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the collections of garbage that a benchmark makes before each measurement.

    Here each would walk all objects of the test run for a second, and thaw what tests/conftest.py
    has frozen.
    """
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda *_: 0)
