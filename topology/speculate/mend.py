"""MEND: a late event taken into what has been read, without reading it again.

A detector may say how (`Detector.correct`): given the state behind all that was read, the late
event, and what was told behind it, it gives the state as if the event had come in its place, what
is told at the event, and what is told behind it now. A sum adds; a set of all pairs adds those of
the event. What it cannot say so (None) is read again, as ever.

The law is that nobody can tell: the same as by a replay (law 10 of the source). One late event in
64 is taken in both ways, and a detector that differs is no longer read ahead of what is final.

It is done where it is cheaper: where more is to be read again than `STEPS` for each late event.
What was kept behind the event to go back to is let go, as it does not hold the event; so a replay
that follows begins further back. Events that were replaced, or taken back, are always read again.

Cost: a call for each late event, and a look at each entry behind it and each telling.

Proved by: tests/topology/speculate/test_mend.py
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from topology.model.operator import NEVER
from topology.speculate.cursor import LOOK_EVERY, Counts, ToldOutput, by_cause, plain
from topology.speculate.detector import Behaviour, Stopped, Told
from topology.speculate.item import ABSENT, Key, entry_key
from topology.speculate.lane import Lane
from topology.speculate.values import same

STEPS: Final = 4
"""What a correction is reckoned to cost, in steps."""


def gone_back(counts: Counts) -> int:
    """What going back has taken, in steps."""
    return counts.replayed + STEPS * counts.corrected


def mend(lane: Lane, behaviour: Behaviour, counts: Counts) -> dict[str, None]:
    """Take in what is dirty, if that can be done; ids of which something may have changed. What
    stays dirty is to be read again."""
    touched: dict[str, None] = {}
    dirty = sorted(lane.dirty)
    first = bisect_left(lane.entries, dirty[0], key=entry_key)
    if lane.is_changed or lane.read - first <= STEPS * len(dirty):
        return touched
    looked_at = False
    for key in dirty:
        at = bisect_left(lane.entries, key, key=entry_key)
        looked_at = looked_at or not lane.entries[at].seen.seq % LOOK_EVERY
        if not _take_in(lane, at, behaviour, touched):
            counts.uncorrected += 1
            return touched
        counts.corrected += 1
    if looked_at:
        _compare(lane, dirty[0], counts, touched)
    else:
        lane.dirty.clear()
    return touched


def _compare(lane: Lane, key: Key, counts: Counts, touched: dict[str, None]) -> None:
    """With a replay, which is right."""
    state = lane.live.state
    told = lane.outs[bisect_left(lane.outs, (key, -1), key=by_cause) :]
    lane.replay(touched)
    again = lane.outs[bisect_left(lane.outs, (key, -1), key=by_cause) :]
    if not same(state, lane.live.state) or not _are_same(told, again):
        counts.unlike += 1
        counts.why = f"its `correct` gives another thing than a replay, at {key}"


def _are_same(ones: list[ToldOutput], others: list[ToldOutput]) -> bool:
    return len(ones) == len(others) and all(
        one.id == other.id and one.cause == other.cause and one.tells(other)
        for one, other in zip(ones, others, strict=True)
    )


def _take_in(lane: Lane, at: int, behaviour: Behaviour, touched: dict[str, None]) -> bool:
    """The entry there, which has not been read."""
    entry, live = lane.entries[at], lane.live
    if at + 1 >= lane.read or lane.base.state is ABSENT or isinstance(live.state, Stopped):
        return False
    seen = entry.seen
    begun = bisect_left(lane.outs, (entry.key, -1), key=by_cause)
    behind = lane.outs[begun:]
    given = [Told(each.end_ns, each.values, place) for place, each in enumerate(behind)]
    before_ns = lane.entries[at - 1].high_ns if at else lane.base.high_ns
    unsure = seen.unsure or seen.time_ns < before_ns
    unsure = unsure or (seen.error_ns > 0 and seen.time_ns - seen.error_ns < before_ns)
    high_ns = max(before_ns, seen.time_ns + seen.error_ns)
    try:
        said = behaviour.correct(live.state, seen, given)
        if said is None:
            return False
        state, found, kept = said
        told_now = live.tell(found, seen, entry.key, unsure=unsure)
        left = _left(behind, given, list(kept), high_ns)
    except Exception:  # noqa: BLE001 - a user's code may raise anything; a replay tells
        return False
    if left is None:
        return False
    lane.replace(entry.key, None, told_now + left, touched)
    lane.is_thin = True
    entry.after = ABSENT
    entry.high_ns = high_ns
    for other in lane.entries[at + 1 : lane.read]:
        other.after = ABSENT
        other.high_ns = max(other.high_ns, high_ns)
    live.mend(state, high_ns)
    return True


def _left(
    behind: list[ToldOutput], given: list[Told], kept: list[Any], high_ns: int
) -> list[ToldOutput] | None:
    """What is told behind the event. None where one of several of an item has gone: the others
    would have other ids."""
    if len(kept) != len(given):
        return None
    causes = [each.cause for each in behind]
    left: list[ToldOutput] = []
    for output, was, now in zip(behind, given, kept, strict=True):
        if now is None:
            if causes.count(output.cause) > 1:
                return None
            continue
        unsure = output.unsure or _is_unsure(output, high_ns)
        if now is was and unsure == output.unsure:
            left.append(output)
        else:
            values: dict[str, Any] = plain(now.values)
            left.append(output.changed(values, unsure=unsure))
    return left


def _is_unsure(output: ToldOutput, high_ns: int) -> bool:
    time_ns = output.cause[0]
    if time_ns >= NEVER:
        return False
    return time_ns < high_ns or (output.error_ns > 0 and time_ns - output.error_ns < high_ns)
