"""MEND: adds late events to a detector's state without a replay.

A detector may have a function for this (`Detector.correct`). Its arguments are the newest state,
the late event, and the results after the event. It returns the state as if the event had arrived in
time, the results at the event, and the changed later results. A sum adds the event; a set of all
pairs adds the pairs of the event. If the function returns None or raises, there is a replay.

The results must be the same as those of a replay. One late event in 64 is processed in both ways.
If the results differ, the detector reads no further than the finality horizon from then on.

The function is called only if a replay would read more than `CORRECTION_STEPS` entries for each
late event. The savepoints after the event are dropped, because they do not contain it. So a later
replay begins further back. If an event was replaced or removed, there is a replay.

Cost: a call for each late event, and a look at each entry and each output after it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from topology.base.operator import NEVER
from topology.queries.detector.cursor import (
    CORRECTION_STEPS,
    LOOK_EVERY,
    Counts,
    DetectorOutput,
    cause_key,
    plain,
)
from topology.queries.detector.detector import Behaviour, Emitted, Stopped
from topology.queries.detector.item import ABSENT, Key, entry_key
from topology.queries.detector.key_log import KeyLog
from topology.queries.detector.values import are_same


def correct_dirty(log: KeyLog, behaviour: Behaviour, counts: Counts) -> None:
    """Process the dirty events with `correct` if possible; the others stay dirty for a replay."""
    dirty = sorted(log.dirty)
    first = bisect_left(log.entries, dirty[0], key=entry_key)
    if log.is_changed or log.read - first <= CORRECTION_STEPS * len(dirty):
        return
    looked_at = False
    for key in dirty:
        at = bisect_left(log.entries, key, key=entry_key)
        looked_at = looked_at or not log.entries[at].seen.seq % LOOK_EVERY
        if not _correct_event(log, at, behaviour):
            return
        counts.corrected += 1
    if looked_at:
        _compare(log, dirty[0], counts)
    else:
        log.dirty.clear()


def _compare(log: KeyLog, key: Key, counts: Counts) -> None:
    """Compare the corrected state and results with those of a replay, which then replace them."""
    state = log.live.state
    emitted = log.outs[bisect_left(log.outs, (key, -1), key=cause_key) :]
    log.replay()
    again = log.outs[bisect_left(log.outs, (key, -1), key=cause_key) :]
    if not are_same(state, log.live.state) or not _are_same(emitted, again):
        why = f"its `correct` gives another result than a replay, at {key}"
        counts.note("nondeterministic", why)


def _are_same(ones: list[DetectorOutput], others: list[DetectorOutput]) -> bool:
    return len(ones) == len(others) and all(
        one.id == other.id and one.cause == other.cause and one.has_same_content(other)
        for one, other in zip(ones, others, strict=True)
    )


def _correct_event(log: KeyLog, at: int, behaviour: Behaviour) -> bool:
    """Process the late event at index `at` with `correct`, and return whether that succeeded."""
    entry, live = log.entries[at], log.live
    if at + 1 >= log.read or log.base is None or isinstance(live.state, Stopped):
        return False
    seen = entry.seen
    begun = bisect_left(log.outs, (entry.key, -1), key=cause_key)
    behind = log.outs[begun:]
    given = [Emitted(each.end_ns, each.values, place) for place, each in enumerate(behind)]
    before_ns = log.entries[at - 1].high_ns if at else log.base.high_ns
    unsure = seen.unsure or seen.time_ns - seen.error_ns < before_ns
    high_ns = max(before_ns, seen.time_ns + seen.error_ns)
    emitted_now: list[DetectorOutput] = []
    try:
        said = behaviour.correct(live.state, seen, given)
        if said is None:
            return False
        state, found, kept = said
        live.emit(found, seen, entry.key, emitted_now, unsure=unsure)
        left = _apply_corrections(behind, given, list(kept), high_ns)
    except Exception:  # noqa: BLE001 - a user's code may raise anything; a replay decides
        return False
    if left is None:
        return False
    log.replace(entry.key, None, emitted_now + left)
    log.is_thin = True
    entry.after = ABSENT
    entry.high_ns = high_ns
    for other in log.entries[at + 1 : log.read]:
        other.after = ABSENT
        other.high_ns = max(other.high_ns, high_ns)
    live.state = state  # There are no timers, so this is the state as if the event had been read.
    live.high_ns = max(live.high_ns, high_ns)
    return True


def _apply_corrections(
    behind: list[DetectorOutput], given: list[Emitted], kept: list[Any], high_ns: int
) -> list[DetectorOutput] | None:
    """Return the outputs after the late event, as `correct` has changed them.

    Return None if `kept` does not fit the outputs. Return None, too, if one of several outputs of
    an item was removed, because that would change the ids of the others.
    """
    if len(kept) != len(given):
        return None
    causes = [each.cause for each in behind]
    left: list[DetectorOutput] = []
    for output, was, now in zip(behind, given, kept, strict=True):
        if now is None:
            if causes.count(output.cause) > 1:
                return None
            continue
        time_ns = output.cause[0]
        is_passed = time_ns < NEVER and time_ns - output.error_ns < high_ns
        unsure = output.unsure or is_passed
        if now is was and unsure == output.unsure:
            left.append(output)
        else:
            values: dict[str, Any] = plain(now.values)
            left.append(output._replace(values=values, unsure=unsure))
    return left
