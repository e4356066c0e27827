"""Numbers that jump: one corrupt number must not turn all that follows into late events.

A number more than `max_jump` above the highest is kept aside. A second one within
`max_jump` of it confirms it (one gap, reason `jump`), if it comes within `max_wait`; else
the first is dead, reason `seq_jump`, and takes no place (reorder_drift_merge.md 1.5).
"""

from __future__ import annotations

from typing import Final, Protocol

from topology.model.event import DATA, DEAD, Event
from topology.model.outcome import JUMP, Step, dead_letter
from topology.reorder.sequence import Hole, Sequence
from topology.reorder.shared import Shared

MAX_SUSPECTS: Final = 16
"""Numbers kept aside per source and epoch; at the bound the oldest is given up."""


class Placing(Protocol):
    """The source whose numbers jump, as far as it is needed here."""

    shared: Shared
    dead: int

    def place(self, sequence: Sequence, event: Event, step: Step) -> None: ...
    def accept(self, sequence: Sequence, event: Event, step: Step) -> None: ...
    def duplicated(self, event: Event, step: Step, other: Event | None) -> None: ...
    def count_held(self, event: Event) -> None: ...
    def count_unheld(self, event: Event) -> None: ...


def suspect(source: Placing, sequence: Sequence, event: Event, step: Step) -> None:
    """Keep the event aside, or take it as the confirmation of another."""
    max_jump = source.shared.settings.max_jump
    for other in sequence.suspects:
        if other.seq == event.seq:
            source.duplicated(event, step, other)
            return
        near = abs(other.seq - event.seq) <= max_jump
        if near and event.kind != DEAD and other.kind != DEAD:  # two corrupt ones prove nothing
            _confirm(source, sequence, other, event, step)
            return
    if len(sequence.suspects) >= MAX_SUSPECTS:
        give_up_suspect(source, sequence, event.at_ns, step)
    sequence.suspects.append(event)
    source.count_held(event)


def _confirm(source: Placing, sequence: Sequence, first: Event, second: Event, step: Step) -> None:
    now_ns = second.at_ns
    sequence.suspects.remove(first)
    source.count_unheld(first)
    low = min(first.seq, second.seq)
    sequence.holes.append(Hole(sequence.hi + 1, low - 1, now_ns, now_ns, JUMP, []))
    sequence.hi = low - 1
    for event in (first, second) if first.seq == low else (second, first):
        event.at_ns = now_ns
        source.accept(sequence, event, step)
    max_jump = source.shared.settings.max_jump
    for event in [e for e in sequence.suspects if e.seq - sequence.hi <= max_jump]:
        sequence.suspects.remove(event)
        source.count_unheld(event)
        event.at_ns = now_ns
        source.place(sequence, event, step)


def give_up_suspect(source: Placing, sequence: Sequence, now_ns: int, step: Step) -> None:
    """The oldest one; the sequence may have come near it meanwhile."""
    event = sequence.suspects.pop(0)
    source.count_unheld(event)
    if event.seq - sequence.hi <= source.shared.settings.max_jump:
        event.at_ns = now_ns
        source.place(sequence, event, step)
    elif event.kind != DEAD:
        source.dead += event.kind == DATA
        detail = (
            f"number {event.seq} is more than max_jump above {sequence.hi} and no second one"
            " confirmed it; raise reorder.max_jump if the source really skips so far"
        )
        step.reports.append(dead_letter(event, now_ns, "seq_jump", detail))


def set_jumps_aside(source: Placing, sequence: Sequence, now_ns: int, step: Step) -> None:
    """A start hold takes any number; what jumps is questioned when it ends."""
    max_jump = source.shared.settings.max_jump
    wide = [hole for hole in sequence.holes if hole.last - hole.first + 1 >= max_jump]
    if not wide:
        return
    beyond = sequence.take_from(wide[0])
    for event in beyond:
        source.count_unheld(event)
    for event in beyond:
        event.at_ns = now_ns
        source.place(sequence, event, step)
