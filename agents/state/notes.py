"""Defines the notes about buffered events, and the whole records, that a state has.

A note has the places of an event and all facts that its record lacks (`agents.state.held`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from agents.state.held import STAMPED_FROM
from topology.base.event import Event


class Note(msgspec.Struct, array_like=True, omit_defaults=True):
    """The places of a buffered event (`stage.ledger`), and all facts that its record lacks.

    `late` is the reason why the event is late, or "" if it is not late; it overrides what the
    record says. The fields from `epoch` on are written only if it `is_stamped`; otherwise they have
    their defaults.
    """

    offset: int
    places: int
    arrival_ns: int = 0
    at_ns: int = 0
    late: str = ""
    epoch: int = -1
    seq: int = 0
    ref_time_ns: int = 0
    error_ns: int = 0
    segment: int = 0


class Spilled(msgspec.Struct, array_like=True):
    """A whole input record that is stored in the state."""

    offset: int
    timestamp: int
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


NOTED: Final = Note.__struct_fields__[2:]
NOTED_PLAINLY: Final = Note.__struct_fields__[2:5]


def is_stamped(note: Note) -> bool:
    """Return whether the event already has the results of REORDER and CLOCK.

    Events at places from `STAMPED_FROM` on have these results. So do events of a history
    (`agents.restore.history`), whose negative offset is not in the log.
    """
    return note.places >= STAMPED_FROM or note.offset < 0


def apply_note(event: Event, note: Note) -> None:
    """Restore the earlier results of an event that was read again."""
    for name in NOTED if is_stamped(note) else NOTED_PLAINLY:
        setattr(event, name, getattr(note, name))
