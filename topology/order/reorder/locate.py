"""Locates an event of a numbered source in REORDER (topology.base.location).

Cost: O(log gaps + log ranges of the ledger + epochs and suspects of the source).
"""

from __future__ import annotations

from typing import Any

from topology.base.event import NO_EPOCH, Event
from topology.base.location import (
    AWAITED,
    BEFORE_START,
    FORGOTTEN,
    HELD,
    LOST,
    NOT_COME,
    OLD_EPOCH,
    PASSED,
)
from topology.base.ranges import find_range
from topology.order.reorder.sequence import UNSTARTED, OpenGap, Sequence
from topology.order.reorder.source import NumberedBuffer


def locate(buffer: NumberedBuffer, epoch: int, number: int) -> dict[str, Any]:
    """Return the location of an event; the epoch `NO_EPOCH` means the current one."""
    current = buffer.current
    wanted = current.epoch if epoch == NO_EPOCH else epoch
    until_ns = buffer.trial[0].at_ns + buffer.shared.max_wait_ns if buffer.trial else 0
    for event in buffer.trial:
        if event.seq == number and epoch in {NO_EPOCH, buffer.find_newest_epoch()}:
            answer = {**_locate_held(event), "reason": "restart", "until": until_ns}
            return {**answer, "epoch": wanted, "epoch_in_force": current.epoch}
    for sequence in buffer.list_sequences():
        if sequence.epoch == wanted:
            answer = _locate_in(sequence, number, buffer.shared.max_wait_ns)
            if answer["where"] == HELD and not sequence.active:
                # The event is buffered until the epochs before it are over.
                answer["reason"] = "epoch"
            elif sequence is buffer.retired and answer["where"] == NOT_COME:
                answer["where"] = OLD_EPOCH
            return {**answer, "epoch": wanted, "epoch_in_force": current.epoch}
    where = OLD_EPOCH if wanted < buffer.find_newest_epoch() else NOT_COME
    return {"where": where, "epoch": wanted, "epoch_in_force": current.epoch}


def _locate_in(sequence: Sequence, number: int, max_wait_ns: int) -> dict[str, Any]:
    answer: dict[str, Any] = {"next": sequence.next, "highest": sequence.hi}
    for event in sequence.suspects:
        if event.seq == number:
            until_ns = event.at_ns + max_wait_ns
            return {**answer, **_locate_held(event), "reason": "jump", "until": until_ns}
    waits = sequence.find_buffered(number)
    if waits is not None:
        return {**answer, **_locate_held(waits), **_explain_wait(sequence)}
    at = find_range(sequence.gaps, number)
    if at >= 0:
        return {**answer, "where": AWAITED, **_describe_gap(sequence.gaps[at])}
    if number > sequence.hi:
        return {**answer, "where": NOT_COME}
    lost = sequence.find_lost(number)
    if lost is not None:
        since = {"since": lost.known_at_ns, "given_up": lost.lost_at_ns}
        return {**answer, "where": LOST, "missing": [lost.first, lost.last], **since}
    if number < sequence.start:
        return {**answer, "where": BEFORE_START, "start": sequence.start}
    if number < sequence.floor:
        return {**answer, "where": FORGOTTEN, "floor": sequence.floor}
    return {**answer, "where": PASSED}


def _locate_held(event: Event) -> dict[str, Any]:
    return {"where": HELD, "arrival": event.arrival_ns, "since": event.at_ns, "ts": event.ts_ns}


def _explain_wait(sequence: Sequence) -> dict[str, Any]:
    """Return why events are buffered: the start, an earlier epoch, or the first gap."""
    if sequence.next == UNSTARTED:
        return {"reason": "start", "until": sequence.start_deadline_ns}
    if not sequence.gaps:
        return {"reason": "epoch", "until": None}
    return {"reason": "hole", **_describe_gap(sequence.gaps[0])}


def _describe_gap(gap: OpenGap) -> dict[str, Any]:
    return {
        "missing": [gap.first, gap.last],
        "missing_since": gap.known_at_ns,
        "until": gap.deadline_ns,
    }
