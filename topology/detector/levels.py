"""Detectors that read results of others, level by level, at each instant.

    events ──┬──────────────► near ──┬─► pass
             └► peak ───────────────►┘

When the instant is over, each decides behind those that it reads, so that one instant is at most
one replay of each, and a diamond shows no state that only one of its ways has come to. A reader
reads as far as those that it reads have come at most, and what is final of them is final for it:
frontiers pass a level without loss, so levels cost no wait of their own. What the emissions of an
instant come to is all that goes up, and a correction ends where it changes nothing.

Those that read ahead of the merge have one load model, of which the smallest share counts, and are
run side by side.

At the end of a bounded input each level ends before the next; results emitted there are of the
last instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topology.answer.load_model import LoadModel
from topology.answer.rules import SPECULATE
from topology.detector.item import BEHIND_ALL
from topology.detector.operator import Detecting
from topology.detector.result_event import UpstreamQuery, of_edit
from topology.model.event import Event
from topology.model.instant import InstantOperator
from topology.model.outcome import Step


class Levels(InstantOperator):
    """`members`: each behind those that it reads."""

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
            self._pass_on(member)
        return step

    def _take(self, event: Event, step: Step) -> None:
        for member in self.members:
            if member.hear(event, self._now_ns, step):
                self._instant_open = True

    def _decide(self, step: Step) -> None:
        for member in self.members:
            below = self._below[member.name]
            limit = min([each.unit.reached for each in below], default=BEHIND_ALL)
            hold = min([each.holds for each in below], default=BEHIND_ALL)
            member.decide(self._now_ns, limit, hold, step)
            self._pass_on(member)

    def _pass_on(self, member: Detecting) -> None:
        readers = self._readers.get(member.name)
        if readers:
            for edit in member.unit.take_edits():
                for reader, reading in readers:
                    reader.read_result(of_edit(edit, reading))

    def _finish(self, step: Step) -> None:
        for member in self.members:
            member.emitter.finish(step)
            member.stand_at(self._now_ns, is_open=self._instant_open)

    def restored(self) -> None:
        """Its members are."""
        stood = [member.stood_at for member in self.members]
        self._now_ns = max(now_ns for now_ns, _ in stood)
        self._instant_open = any(is_open for _, is_open in stood)


def levels_of(detecting: Sequence[Detecting]) -> list[InstantOperator]:
    """Each by itself, or those that hang together as one, at the place of the first of them; so do
    all that read ahead."""
    groups = _groups(detecting)
    found: list[InstantOperator] = []
    met: set[int] = set()
    for each in detecting:
        group = groups[each.name]
        if id(group) in met:
            continue
        met.add(id(group))
        in_order = [member for member in detecting if groups[member.name] is group]
        found.append(each if len(group) == 1 else Levels(_behind_what_they_read(in_order)))
    return found


def _groups(detecting: Sequence[Detecting]) -> Mapping[str, list[Detecting]]:
    groups = {each.name: [each] for each in detecting}
    ahead = [each for each in detecting if each.query.answer == SPECULATE]
    for each in ahead:
        groups[each.name] = ahead
    for each in detecting:
        for reading in each.inputs.reads:
            mine, other = groups[each.name], groups.get(reading.query)
            if other is not None and other is not mine:
                mine += other
                for member in other:
                    groups[member.name] = mine
    return groups


def _behind_what_they_read(group: Sequence[Detecting]) -> list[Detecting]:
    """The file has no circles (topology.config.chains)."""
    left = {each.name: each for each in group}
    ordered: list[Detecting] = []
    while left:
        ready = [
            each
            for each in left.values()
            if not any(reading.query in left for reading in each.inputs.reads)
        ]
        assert ready, "queries that read each other"
        for each in ready:
            del left[each.name]
        ordered += ready
    return ordered
