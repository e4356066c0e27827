"""Reads the items of one key with a detector, starting from a given state.

The outputs depend only on the items and on four values at the start: the state, `high_ns`, `last`
and `ticks`. So a rollback restores these four values and reads on from there.

`high_ns` is the latest possible event time of the events that were read. The position of an event
that may be earlier than that is uncertain, so its results are `unsure`.

A deadline that is earlier than the last item takes effect at that item's instant, after its events.
If the last item is a timer, the deadline takes effect one nanosecond later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, NamedTuple

from topology.answer.query.numbers import is_text, text_of
from topology.base.operator import NEVER
from topology.base.result import Member, ResultIds, frame
from topology.queries.detector.detector import (
    MAX_RESULTS,
    MAX_RESULTS_BYTES,
    MAX_SIZE,
    MAX_TICKS,
    Behaviour,
    Found,
    Stopped,
    results_of,
)
from topology.queries.detector.item import FIRST, KEY, LAST, TIMER, Key, LogEntry, Seen, timer_key
from topology.queries.detector.values import VALUE, NotAValue, are_same, count_text_blocks, size_of
from topology.state.saved import BIG, FLAG, INT, TEXT, Shape, list_of, record

CORRECTION_STEPS: Final = 4
"""The assumed cost of one call of `correct`, in steps of the detector."""

LOOK_EVERY: Final = 64
"""The interval of the thorough checks: they run at events whose `seq` is a multiple of it.

When such an event is first read, its step is run twice for comparison. The state is checked after
every such event, and after the first item of each key. It is also checked wherever
`count_text_blocks` finds it invalid or too large. So a key stops at the same item whether reading
is speculative or not. The exception is a fault that `count_text_blocks` cannot see. It is found
when the state is copied, or at the next thorough check.
"""

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_MAX_DEPTH: Final = 32
MAX_INT_BITS: Final = 8_192
"""The maximum size of an integer in a result, in bits.

