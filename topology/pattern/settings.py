"""Defines the settings of a pattern query, except the pattern itself."""

from __future__ import annotations

from typing import Annotated

from topology.answer.settings import AnswerSettings
from topology.clock.settings import ClockConfig
from topology.spelling.section import Unspelled


class PatternSettings(AnswerSettings):
    """The settings of a pattern query, except its pattern."""

    clock: Annotated[ClockConfig, Unspelled()] = ClockConfig.by_default()
    """How the clocks of its stream are trusted."""
