"""Runs a whole topology in this process on given events, without Kafka and without a real clock.

`inorder replay`, the Python API and the test kit all run this class, so a recording has the same
outcomes in all of them. All streams share one clock, the arrival time of the inputs. So an input of
one stream also advances time for the quiet ones, up to the last input. `topology.stage.batches`
sets the time up to which each batch is processed. Without input, the caller advances time by
`on_time`.

Streams that no join connects (`group_all_streams`) may run in separate replays, one for each group,
with the same outcomes. Such a replay gets the inputs of its streams and all clock reports. At the
end it gets the last arrival of the whole input (`on_other_input`). A record that names no stream of
the topology is a dead letter and belongs to no group. A replay without streams reports it.

Clock reports are kept while events may still need them (`topology.stage.clock_reports`).

Cost: that of the operators. Callers that use `topology.stage.instants.whole_instants` also sort the
outcomes of each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from topology.base.event import Event, offset_of
from topology.base.field_use import FieldUse
from topology.base.operator import Changes, Figures, State
from topology.base.outcome import Malformed, Step
from topology.base.sample import Declared, Sample
from topology.config import Topology
from topology.config.stages import DETECTOR
from topology.order.clock.drift_table import DriftTable
from topology.records.line_reader import Content
from topology.stage.clock_reports import ClockReports
from topology.stage.registry import group_by_joins
from topology.stage.stage import Stage


class SavedReplay(NamedTuple):
    """The saved state of a replay.

    `now_ns` is None before the first input, when only clock reports have arrived. `held` has copies
    of the events that operators keep, in the order of their lines, with the places at which they
    are kept (`topology.stage.ledger`). `words` are the clock reports that may still be needed.
    """

    now_ns: int | None
    state: State
    held: dict[Event, int]
    words: list[Sample | Declared]


class Replay:
    """A replay: all operators of a topology that have work, as one stage.

    `streams` restricts the replay to these streams (default: all). `reads_reports` is false for a
    replay that gets only records that name no stream: it keeps no clock reports. `now_ns` is the
    arrival of the last input, or the last time given to `on_time`. It is None before the first.

    With `by_lane`, the inputs are those of several partitions, in the order of a task's alignment.
    Each event has the number of its lane (`topology.stage.by_lane`). Such a replay cannot be saved.
    """

    def __init__(
        self,
        topology: Topology,
        streams: Iterable[str] | None = None,
        *,
        reads_reports: bool = True,
        by_lane: bool = False,
    ) -> None:
        self.topology = topology
        self._streams = list(topology.streams if streams is None else streams)
        self._table = DriftTable()
        self._stage = Stage(
            topology,
            topology.operators,
            streams=self._streams,
            table=self._table,
            is_aligned=by_lane,
        )
        # The CLOCKs of these streams determine which reports are kept.
        self._stage.begin(self._streams)
        self._reads_reports = reads_reports
        self._reports = ClockReports(self._table, self._stage)
        self.now_ns: int | None = None

    def on_inputs(self, inputs: Sequence[Content], until_ns: int | None = None) -> Step | None:
        """Return the outcomes of these inputs, or None if all of them are clock reports.

        The inputs are in the order of arrival. `until_ns` is the arrival of the next one
        (`topology.stage.batches`), or None if that is not known yet.

        A clock report affects no event that arrived before it. ValueError is raised if an input
        arrived before the last one of an earlier call.
        """
        taken: list[Event | Malformed] = []
        for each in inputs:
            if isinstance(each, Sample | Declared):
                if self._reads_reports:
                    self._reports.add(each)
            else:
                taken.append(each)
        if not taken:
            return None
        now_ns = taken[-1].at_ns
        self._advance_time(now_ns)
        step = self._stage.on_batch(taken, now_ns if until_ns is None else until_ns)
        self._reports.fold_if_due(now_ns)
        return step

    def on_other_input(self, now_ns: int) -> Step:
        """Advance time to the arrival of an input for other streams, and return the outcomes."""
        self._advance_time(now_ns)
        return self._stage.on_batch((), now_ns)

    def on_time(self, now_ns: int) -> Step:
        """Advance time to `now_ns` without an input, and return the outcomes."""
        self._advance_time(now_ns)
        return self._stage.on_time(now_ns)

    def on_end(self) -> Step | None:
        """End the input and emit the buffered events in order; return None without any input."""
        return None if self.now_ns is None else self._stage.on_end(self.now_ns)

    def iter_held(self) -> Iterable[Event]:
        """Return the buffered events, including control events."""
        return self._stage.waiting()

    def copy_held(self) -> dict[Event, int]:
        """Return copies of the events that operators keep, with their places."""
        return self._stage.copy_held()

    def save(self) -> SavedReplay | None:
        """Return all state that a new replay needs to continue, or None before any input."""
        if self.now_ns is None:
            words = self._table.words()
            return SavedReplay(None, {}, {}, words) if words else None
        self._reports.fold(self.now_ns)
        copies = self._stage.copy_held()
        held = {event: copies[event] for event in sorted(copies, key=offset_of)}
        state = self._stage.snapshot() | self._reports.snapshot()
        return SavedReplay(self.now_ns, state, held, self._table.words())

    def changes(self) -> Changes:
        """Return the changes of the saved state since the last call; a removed key has None."""
        return self._stage.changes() | self._reports.changes()

    def next_deadline_ns(self) -> int | None:
        """Return the time before which nothing is due without new input, or None."""
        return self._stage.next_deadline_ns()

    def restore(self, saved: SavedReplay) -> None:
        """Continue from a saved state; this replay must have had no input yet."""
        for word in saved.words if self._reads_reports else ():
            self._reports.add(word)
        self._reports.restore(saved.state)
        if saved.now_ns is not None:
            self._stage.ledger.add(saved.held)
            self._stage.restore(saved.state, saved.held)
            self.now_ns = saved.now_ns

    @property
    def queries(self) -> list[str]:
        """The queries that read these streams, without detectors, whose needs are unknown."""
        if not self._reads_reports:
            return []
        return [
            name
            for name, query in self.topology.queries.items()
            if query.kind != DETECTOR and self.topology.read_by(query) <= {*self._streams}
        ]

    def figures(self) -> list[Figures]:
        """Return one dict of figures for each stream, in the order of the topology."""
        return [self._stage.figures_of(stream) for stream in self._streams]

    def field_uses(self) -> list[FieldUse]:
        """Return the values that queries left out, by query and field."""
        return [use for stream in self._streams for use in self._stage.field_uses_of(stream)]

    def _advance_time(self, now_ns: int) -> None:
        if self.now_ns is not None and now_ns < self.now_ns:
            raise ValueError(f"time cannot go back from {self.now_ns} ns to {now_ns} ns")
        self.now_ns = now_ns


def group_all_streams(topology: Topology) -> list[list[str]]:
    """Return all streams grouped by the joins that connect them, in the order of the file."""
    return group_by_joins(topology, topology.streams)
