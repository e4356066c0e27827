"""A whole topology in this process, on events that are at hand: no Kafka, no clock but theirs.

`inorder replay`, the Python API and the test kit run this and nothing else, so a recording gives
the same answer in all of them. Time is the arrival clock of what comes in, one for all streams: a
stream that is quiet grows older with every input of the others, up to the last. `on_time` moves it
on where nothing comes. When that happens is defined in `topology.flow.batches`.

Streams that nothing ties together (`groups`) may run apart, each group in a replay of its
own, and say what they say side by side. Such a replay gets what concerns its streams, and all clock
samples; at the end it gets the last arrival of the whole input (`on_others`). A record that names
no stream of the topology is dead and concerns none of them: a replay of no streams reports it.

What has been heard about clocks is kept as far as events may still ask for it
(`topology.flow.heard`).

Cost: that of the operators, and for each step of `whole_instants` a sort of what it emitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from topology.clock.drift_table import DriftTable
from topology.config import Topology
from topology.flow.heard import Heard
from topology.flow.registry import tied
from topology.flow.stage import Stage
from topology.model.event import Event, offset_of
from topology.model.operator import Changes, Figures, State
from topology.model.outcome import Malformed, Step
from topology.model.sample import Declared, Sample
from topology.wire.line_reader import Content


class SavedReplay(NamedTuple):
    """Where a replay stood. `now_ns`: None before the first input, when words alone have come.
    `held`: copies of the events that operators keep, in the order of their lines; `words`:
    what has been heard about clocks and is still of use."""

    now_ns: int | None
    state: State
    held: list[Event]
    words: list[Sample | Declared]


class Replay:
    """All operators of a topology that have work, as one stage. `streams`: of these alone (default:
    all). `hears`: whether words about clocks concern anybody here; a replay that gets only what
    names no stream keeps none. `now_ns`: the arrival of the last input, or the time that `on_time`
    was given; None before the first."""

    def __init__(
        self, topology: Topology, streams: Iterable[str] | None = None, *, hears: bool = True
    ) -> None:
        self.topology = topology
        self._streams = list(topology.streams if streams is None else streams)
        self._table = DriftTable()
        self._stage = Stage(topology, topology.operators, streams=self._streams, table=self._table)
        self._stage.begin(self._streams)  # whose clocks say which words are of use
        self._hears = hears
        self._heard = Heard(self._table, self._stage)
        self.now_ns: int | None = None

    def on_inputs(self, inputs: Sequence[Content], until_ns: int | None = None) -> Step | None:
        """What follows from these, in the order of arrival; None of clock samples alone.
        `until_ns`: when the next one arrives (`topology.flow.batches`); None: nobody knows yet.

        A sample concerns the events that arrive with it or later. ValueError for an arrival
        before the last one."""
        taken: list[Event | Malformed] = []
        for each in inputs:
            if isinstance(each, Sample | Declared):
                if self._hears:
                    self._heard.add(each)
            else:
                taken.append(each)
        if not taken:
            return None
        now_ns = taken[-1].at_ns
        self._advance(now_ns)
        step = self._stage.on_batch(taken, now_ns if until_ns is None else until_ns)
        self._heard.look(now_ns)
        return step

    def on_others(self, now_ns: int) -> Step:
        """Something arrived at `now_ns` that is not for these streams."""
        self._advance(now_ns)
        return self._stage.on_batch((), now_ns)

    def on_time(self, now_ns: int) -> Step:
        """Time goes on to `now_ns`, and nothing comes."""
        self._advance(now_ns)
        return self._stage.on_time(now_ns)

    def on_end(self) -> Step | None:
        """The input is over: what is held leaves in order. None before the first input."""
        return None if self.now_ns is None else self._stage.on_end(self.now_ns)

    def held(self) -> Iterable[Event]:
        """The events that wait, control events too."""
        return self._stage.waiting()

    def held_copies(self) -> list[Event]:
        """Copies of the events that operators keep."""
        return self._stage.held_copies()

    def saved(self) -> SavedReplay | None:
        """All that a fresh one needs to go on from here. None before anything has come."""
        if self.now_ns is None:
            words = self._table.words()
            return SavedReplay(None, {}, [], words) if words else None
        self._heard.fold(self.now_ns)
        held = sorted(self._stage.held_copies(), key=offset_of)
        state = self._stage.snapshot() | self._heard.snapshot()
        return SavedReplay(self.now_ns, state, held, self._table.words())

    def changes(self) -> Changes:
        """The changes of the saved state since the last call; None: the key was removed."""
        return self._stage.changes() | self._heard.changes()

    def next_deadline_ns(self) -> int | None:
        """Up to when nothing is said unless something comes."""
        return self._stage.next_deadline_ns()

    def restore(self, saved: SavedReplay) -> None:
        """Go on from there; for one that has taken nothing yet."""
        for word in saved.words if self._hears else ():
            self._heard.add(word)
        self._heard.restore(saved.state)
        if saved.now_ns is not None:
            self._stage.restore(saved.state, saved.held)
            self.now_ns = saved.now_ns

    @property
    def queries(self) -> list[str]:
        """Those whose events come here, but for detectors: what these look for nobody knows."""
        if not self._hears:
            return []
        return [
            name
            for name, query in self.topology.queries.items()
            if query.detector is None and self.topology.read_by(query) <= {*self._streams}
        ]

    def figures(self) -> list[Figures]:
        """The counts of each of the streams, in the order of the topology."""
        return [self._stage.figures_of(stream) for stream in self._streams]

    def _advance(self, now_ns: int) -> None:
        if self.now_ns is not None and now_ns < self.now_ns:
            raise ValueError(f"time cannot go back: it is {self.now_ns} ns, not {now_ns} ns")
        self.now_ns = now_ns


def groups(topology: Topology) -> list[list[str]]:
    """Return the streams that joins tie together, the groups in the order of the file."""
    return tied(topology, topology.streams)
