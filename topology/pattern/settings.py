"""Defines the settings of a pattern query, beside its pattern."""

from __future__ import annotations

from typing import Annotated

from topology.answer.settings import AnswerSettings
from topology.clock.settings import ClockConfig
from topology.spelling.section import Unspelled


class PatternSettings(AnswerSettings):
    """The settings of a pattern query, beside its pattern. `clock` is the clock of its stream."""

    clock: Annotated[ClockConfig, Unspelled()] = ClockConfig.by_default()
    """How the clocks of its stream are trusted."""