Python refuses to convert integers of more than 4,300 digits to text.
"""
_FRAME_BYTES: Final = 3
_NUMBER_BYTES: Final = 8


class DetectorOutput(NamedTuple):
    """A result that a detector emitted at an item, with its id.

    Attributes:
        cause: The key of the item.
        number: The index of the result among those of the item.
        last: Whether the detector has declared that it will not change the result again.
        is_own: Whether the id is derived from the item, so that no other item can emit it.
        error_ns: The time error of the item.
    """

    id: str
    cause: Key
    number: int
    values: dict[str, Any]
    start_ns: int
    end_ns: int
    members: list[Member]
    last: bool
    unsure: bool
    is_own: bool = False
    error_ns: int = 0

    def has_same_content(self, other: DetectorOutput) -> bool:
        """Return whether the results of both outputs would have the same content."""
        return BESIDES(self) == BESIDES(other) and are_same(self.values, other.values)


BESIDES: Final = attrgetter("start_ns", "end_ns", "members", "last", "unsure")
"""A function that returns the fields of an output that results contain, except the values."""


OUTPUT: Final = record(
    DetectorOutput,
    id=TEXT,
    cause=KEY,
    number=INT,
    values=VALUE,
    start_ns=BIG,
    end_ns=BIG,
    members=list_of(record(Member, alias=TEXT, source=TEXT, epoch=INT, seq=INT, ref_time_ns=INT)),
    last=FLAG,
    unsure=FLAG,
    is_own=FLAG,
)

COUNTED: Final = (
    "processed", "replayed", "rollbacks", "converged", "corrected", "checkpoints", "failed",
    "too_many_results", "stopped", "nondeterministic",
)  # fmt: skip
"""The names of the counts that are published as figures."""


COUNTS: Final = Shape("detector.counts", 1, size=INT, blocks=INT, nondeterministic=INT)


class Counts:
    """The counts of a detector's steps and faults.

    The counts never decrease. `why` describes the latest fault.
    """

    def __init__(self) -> None:
        self.processed = 0
        self.replayed = 0
        self.rollbacks = 0
        self.checkpoints = 0
        self.converged = 0
        self.corrected = 0
        self.failed = 0
        self.too_many_results = 0
        self.stopped = 0
        self.nondeterministic = 0
        self.size = 1
        """The maximum size of a checked state, in values."""
        self.blocks = 0
        """The most blocks of 64 bytes that `count_text_blocks` has found in one state."""
        self.why = ""

    @property
    def reread_steps(self) -> int:
        """The cost of all rollbacks and corrections, in steps."""
        return self.replayed + CORRECTION_STEPS * self.corrected

    def note(self, what: str, why: str) -> None:
        """Count a fault of the kind `what`, a name in `COUNTED`, and keep its description `why`."""
        setattr(self, what, getattr(self, what) + 1)
        self.why = why

    def figures(self) -> dict[str, int]:
        """Return the counts that are published, by name."""
        return {name: getattr(self, name) for name in COUNTED}


@dataclass(slots=True, eq=False)
class Cursor:
    """A detector's position in the items of one key, with its state there.

    Attributes:
        last: The key of the item that was read last.
        ticks: The number of timers fired since the last event.
        due_ns: The time of the next timer, by the detector's `deadline`, or NEVER.
        steps: The number of items read.
        is_first: Whether the items are read for the first time. Faults are counted only then.
    """

    _behaviour: Behaviour
    _ids: ResultIds
    _counts: Counts
    state: Any
    high_ns: int = -NEVER
    last: Key = FIRST
    ticks: int = 0
    is_first: bool = True
    steps: int = field(default=0, init=False)
    due_ns: int = field(default=NEVER, init=False)

    def __post_init__(self) -> None:
        self._set_deadline()

    def take(self, entry: LogEntry, outs: list[DetectorOutput]) -> None:
        """Read an event, after firing the timers that are due before it."""
        self.fire(entry.key, outs)
        seen = entry.seen
        unsure = seen.unsure or seen.time_ns - seen.error_ns < self.high_ns
        self.high_ns = max(self.high_ns, seen.time_ns + seen.error_ns)
        is_begun = self.last != FIRST
        self.last = entry.key
        self.ticks = 0
        self.steps += 1
        if isinstance(self.state, Stopped):
            return
        is_looked_at = not seen.seq % LOOK_EVERY
        if is_looked_at and self.is_first:
            self._check_determinism(seen)
        try:
            state, said = self._behaviour.step(self.state, seen)
            self.emit(said, seen, self.last, outs, unsure=unsure)
            self.state = state
        except Exception as wrong:  # noqa: BLE001 - a user's code may raise anything
            self._count_failure(wrong, repr(seen))
        if self._is_suspicious() or is_looked_at or not is_begun:
            self._look()
        self._set_deadline()

    def fire(self, until: Key, outs: list[DetectorOutput]) -> None:
        """Fire the timers that are due before the position `until`."""
        while self.due_ns < NEVER and (key := timer_key(self.due_ns)) < until:
            self._tick(key, outs)

    def fire_once(self, outs: list[DetectorOutput]) -> None:
        """Fire the next timer now, if one is set, even if it is not due yet."""
        if self.due_ns < NEVER:
            self._tick(timer_key(self.due_ns), outs)

    def finish(self, outs: list[DetectorOutput]) -> None:
        """End the input, and let the detector emit its last results."""
        ended_ns, self.last = self.last[0], LAST
        self.due_ns = NEVER
        if isinstance(self.state, Stopped):
            return
        at_end: list[DetectorOutput] = []
        try:
            self.emit(self._behaviour.end(self.state), None, LAST, at_end, unsure=False)
        except Exception as wrong:  # noqa: BLE001 - a user's code may raise anything
            self._count_failure(wrong, "the end")
        outs += [
            each._replace(start_ns=min(each.start_ns, ended_ns), end_ns=ended_ns) for each in at_end
        ]

    def _tick(self, key: Key, outs: list[DetectorOutput]) -> None:
        due_ns = self.due_ns
        is_begun = self.last != FIRST
        self.last = key
        self.steps += 1
        self.ticks += 1
        try:
            state, said = self._behaviour.tick(self.state, due_ns)
            self.emit(said, None, key, outs, unsure=False)
            self.state = state
        except Exception as wrong:  # noqa: BLE001 - a user's code may raise anything
            self._count_failure(wrong, f"its timer at {due_ns}")
            self.stop("its timer raised an exception")
            return
        if self._is_suspicious() or not is_begun:
            self._look()
        if self.ticks >= MAX_TICKS:
            self.stop(
                f"more than {MAX_TICKS:,} timers between two events; does its deadline advance?"
            )
        else:
            self._set_deadline()

    def _set_deadline(self) -> None:
        self.due_ns = NEVER
        if isinstance(self.state, Stopped):
            return
        try:
            asked_ns = self._behaviour.deadline(self.state)
            if asked_ns is None:
                return
            if type(asked_ns) is not int:
                raise TypeError(
                    f"deadline() returned a {type(asked_ns).__name__}; return ns or None"
                )
        except Exception as wrong:  # noqa: BLE001 - a user's code may raise anything
            self._count_failure(wrong, "its deadline")
            self.stop("its deadline raised an exception")
            return
        passed_ns, kind = self.last[0], self.last[1]
        self.due_ns = min(max(asked_ns, passed_ns + 1 if kind == TIMER else passed_ns), NEVER)

    def emit(
        self, said: Any, seen: Seen | None, cause: Key, outs: list[DetectorOutput], *, unsure: bool
    ) -> None:
        """Append the results of an item to `outs`; append none and raise if one is invalid."""
        if said is None or (type(said) is tuple and not said):
            return
        results = results_of(said)
        if len(results) > MAX_RESULTS:
            del results[MAX_RESULTS:]
            self._count_left_out()
        found = [
            self._output(each if isinstance(each, Found) else Found(each), cause, at, seen, unsure)
            for at, each in enumerate(results)
        ]
        left = MAX_RESULTS_BYTES
        for at, output in enumerate(found):
            left -= size_of_output(output.values)
            if left < 0:
                del found[at:]
                self._count_left_out()
                break
        outs += found

    def _count_left_out(self) -> None:
        if self.is_first:
            why = f"it returned more than {MAX_RESULTS:,} results, or 1 MiB, for one item"
            self._counts.note("too_many_results", why)

    def _output(
        self, found: Found, cause: Key, at: int, seen: Seen | None, unsure: bool
    ) -> DetectorOutput:
        values = plain(found.values)
        if not isinstance(values, dict):
            raise TypeError(f"it returned a {type(found.values).__name__}; return a mapping")
        if found.id is None:
            text = f"{cause[0]}/{cause[1]}/{cause[3]:d}/{cause[4]:d}/{at}"
            id_ = self._ids.of(frame(b"") + frame(cause[2].encode()) + frame(text.encode()))
        elif isinstance(found.id, str | int):
            id_ = self._ids.of(frame(text_of(found.id).encode()))
        else:
            raise TypeError(f"the id {found.id!r} is neither a text nor a number")
        for alias in found.events:
            if type(alias) is not str or not is_text(alias):
                raise TypeError(f"it names an event {alias!r}; use a text that UTF-8 can encode")
        members = [
            Member(alias, each.source, each.epoch, each.seq, each.time_ns)
            for alias, each in found.events.items()
        ]
        if not members and seen is not None:
            members = [Member("event", seen.source, seen.epoch, seen.seq, seen.time_ns)]
        return DetectorOutput(
            id_,
            cause,
            at,
            values,
            cause[0] if found.start_ns is None else int(found.start_ns),
            cause[0],
            members,
            last=found.id is None if found.last is None else bool(found.last),
            unsure=unsure,
            is_own=found.id is None,
            error_ns=0 if seen is None else seen.error_ns,
        )

    def _check_determinism(self, seen: Seen) -> None:
        """Run the step twice, and count a fault if the results differ or an argument is changed.

        Rollbacks are correct only if equal input gives equal results and is never changed.
        """
        rules = self._behaviour
        try:
            frozen = rules.copy_of(self.state)
            before, payload = rules.pack(self.state), repr(seen.payload)
            one, said = rules.step(rules.copy_of(frozen), seen)
            given = [repr(each) for each in results_of(said)]
            other, said = rules.step(rules.copy_of(frozen), seen)
            if not are_same(one, other) or given != [repr(each) for each in results_of(said)]:
                why = f"it returned different results for the same event, {seen!r}"
                self._counts.note("nondeterministic", why)
            elif rules.pack(self.state) != before or repr(seen.payload) != payload:
                self._counts.note("nondeterministic", f"it changes its arguments, at {seen!r}")
        except Exception:  # noqa: BLE001 - what is wrong with it shows when it is read
            return

    def _is_suspicious(self) -> bool:
        blocks = count_text_blocks(self.state, self._behaviour.classes)
        if blocks > self._counts.blocks:
            self._counts.blocks = blocks
        return blocks < 0 or blocks > MAX_SIZE

    def _look(self) -> None:
        if isinstance(self.state, Stopped):
            return
        size = size_of(self.state, MAX_SIZE)
        if size > MAX_SIZE:
            self.stop(f"its state has more than {MAX_SIZE:,} values, or contains itself")
            return
        self._counts.size = max(self._counts.size, size)
        try:
            self._behaviour.pack(self.state)
        except NotAValue as wrong:
            self.stop(f"its state cannot be stored: {wrong}")

    def _count_failure(self, wrong: Exception, where: str) -> None:
        if self.is_first:
            self._counts.note("failed", f"{type(wrong).__name__}: {wrong}, at {where}"[:500])

    def stop(self, why: str) -> None:
        """Stop the key: drop its state, set no timer, and emit no more results."""
        self.state = Stopped(why)
        self.due_ns = NEVER
        if self.is_first:
            self._counts.note("stopped", why)


def plain(value: Any, depth: int = 0) -> Any:
    """Return a copy of the value that consists of JSON types only.

    TypeError is raised if JSON cannot represent part of the value.
    """
    if type(value) in _PLAIN:
        if type(value) is str and not is_text(value):
            raise TypeError("it returned a text with a lone surrogate, which UTF-8 cannot encode")
        if type(value) is int and value.bit_length() > MAX_INT_BITS:
            raise TypeError(f"it returned an integer of more than {MAX_INT_BITS:,} bits")
        return value
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {plain(str(name), depth): plain(each, depth + 1) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each, depth + 1) for each in value]
    raise TypeError(f"it returned a {type(value).__name__}, which JSON cannot represent")


def size_of_output(value: Any) -> int:
    """Return the approximate size, in bytes of text, of a result that `plain` has returned."""
    if type(value) is str:
        return _FRAME_BYTES + (len(value) if value.isascii() else len(value.encode()))
    if type(value) is dict:
        return sum(size_of_output(name) + size_of_output(each) for name, each in value.items())
    if type(value) is list:
        return sum(map(size_of_output, value)) + _FRAME_BYTES
    return value.bit_length() // 3 + 1 if type(value) is int else _NUMBER_BYTES


def cause_key(output: DetectorOutput) -> tuple[Key, int]:
    return (output.cause, output.number)
