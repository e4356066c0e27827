"""Where the time of a traced event went: its steps in one partition of one stage.

An event bears the instants itself; here they are noted as it passes, for the few that are traced,
and exported with the checkpoint that makes them count: a checkpoint that fails exports nothing,
since all of it is done again.

    transit    reference time -> arrival at the broker
    unread     arrival, or let go by REORDER in a stage before -> read here, by this machine's clock
    reorder    read -> let go by REORDER
    clock      the same instant: what CLOCK does is an offset and its error, no wait
    merge      let go by REORDER, or read -> let go by MERGE
    deliver    let go by the last of these here -> committed, by this machine's clock
    window, pattern, join, detector
               let go by MERGE -> the first result of a query that the event is in

A match and a row name their events. A window does not: its first result counts for the events
whose time it covers. That is exported only where all keys are emitted at once (windows by time, and
those without a key). A step whose begin is not known, as after a restart, is left out.

Bounds: `MAX_GOING` events are on their way in a partition, and as many wait for results, the oldest
giving way; a checkpoint exports `MAX_STEPS` at most. What is left out is counted, but for an event
that gives way in REORDER, which may have been late or a copy, or while it waits for results:
whether there was something to come is not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from sinks.otlp.sampling import Identity, Sampling, identity
from topology.flow.probe import Probe
from topology.model.event import Event
from topology.model.result import (
    EMIT,
    Finding,
    JoinResult,
    MatchResult,
    Result,
    WindowResult,
)

MAX_GOING: Final = 1_024
MAX_STEPS: Final = 1_000
REORDER: Final = "reorder"
CLOCK: Final = "clock"
MERGE: Final = "merge"


@dataclass(frozen=True, slots=True)
class Travelled:
    """An event as a stage let it go. `reordered_ns`: when REORDER had; None: not in this stage and
    not known. `merged_ns`: when MERGE had; None: not in this stage. `read_ns`: when this stage read
    it; None: before the partition was opened."""

    who: Identity
    type: str
    ref_time_ns: int
    error_ns: int
    ts_ns: int
    arrival_ns: int
    late: str
    reordered_ns: int | None
    merged_ns: int | None
    reorders: bool
    """REORDER is in this stage."""
    read_ns: int | None = None


@dataclass(frozen=True, slots=True)
class FirstResult:
    """The first result of a query that the event is in, decided at `at_ns`."""

    who: Identity
    query: str
    found_by: str
    merged_ns: int
    at_ns: int


@dataclass(slots=True)
class Steps:
    """What a checkpoint makes true."""

    travelled: list[Travelled] = field(default_factory=list)
    results: list[FirstResult] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.travelled or self.results)


@dataclass(slots=True)
class _Going:
    """An event on its way through the stage."""

    read_ns: int | None = None
    reordered_ns: int | None = None


@dataclass(slots=True)
class _Waits:
    """An event that results may be in."""

    ref_time_ns: int
    merged_ns: int
    queries: set[str] = field(default_factory=set)  # those with a result of it


class Budget(Probe):
    """One partition's. `operators`: of its stage, in order. `keyed`: queries whose windows are
    emitted key by key, each at its own time. `clock`: this machine's, in ns since 1970."""

    def __init__(
        self,
        sampling: Sampling,
        operators: Sequence[str],
        keyed: Collection[str] = (),
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._sampling = sampling
        self._clock = clock
        self._reorders = REORDER in operators
        self._merges = MERGE in operators
        ordering = [name for name in (REORDER, CLOCK, MERGE) if name in operators]
        self._last = ordering[-1] if ordering else ""
        self._finds = bool(set(operators) - {REORDER, CLOCK, MERGE})
        self._keyed = frozenset(keyed)
        self._going: dict[Identity, _Going] = {}
        self._waiting: dict[Identity, _Waits] = {}
        self._steps = Steps()
        self.left_out = 0

    # -- what the chain shows ----------------------------------------------------------------------

    def entered(self, events: Sequence[Event]) -> None:
        orders = self._reorders or self._merges
        now_ns = self._clock() if orders else 0
        for event in self._sampling.of(events):
            if orders:
                going = _Going(now_ns, None if self._reorders else event.at_ns)
                self._note(identity(event), going)
            else:
                self._await_results(event)

    def left(self, operator: str, events: Sequence[Event]) -> None:
        if operator == REORDER and self._merges:
            for event in self._sampling.of(events):
                going = self._going.pop(identity(event), None) or _Going()
                going.reordered_ns = event.at_ns
                self._note(identity(event), going)
        elif operator == self._last:
            for event in self._sampling.of(events):
                self._goes(event)
                if self._finds:
                    self._await_results(event)

    def found(self, findings: Sequence[Finding]) -> None:
        """The results of a step. O(their members), O(events that wait) for each window."""
        if not self._waiting:
            return
        windows: set[tuple[str, int, int]] = set()
        for finding in findings:
            if not isinstance(finding, Result) or finding.op != EMIT:
                continue
            if isinstance(finding, MatchResult):
                for member in finding.members:
                    self._note_result(
                        (finding.stream, member.source, member.epoch, member.seq), finding
                    )
            elif isinstance(finding, JoinResult):
                for one in finding.partners:
                    self._note_result((one.stream, one.source, one.epoch, one.seq), finding)
            elif isinstance(finding, WindowResult):
                window = finding.query, finding.start_ns, finding.end_ns
                by_time = finding.key is None or finding.query not in self._keyed
                if by_time and window not in windows:
                    windows.add(window)
                    self._note_window(finding)

    def take(self) -> Steps:
        """What has come together since this was last asked."""
        steps, self._steps = self._steps, Steps()
        return steps

    # -- an event on its way -----------------------------------------------------------------------

    def _note(self, who: Identity, going: _Going) -> None:
        if len(self._going) >= MAX_GOING:
            oldest = self._going.pop(next(iter(self._going)))
            self.left_out += oldest.reordered_ns is not None
        self._going[who] = going

    def _goes(self, event: Event) -> None:
        if len(self._steps.travelled) >= MAX_STEPS:
            self.left_out += 1
            return
        who = identity(event)
        going = self._going.pop(who, None) or _Going()
        self._steps.travelled.append(
            Travelled(
                who,
                event.type,
                event.ref_time_ns,
                event.error_ns,
                event.ts_ns,
                event.arrival_ns,
                event.late,
                going.reordered_ns if self._merges else event.at_ns,
                event.at_ns if self._merges else None,
                self._reorders,
                going.read_ns,
            )
        )

    def _await_results(self, event: Event) -> None:
        if len(self._waiting) >= MAX_GOING:
            del self._waiting[
                next(iter(self._waiting))
            ]  # most are in no result to come: not counted
        self._waiting[identity(event)] = _Waits(event.ref_time_ns, event.at_ns)

    def _note_window(self, window: WindowResult) -> None:
        for who, waits in self._waiting.items():
            if who[0] == window.stream and window.start_ns <= waits.ref_time_ns < window.end_ns:
                self._note_result(who, window)

    def _note_result(self, who: Identity, result: Result) -> None:
        waits = self._waiting.get(who)
        if waits is None or result.query in waits.queries:
            return
        waits.queries.add(result.query)
        if len(self._steps.results) >= MAX_STEPS:
            self.left_out += 1
            return
        first = FirstResult(who, result.query, result.found_by, waits.merged_ns, result.at_ns)
        self._steps.results.append(first)
