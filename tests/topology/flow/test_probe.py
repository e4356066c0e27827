"""Examples: a probe sees each batch as an operator has let it go, and changes no answer."""

from __future__ import annotations

from collections.abc import Sequence

from tests.laws.streams import raw
from topology.config import parse
from topology.flow.probe import Probe
from topology.flow.stage import Stage
from topology.model.event import DATA, Event

OPERATORS = ("reorder", "clock", "merge")
TOPOLOGY = """\
streams: {default: {reorder: {rule: fixed, max_wait: 50ms}, clock: {unsynced: trust}}}
topics: {partitions: 1}
"""
Seen = list[tuple[str, str, int, int, int]]


class Notes(Probe):
    def __init__(self) -> None:
        self.seen: Seen = []

    def entered(self, events: Sequence[Event]) -> None:
        self._note("", events)

    def left(self, operator: str, events: Sequence[Event]) -> None:
        self._note(operator, events)

    def _note(self, where: str, events: Sequence[Event]) -> None:
        self.seen += [(where, e.source, e.epoch, e.seq, e.at_ns) for e in events if e.kind == DATA]


def rendered(seed: int, probe: Probe | None) -> Seen:
    stage = Stage(parse(TOPOLOGY), OPERATORS)
    if probe is not None:
        stage.show(probe)
    events = raw(seed)
    steps = [
        stage.on_batch(events[at : at + 7], events[min(at + 6, len(events) - 1)].at_ns)
        for at in range(0, len(events), 7)
    ]
    steps.append(stage.on_end(events[-1].at_ns + 1_000_000_000))
    return [
        ("merge", e.source, e.epoch, e.seq, e.at_ns)
        for s in steps
        for e in s.released
        if e.kind == DATA
    ]


def test_it_sees_what_leaves_and_when() -> None:
    for seed in range(5):
        notes = Notes()
        released = rendered(seed, notes)
        assert released == rendered(seed, None), "a probe changes no answer"
        assert [each for each in notes.seen if each[0] == "merge"] == released
        came = [each for each in notes.seen if each[0] == ""]
        assert len(came) == sum(event.kind == DATA for event in raw(seed))
        left: dict[tuple[str, int, int], int] = {}
        for where, source, epoch, seq, at_ns in notes.seen:
            if where == "reorder":
                left.setdefault((source, epoch, seq), at_ns)
        assert left
        assert all(left[each[1:4]] <= each[4] for each in released)
