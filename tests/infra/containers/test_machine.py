"""End to end: an engine leaves no machine setting changed.

The session's engine is stopped here, so this module runs last (tests/infra/containers/conftest.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.containers import programs
from infra.containers.engine import Engine

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]


def test_machine_settings_are_restored(engine: Engine) -> None:
    engine.docker("network", "create", "own")
    during = engine.read_machine()
    assert len(during.bridges - engine.before.bridges) == 2, "its own, and that of the network"
    assert during.forwarding == during.forwarding | engine.before.forwarding
    engine.stop()
    assert str(programs.folder()) not in Path("/proc/self/mounts").read_text()
    assert engine.read_machine() == engine.before
