"""Check a detector by itself, for your own tests (also exported by `inorder.testing`).

Each event is processed twice from the same state, and each state is copied, compared, written and
read back.

    from inorder.testing import check_detector

    report = check_detector(Detector(step, initial), events)
    assert report.state_bytes < 200

It needs the distribution `inorder-engine`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple

from inorder.engine import RawEvent
from inorder.given import check_iterable
from topology.base.result import ResultIds
from topology.queries.detector.cursor import Counts, Cursor, DetectorOutput
from topology.queries.detector.detector import (
    MAX_SIZE,
    Behaviour,
    Stopped,
    behaviour_of,
    results_of,
)
from topology.queries.detector.item import FIRST, LAST, LogEntry, Seen
from topology.queries.detector.key_log import KeyLog
from topology.queries.detector.mend import correct_dirty
from topology.queries.detector.values import NotAValue, are_same, size_of

SNAPSHOTS: Final = 1_000
MAX_PROBLEMS: Final = 5
LATE_ONES: Final = 50
"""The approximate number of events that are treated as late, one at a time, to test `correct`."""


class BadDetector(AssertionError):
    """The detector is wrong; the message says how, and at which event."""


@dataclass(frozen=True, slots=True)
class DetectorReport:
    """Figures on a detector that passed the check.

    Attributes:
        items: The number of events and timers that were processed.
        results: The number of results that were emitted.
        state_values: The number of values in the largest state.
        state_bytes: The stored size of that state, in bytes.
        snapshot_us: The time that copying that state takes on this machine, in µs.
    """

    items: int
    results: int
    state_values: int
    state_bytes: int
    snapshot_us: float


def check_detector(detector: Any, events: Iterable[RawEvent]) -> DetectorReport:
    """Check a detector by itself, with events of one key in order.

    The detector must give the same results for the same input, change none of its arguments, and
    never raise. It must be possible to copy its states, compare them, write them and read them
    back.

    Args:
        detector: The detector.
        events: The events.

    Returns:
        Figures on the detector.

    Raises:
        BadDetector: The detector has faults. The message has the first few.
        TypeError: `detector` is not a detector, or `events` is a single value.
        ValueError: An event has neither `ts_ns` nor `arrival_ns`.
    """
    check_iterable("events", events, "RawEvents")
    rules = behaviour_of(detector)
    trial = run_trial(rules, [_make_seen(number, event) for number, event in enumerate(events)])
    if trial.problems:
        raise BadDetector("; ".join(trial.problems))
    begun = time.perf_counter()
    for _ in range(SNAPSHOTS):
        rules.copy_of(trial.state)
    snapshot_us = (time.perf_counter() - begun) * 1e6 / SNAPSHOTS
    size = len(json.dumps(rules.pack(trial.state)))
    return DetectorReport(trial.items, trial.results, trial.state_values, size, snapshot_us)


def _make_seen(number: int, event: RawEvent) -> Seen:
    time_ns = (
        event.ts_ns if event.arrival_ns is None or event.ts_ns is not None else event.arrival_ns
    )
    if time_ns is None:
        raise ValueError(f"{event} has neither ts_ns nor arrival_ns; set one of them")
    seq = number if event.seq is None else event.seq
    return Seen(event.type, time_ns, event.payload, event.source, event.epoch or 0, seq)


class Trial(NamedTuple):
    """The findings of a trial.

    Attributes:
        items: The number of events and timers that were processed.
        results: The number of results that were emitted, including those of timers.
        state_values: The number of values in the largest state.
        state: The largest state.
        problems: The first few problems, each in a sentence.
    """

    items: int
    results: int
    state_values: int
    state: Any
    problems: list[str]


def run_trial(rules: Behaviour, events: Iterable[Seen]) -> Trial:
    """Process the events of one key in order, and return the findings.

    If the detector has a `correct`, its results are compared with this run.

    Args:
        rules: The behaviour of the detector.
        events: The events.
    """
    counts = Counts()
    cursor = Cursor(rules, ResultIds(b""), counts, rules.initial())
    outs: list[DetectorOutput] = []
    problems: list[str] = []
    largest, most = cursor.state, 0
    in_order = sorted(events, key=attrgetter("key"))
    for seen in in_order:
        entry = LogEntry(seen)
        cursor.fire(entry.key, outs)
        found = [*_find_step_faults(rules, cursor.state, seen)]
        bad = _count_bad(counts)
        cursor.take(entry, outs)
        problems += found
        if not found and _count_bad(counts) > bad:
            problems.append(f"at {seen!r}: {counts.why}")
        if len(problems) >= MAX_PROBLEMS or isinstance(cursor.state, Stopped):
            break
        size = size_of(cursor.state, MAX_SIZE)
        if size > most:
            largest, most = rules.copy_of(cursor.state), size
    bad = _count_bad(counts)
    cursor.fire(LAST, outs)
    if _count_bad(counts) > bad:
        problems.append(f"after the last event: {counts.why}")
    if rules.corrects and not problems:
        problems += _find_correct_faults(rules, [LogEntry(seen) for seen in in_order])
    return Trial(cursor.steps, len(outs), most, largest, problems[:MAX_PROBLEMS])


def _count_bad(counts: Counts) -> int:
    return counts.failed + counts.too_many_results + counts.stopped


def _find_step_faults(rules: Behaviour, state: Any, seen: Seen) -> Iterator[str]:
    """Yield the faults of the detector's state, and of its step at this event."""
    if isinstance(state, Stopped):
        yield f"before {seen!r} its key is stopped: {state.why}"
        return
    try:
        before = rules.pack(state)
        if not are_same(rules.unpack(before), state):
            yield f"before {seen!r} the state differs when it is read back"
    except NotAValue as wrong:
        yield f"before {seen!r} the state cannot be stored: {wrong}"
        return
    frozen, payload = rules.copy_of(state), repr(seen.payload)
    if isinstance(frozen, Stopped):
        yield f"before {seen!r} {frozen.why}"
        return
    if not are_same(rules.copy_of(frozen), state):
        yield f"before {seen!r} a copy of the state is not equal to it"
    said: list[tuple[Any, list[str]]] = []
    for _ in range(2):
        try:
            after, results = rules.step(rules.copy_of(frozen), seen)
            said.append((after, [repr(each) for each in results_of(results)]))
        except Exception as raised:  # noqa: BLE001 - a user's code may raise anything
            yield f"at {seen!r} it raises {type(raised).__name__}: {raised}"
            return
    (one, first), (other, second) = said
    if first != second:
        yield f"at {seen!r} it returns {first}, and for the same input also {second}"
    elif not are_same(one, other):
        yield f"at {seen!r} it goes from the same state and input to two different states"
    if rules.pack(state) != before or repr(seen.payload) != payload:
        yield f"at {seen!r} it changes its arguments"


