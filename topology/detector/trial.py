"""A detector on trial: each event is read twice from one state, and each state copied, compared,
written down and read back. For tests; nothing runs this that runs a stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Final, NamedTuple

from topology.detector.cursor import Counts, Cursor, DetectorOutput
from topology.detector.detector import MAX_SIZE, Behaviour, Stopped, results_of
from topology.detector.item import FIRST, LAST, LogEntry, Seen
from topology.detector.key_log import KeyLog
from topology.detector.mend import mend
from topology.detector.values import NotAValue, same, size_of
from topology.model.result import ResultIds

MAX_PROBLEMS: Final = 5
LATE_ONES: Final = 50
"""How many events are taken as late, for `correct`."""


class Trial(NamedTuple):
    """`results`: emitted, timers' too. `state_values`: of the largest state, how many values it
    has; `state`: that one. `problems`: the first few, each in a sentence."""

    items: int
    results: int
    state_values: int
    state: Any
    problems: list[str]


def tried(rules: Behaviour, events: Iterable[Seen]) -> Trial:
    """The events are read in order, all of one key; what `correct` gives, if there is one, is held
    to that."""
    counts = Counts()
    cursor = Cursor(rules, ResultIds(b""), counts, rules.initial())
    outs: list[DetectorOutput] = []
    problems: list[str] = []
    largest, most = cursor.state, 0
    in_order = sorted(events, key=attrgetter("key"))
    for seen in in_order:
        entry = LogEntry(seen)
        cursor.fire(entry.key, outs)
        found = [*_of(rules, cursor.state, seen)]
        bad = _bad(counts)
        cursor.take(entry, outs)
        problems += found
        if not found and _bad(counts) > bad:
            problems.append(f"at {seen!r}: {counts.why}")
        if len(problems) >= MAX_PROBLEMS or isinstance(cursor.state, Stopped):
            break
        size = size_of(cursor.state, MAX_SIZE)
        if size > most:
            largest, most = rules.copy_of(cursor.state), size
    bad = _bad(counts)
    cursor.fire(LAST, outs)
    if _bad(counts) > bad:
        problems.append(f"behind the last event: {counts.why}")
    if rules.corrects and not problems:
        problems += _corrected(rules, [LogEntry(seen) for seen in in_order])
    return Trial(cursor.steps, len(outs), most, largest, problems[:MAX_PROBLEMS])


def _bad(counts: Counts) -> int:
    return counts.failed + counts.too_many_results + counts.stopped


def _of(rules: Behaviour, state: Any, seen: Seen) -> Iterator[str]:
    """What is wrong with the state, or with what is done of it at this event."""
    if isinstance(state, Stopped):
        yield f"before {seen!r} its key is stopped: {state.why}"
        return
    try:
        before = rules.pack(state)
        if not same(rules.unpack(before), state):
            yield f"before {seen!r} the state is not the same when it is read back"
    except NotAValue as wrong:
        yield f"before {seen!r} the state cannot be kept: {wrong}"
        return
    frozen, payload = rules.copy_of(state), repr(seen.payload)
    if isinstance(frozen, Stopped):
        yield f"before {seen!r} {frozen.why}"
        return
    if not same(rules.copy_of(frozen), state):
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
        yield f"at {seen!r} it gives {first} and then, for the same, {second}"
    elif not same(one, other):
        yield f"at {seen!r} it comes to one state and then, of the same, to another"
    if rules.pack(state) != before or repr(seen.payload) != payload:
        yield f"at {seen!r} it changes what it was given"


def _corrected(rules: Behaviour, entries: list[LogEntry]) -> Iterator[str]:
    """Each of some as if it came last of all: `correct` is to give what an in-order run gives."""
    whole = _read(rules, entries, None)
    for at in range(0, len(entries), max(len(entries) // LATE_ONES, 1)):
        log, seen = _read(rules, entries, at), entries[at].seen
        if not same(log.live.state, whole.live.state):
            yield f"its `correct` comes to another state than a run in order, at {seen!r}"
        elif [_said(each) for each in log.outs] != [_said(each) for each in whole.outs]:
            yield f"its `correct` gives another result than a run in order, at {seen!r}"


def _read(rules: Behaviour, entries: list[LogEntry], late: int | None) -> KeyLog:
    counts = Counts()
    log = KeyLog("", rules, ResultIds(b""), counts)
    for at, entry in enumerate(entries):
        if at != late:
            log.insert(LogEntry(entry.seen))
    log.advance(LAST, FIRST)
    if late is not None:
        log.insert(LogEntry(entries[late].seen))
        if log.dirty:
            mend(log, rules, counts)
        log.advance(LAST, FIRST)
    return log


def _said(output: DetectorOutput) -> tuple[str, str, bool]:
    return output.id, repr(output.values), output.unsure
