"""The state of a buffer of REORDER: to plain values, and back with the events it held."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from topology.model.event import Event
from topology.model.saved import assign
from topology.reorder.sequence import UNSTARTED, Sequence
from topology.reorder.shared import extended
from topology.reorder.source import NumberedBuffer

FIELDS: Final = (
    "last_arrival_ns",
    "boundary_ns",
    "begun_ns",
    "until_ns",
    "blocked",
    "received",
    "released",
    "late",
    "duplicate",
    "dead",
)
_values: Final = attrgetter(*FIELDS)


def snapshot(buffer: NumberedBuffer) -> Any:
    list_held = bool(buffer.later) or bool(buffer.current.suspects)
    sequences = [buffer.current, *buffer.later]
    return [
        buffer.timeout.snapshot() if buffer.timeout is not None else None,
        buffer.retired.snapshot(list_held=False) if buffer.retired is not None else None,
        [s.snapshot(list_held or s.next == UNSTARTED) for s in sequences],
        *_values(buffer),
    ]


Page = tuple[int, int]
"""(epoch, page) of a ledger of lost numbers."""


def lost_pages(buffer: NumberedBuffer) -> dict[Page, Any]:
    """All pages of all its ledgers."""
    return {
        (sequence.epoch, page): ranges
        for sequence in _all(buffer)
        for page, ranges in sequence.lost.pages().items()
    }


def changed_pages(buffer: NumberedBuffer) -> dict[Page, Any]:
    """What changed in its ledgers since the last call; None: the page was removed."""
    changed: dict[Page, Any] = dict.fromkeys(buffer.dropped)
    buffer.dropped = ()
    for sequence in _all(buffer):
        for page, ranges in sequence.lost.changed_pages().items():
            changed[sequence.epoch, page] = ranges
    return changed


def written_pages(buffer: NumberedBuffer) -> list[Page]:
    """Those that must go when the buffer goes."""
    written = [page for sequence in _all(buffer) for page in sequence.written_pages()]
    return [*buffer.dropped, *written]


def _all(buffer: NumberedBuffer) -> list[Sequence]:
    over = [buffer.retired] if buffer.retired is not None else []
    return [*over, buffer.current, *buffer.later]


def restore(
    buffer: NumberedBuffer, state: Any, lost: dict[int, dict[int, Any]], held: dict[int, Event]
) -> None:
    """`lost`: pages of the ledgers, by epoch and page. `held`: this source's waiting
    events by offset, in log order.

    Which sequence an event waits in is listed where numbers are ambiguous; else it
    is the current one, in which each held number occurs once. What the numbers do not call
    held is not taken; held numbers whose event is absent from the log are missing again.
    """
    timeout, retired, sequences, *values = state
    assign(buffer, FIELDS, values)
    if timeout is not None:
        buffer.estimator().restore(timeout)
    if retired is not None:
        buffer.retired, _ = _restored(buffer, retired, held)
    restored = [_restored(buffer, each, held) for each in sequences]
    buffer.current, *later = [sequence for sequence, _ in restored]
    buffer.later = tuple(later)
    for sequence, listed in restored:
        if listed is None:
            waiting = [(event, event.seq) for event in held.values()]
        else:
            waiting = [(held[offset], number) for offset, number in listed if offset in held]
        found: dict[int, Event] = {}
        for event, number in waiting:
            _hold_again(buffer, sequence, event, number, found)
        sequence.settle(found, buffer.last_arrival_ns)
    for sequence in _all(buffer):
        sequence.lost.restore(lost.get(sequence.epoch, {}))


def _restored(
    buffer: NumberedBuffer, state: Any, held: dict[int, Event]
) -> tuple[Sequence, list[list[int]] | None]:
    """All but what waits in order, and what names that where numbers are ambiguous."""
    sequence = buffer.new_sequence(0, active=True)
    listed, suspects = sequence.restore(state)
    for offset, number, at_ns in suspects:
        if offset not in held:
            continue
        event = held[offset]
        event.epoch, event.seq, event.at_ns = sequence.epoch, number, at_ns
        sequence.suspects.append(event)
        buffer.count_held(event)
    return sequence, listed


def _hold_again(
    buffer: NumberedBuffer,
    sequence: Sequence,
    event: Event,
    number: int,
    found: dict[int, Event],
) -> None:
    modulus = buffer.shared.modulus
    if modulus:
        number = extended(number, modulus, sequence.next if sequence.next >= 0 else number)
    if number in found or not sequence.awaits(number):
        event.held_by = 0  # whoever noted it as held is mistaken: the numbers say otherwise
        return
    event.epoch, event.seq = sequence.epoch, number
    found[number] = event
    buffer.count_held(event)