def _find_correct_faults(rules: Behaviour, entries: list[LogEntry]) -> Iterator[str]:
    """Yield the differences between `correct` and a run in order, with some events late."""
    whole = _make_log(rules, entries, None)
    for at in range(0, len(entries), max(len(entries) // LATE_ONES, 1)):
        log, seen = _make_log(rules, entries, at), entries[at].seen
        if not are_same(log.live.state, whole.live.state):
            yield f"its `correct` reaches another state than a run in order, at {seen!r}"
        elif [_pick(each) for each in log.outs] != [_pick(each) for each in whole.outs]:
            yield f"its `correct` gives another result than a run in order, at {seen!r}"


def _make_log(rules: Behaviour, entries: list[LogEntry], late: int | None) -> KeyLog:
    counts = Counts()
    log = KeyLog("", rules, ResultIds(b""), counts)
    for at, entry in enumerate(entries):
        if at != late:
            log.insert(LogEntry(entry.seen))
    log.advance(LAST, FIRST)
    if late is not None:
        log.insert(LogEntry(entries[late].seen))
        if log.dirty:
            correct_dirty(log, rules, counts)
        log.advance(LAST, FIRST)
    return log


def _pick(output: DetectorOutput) -> tuple[str, str, bool]:
    return output.id, repr(output.values), output.unsure
