"""What a pattern query is asked for, beside its pattern."""

from __future__ import annotations

from typing import Annotated

from topology.answer.settings import AnswerSettings
from topology.clock.settings import ClockConfig
from topology.spelling.section import Unspelled


class PatternSettings(AnswerSettings):
    """What a pattern query is asked for, beside its pattern. `clock` is that of its stream."""

    clock: Annotated[ClockConfig, Unspelled()] = ClockConfig.by_default()
    """How the clocks of its stream are trusted."""
