"""Runs all detectors of a stream as one operator, by levels if some read results of others.

In this example the detectors `near` and `peak` read events, and `pass` reads their results:

    events ──┬──────────────► near ──┬─► pass
             └► peak ───────────────►┘

At the end of an instant each detector decides after those that it reads. So an instant causes at
most one replay of each detector. If an event reaches a detector by two paths, as it reaches `pass`
here, the detector sees both effects at once.

A detector reads at most as far as the detectors that it reads from, and its results become final
with theirs. The frontiers are the same at each level, so levels add no wait of their own. Only the
net changes of an instant go to the next level. So a correction stops where it changes no result.

Speculative detectors share one load model, with the smallest share of a processor that any of them
is granted.

At the end of a bounded input each level ends before the next. Results emitted there belong to the
last instant.

An emitted event stays buffered while a rollback of one of the detectors may need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from topology.answer.load_model import LoadModel
from topology.answer.query.queries import KeepingQueries
from topology.answer.rules import SPECULATE
from topology.base.event import Event, at_ns
from topology.base.operator import Plain
from topology.base.outcome import Step
from topology.base.result import Finding, Result
from topology.queries.detector.item import BEHIND_ALL
from topology.queries.detector.operator import FOUND, Detecting
from topology.queries.detector.result_event import UpstreamQuery, event_from_edit
from topology.state.instant import InstantOperator


class Levels(InstantOperator):
    """A group of connected detectors, or a single one.

    `members` is ordered so that each detector comes after those that it reads.
    """

    def __init__(self, members: Sequence[Detecting]) -> None:
        super().__init__()
        self.members = list(members)
        by_name = {each.name: each for each in members}
        self._below: dict[str, list[Detecting]] = {}
        self._readers: dict[str, list[tuple[Detecting, UpstreamQuery]]] = {}
        for member in members:
            read = [each for each in member.inputs.reads if each.query in by_name]
            self._below[member.name] = [by_name[each.query] for each in read]
            for each in read:
                self._readers.setdefault(each.query, []).append((member, each))
        for name in self._readers:
            by_name[name].unit.watch()
        ahead = [member for member in members if member.query.answer == SPECULATE]
        if ahead:
            granted_ppm = min(member.query.granted_ppm for member in ahead)
            load = LoadModel(granted_ppm, ahead[0].query.clock.max_ahead_ns)
            for member in ahead:
                member.load = load

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        last_ns = max(member.last_ns for member in self.members)
        for member in self.members:
            settled = [each.emitter.settled_ns for each in (member, *self._below[member.name])]
            member.emitter.settled_ns = min(settled)
            member.end_at(last_ns, step)
            self._pass_edits_on(member)
        return step

    def _take(self, event: Event, step: Step) -> None:
        for member in self.members:
            if member.observe(event):
                self._instant_open = True

    def _decide(self, step: Step) -> None:
        for member in self.members:
            limit = hold = BEHIND_ALL
            for each in self._below[member.name]:
                limit, hold = min(limit, each.unit.reached), min(hold, each.decided_key)
            member.decide(self._now_ns, limit, hold)
            self._pass_edits_on(member)

    def _pass_edits_on(self, member: Detecting) -> None:
        readers = self._readers.get(member.name)
        if readers:
            for edit in member.unit.take_edits():
                for reader, reading in readers:
                    reader.read_result(event_from_edit(edit, reading))

    def _finish(self, step: Step) -> None:
        for member in self.members:
            member.emitter.flush(step)
            member.set_instant(self._now_ns, is_open=self._instant_open)

    def resume(self) -> None:
        """Set the current instant to that of the members, which have been restored."""
        stood = [member.instant for member in self.members]
        self._now_ns = max(now_ns for now_ns, _ in stood)
        self._instant_open = any(is_open for _, is_open in stood)


def levels_of(detecting: Sequence[Detecting]) -> list[Levels]:
    """Return the groups of connected detectors, ordered by the first detector of each.

    All speculative detectors belong to one group.
    """
    group_of = {each.name: each.name for each in detecting}
    ties = [[each.name, *(read.query for read in each.inputs.reads)] for each in detecting]
    for tie in (*ties, [each.name for each in detecting if each.query.answer == SPECULATE]):
        joined = [group_of[name] for name in tie if name in group_of]
        group_of |= {name: joined[0] for name, group in group_of.items() if group in joined}
    groups: dict[str, list[Detecting]] = {}
    for each in detecting:
        groups.setdefault(group_of[each.name], []).append(each)
    return [Levels(sorted(group, key=_level_of)) for group in groups.values()]


def _level_of(detecting: Detecting) -> int:
    return max([each.level for each in detecting.inputs.reads], default=0)


class DetectorQueries(KeepingQueries[Detecting]):
    """An operator that runs all detectors of a stream."""

    def __init__(self, detecting: Sequence[Detecting]) -> None:
        super().__init__(detecting)
        self._levels = levels_of(detecting)
        self._runners[:] = self._levels
        self._names = [", ".join(each.name for each in level.members) for level in self._levels]
        self._listens = {each.query for query in detecting for each in query.inputs.reads}
        self._read_events: list[Event] = []

    @property
    def is_speculative(self) -> bool:
        """Whether at least one detector reads accepted events, with marks of MERGE's progress."""
        return any(each.inputs.is_speculative for each in self._queries)

    def take_results(self, found: Sequence[Finding]) -> None:
        """Take the results of windows and patterns that a detector reads.

        Each of them becomes an event of the instant in which it was found.
        """
        for each in found:
            if each.query in self._listens and isinstance(each, Result):
                event = Event(each.stream, "", 0, 0, 0, each.at_ns, value=each, kind=FOUND)
                self._read_events.append(event)

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        """Process a batch. A ramp is split at the instant of each result that a detector reads."""
        if not self._read_events:
            return super().on_batch(events, now_ns)
        step = Step(now_ns, list(events))
        both = sorted([*events, *self._read_events], key=at_ns)
        self._read_events = []
        self._add_results(both, step)
        step.results += self._find((), now_ns)
        step.results.sort(key=at_ns)
        return self._finish(step)

    def set_costs(self, step_ns: int, others_ppm: int) -> None:
        """Set the costs that the driver has measured (`LoadModel`)."""
        for each in self._queries:
            each.load.set_costs(step_ns, others_ppm)

    @property
    def items(self) -> int:
        counts = [each.unit.counts for each in self._queries]
        return sum(each.processed + each.replayed for each in counts)

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        for each in self._levels:
            each.resume()
