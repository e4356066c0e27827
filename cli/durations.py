"""Reads the durations that options give as text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from pydantic_core import PydanticCustomError

from cli.topology_file import Refused
from topology.spelling.problem import Fault
from topology.spelling.values import NS_PER, in_unit

plain: Final = partial(in_unit, unit_sizes=NS_PER, example="5min")


def duration_ns(option: str, text: str, read: Callable[[str], int] = plain) -> int:
    """Parse a duration with `read`, in ns; raise `Refused`, with the option, if that fails."""
    try:
        return read(text)
    except PydanticCustomError as error:
        faults: list[Fault] = (error.context or {})["faults"]
        raise Refused(f"{option}: {faults[0].message}; {faults[0].remedy}") from error
