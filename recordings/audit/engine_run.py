"""Run the audited records through the engine, and measure waits and wrong windows.

The topology is the proposed one. Its results are compared with the truth, in which each number
counts once. If the topology trusts timestamps (`unsynced: trust`), a record counts in the window of
its own timestamp, as in the truth of the plain jobs. If the topology corrects clocks (`estimate`),
a record counts in the window of its corrected timestamp.

A window is wrong at first if its first result differs from the truth, or is missing. It is wrong at
last if the result after the last correction differs. The input has an end, so all buffered events
are emitted.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from recordings.audit.spool import NONE, Spool
from topology.base.event import DATA, NO_EPOCH, Event
from topology.base.outcome import Step
from topology.base.result import RETRACT, WindowResult
from topology.config import Topology
from topology.records.line_reader import MAX_ARRIVAL_NS
from topology.stage.batches import batches
from topology.stage.replay import Replay

COUNT: Final = "n"
"""The name of the query's aggregate."""


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """The figures of a run through the engine.

    Attributes:
        waits_ns: The time for which each event waited.
        at_first: The windows that are wrong at first, by number.
        at_last: The windows that are wrong at last, by number.
        dead: The number of records that the engine refuses, such as those stamped more than
            `max_ahead` after their arrival.
    """

    waits_ns: array[int]
    at_first: set[int]
    at_last: set[int]
    dead: int


def run_through_engine(
    topology: Topology,
    spool: Spool,
    names: list[str],
    length_ns: int,
    advance: Callable[[int], object] = lambda _: None,
) -> EngineFigures:
    """Run the rows through the engine, and return the figures of the run.

    The cost is that of a replay. Memory: two numbers for each event.

    Args:
        topology: A topology with one stream, and one query that counts by window.
        spool: The rows.
        names: The names of the sources, by number.
        length_ns: The length of the windows.
        advance: A function that is called with the number of rows of each batch.
    """
    run = _Run(length_ns)
    replay = Replay(topology)
    for contents, until_ns in batches(run.events(topology, spool, names)):
        advance(len(contents))
        if (step := replay.on_inputs(contents, until_ns)) is not None:
            run.note(step)
    if (step := replay.on_end()) is not None:
        run.note(step)
    truth = Counter(window for window in run.windows if window != NONE)
    released = len(run.waits_ns)
    return EngineFigures(
        run.waits_ns,
        _find_differing(run.first, truth),
        _find_differing(run.last, truth),
        max(0, truth.total() - released),
    )


def _find_differing(found: Mapping[int, int], truth: Mapping[int, int]) -> set[int]:
    return {w for w in found.keys() | truth.keys() if found.get(w, 0) != truth.get(w, 0)}


class _Run:
    """The output of a run.

    Attributes:
        first: The count in the first result of each window.
        last: The count in the last result of each window.
        windows: The number of the window of each row; NONE for a duplicate.
    """

    def __init__(self, length_ns: int) -> None:
        self._length_ns = length_ns
        self.windows = array("q")
        self.waits_ns = array("q")
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}

    def events(self, topology: Topology, spool: Spool, names: list[str]) -> Iterator[Event]:
        ((stream, config),) = topology.streams.items()
        unnumbered = -1 if config.reorder.numbered else 0
        needs_number = config.reorder.numbered and not config.reorder.is_mixed
        length_ns, note_window = self._length_ns, self.windows.append
        for line, values in enumerate(spool.values()):
            ts_ns, at_ns, _, seq, epoch, machine, _, digest, copy = values
            note_window(NONE if copy else ts_ns // length_ns)
            if seq == NONE and (needs_number or copy):
                continue  # The record would be a dead letter, or a duplicate by its id.
            event = Event(
                stream,
                names[machine],
                NO_EPOCH if epoch == NONE else epoch,
                line ^ unnumbered if seq == NONE else seq,
                ts_ns,
                min(at_ns, MAX_ARRIVAL_NS) if at_ns > 0 else 0,
                line,
            )
            event.digest = digest
            yield event

    def note(self, step: Step) -> None:
        windows, length_ns, note_wait = self.windows, self._length_ns, self.waits_ns.append
        for event in step.released:
            if event.kind == DATA:
                note_wait(event.at_ns - event.arrival_ns)
                if windows[event.offset] != NONE:
                    windows[event.offset] = event.ref_time_ns // length_ns
        for result in step.results:
            if isinstance(result, WindowResult):
                window = result.start_ns // self._length_ns
                count = 0 if result.op == RETRACT else result.values[COUNT]
                self.first.setdefault(window, count)
                self.last[window] = count
