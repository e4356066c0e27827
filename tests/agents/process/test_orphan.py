"""Example: a stage whose supervisor has ended logs it once, however often it looks while it
stops."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from unittest.mock import MagicMock

import pytest

from agents.process.stage_process import StageProcess


def test_that_the_supervisor_is_gone_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    stage: Any = MagicMock(_stop=asyncio.Event())
    stage.settings.parent = -1  # nobody's
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            StageProcess._look_after(stage)
    assert caplog.messages == ["the supervisor has ended"]
    assert stage._stop.is_set()
