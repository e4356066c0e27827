"""What an event bears and where a dead letter stands, as values that can be compared."""

from __future__ import annotations

from typing import Any, Final

from topology.model.event import NO_EPOCH, Event
from topology.model.outcome import Malformed

FIELDS: Final = tuple(name for name in dir(Event) if name[0] != "_")


def fields(event: Any, *but: str) -> dict[str, Any]:
    """Return all fields of an event but those named."""
    assert isinstance(event, Event), event
    return {name: getattr(event, name) for name in FIELDS if name not in but}


def place_of(dead: Malformed) -> tuple[Any, ...]:
    return dead.stream, dead.source, dead.epoch, dead.seq


def place(source: str, seq: int, lost: str = "") -> tuple[Any, ...]:
    """Return stream, source, epoch and seq of a dead letter, with None for what is lost."""
    known = {"stream": "default", "source": source, "epoch": NO_EPOCH, "seq": seq}
    return tuple(None if name in lost.split() else value for name, value in known.items())
