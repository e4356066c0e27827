"""The state of a lane of REORDER: to plain values, and back with the events it held."""

from __future__ import annotations

from typing import Any

from topology.model.event import Event
from topology.reorder.sequence import UNSTARTED, Sequence
from topology.reorder.settings import extended
from topology.reorder.source import Lane


def snapshot(lane: Lane) -> Any:
    list_held = bool(lane.later) or bool(lane.current.suspects)
    sequences = [lane.current, *lane.later]
    return [
        lane.last_arrival_ns,
        lane.boundary_ns,
        *lane.pace_state(),
        lane.blocked,
        [lane.received, lane.released, lane.late, lane.duplicate, lane.dead],
        lane.timeout.snapshot() if lane.timeout is not None else None,
        lane.retired.snapshot(list_held=False) if lane.retired is not None else None,
        [s.snapshot(list_held or s.next == UNSTARTED) for s in sequences],
    ]


Page = tuple[int, int]
"""(epoch, page) of a ledger of lost numbers."""


def lost_pages(lane: Lane) -> dict[Page, Any]:
    """All pages of all its ledgers."""
    return {
        (sequence.epoch, page): ranges
        for sequence in _all(lane)
        for page, ranges in sequence.lost.pages().items()
    }


def changed_pages(lane: Lane) -> dict[Page, Any]:
    """What changed in its ledgers since the last call; None: the page is gone."""
    changed: dict[Page, Any] = dict.fromkeys(lane.dropped)
    lane.dropped.clear()
    for sequence in _all(lane):
        for page, ranges in sequence.lost.changed_pages().items():
            changed[sequence.epoch, page] = ranges
    return changed


def written_pages(lane: Lane) -> list[Page]:
    """Those that must go when the lane goes."""
    return lane.dropped + [page for sequence in _all(lane) for page in sequence.written_pages()]


def _all(lane: Lane) -> list[Sequence]:
    over = [lane.retired] if lane.retired is not None else []
    return [*over, lane.current, *lane.later]


def restore(
    lane: Lane, state: Any, lost: dict[int, dict[int, Any]], held: dict[int, Event]
) -> None:
    """`lost`: pages of the ledgers, by epoch and page. `held`: this source's waiting
    events by offset, in log order.

    Which sequence an event waits in is listed where numbers cannot tell; else it
    is the current one, in which each held number stands once. What the numbers do not call
    held is not taken; held numbers whose event is gone from the log are missing again.
    """
    (
        lane.last_arrival_ns,
        lane.boundary_ns,
        pace_seq,
        pace_ns,
        lane.blocked,
        counts,
        timeout,
        retired,
        sequences,
    ) = state
    lane.received, lane.released, lane.late, lane.duplicate, lane.dead = counts
    lane.restore_pace(pace_seq, pace_ns)
    if timeout is not None:
        lane.estimator().restore(timeout)
    if retired is not None:
        lane.retired = _restored(lane, retired, held)
    lane.current = _restored(lane, sequences[0], held)
    lane.later = [_restored(lane, later, held) for later in sequences[1:]]
    if sequences[0][10] is None:
        for event in held.values():
            _hold_again(lane, lane.current, event, event.seq)
    for sequence in _all(lane):
        sequence.lost.restore(lost.get(sequence.epoch, {}))
    for sequence in (lane.current, *lane.later):
        sequence.mend(lane.last_arrival_ns)


def _restored(lane: Lane, state: Any, held: dict[int, Event]) -> Sequence:
    sequence = lane.new_sequence(0, active=True)
    sequence.restore(state)
    for offset, number in state[10] or ():
        if offset in held:
            _hold_again(lane, sequence, held[offset], number)
    for offset, number, at_ns in state[11]:
        if offset not in held:
            continue
        event = held[offset]
        event.epoch, event.seq, event.at_ns = sequence.epoch, number, at_ns
        sequence.suspects.append(event)
        lane.count_held(event)
    return sequence


def _hold_again(lane: Lane, sequence: Sequence, event: Event, number: int) -> None:
    modulus = lane.shared.rules.modulus
    if modulus:
        number = extended(number, modulus, sequence.next if sequence.next >= 0 else number)
    if not sequence.awaits(number):
        event.held_by = 0  # whoever noted it as held is mistaken: the numbers say otherwise
        return
    event.epoch, event.seq = sequence.epoch, number
    sequence.held[number] = event
    lane.count_held(event)
