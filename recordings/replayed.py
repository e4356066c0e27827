"""Replay a recording through a topology, and count its steps in a summary.

`inorder replay` runs `replay_lines` in one process. Spark's backfill calls `run_steps` and
`add_left` for each group of streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from recordings.summary import Summary
from topology.base.event import DATA, Event
from topology.base.outcome import Duplicate, Late, Malformed, Step
from topology.config import StreamConfig, Topology
from topology.records.line_reader import Content, peek_arrivals
from topology.stage.batches import batches
from topology.stage.lanes import offset_in_lane
from topology.stage.replay import Replay

Advance = Callable[[int], object]


def replay_lines(
    topology: Topology,
    lines: Iterable[Content],
    summary: Summary,
    to_end: bool = True,
    advance: Advance = lambda _: None,
    *,
    by_lane: bool = False,
) -> Iterator[Step]:
    """Yield the steps of the whole topology over the lines, and count them in `summary`.

    With `by_lane`, the lines are those of several partitions (`recordings.laned`).
    """
    has_arrivals, contents = peek_arrivals(lines)
    running = topology if has_arrivals else summary.without_arrivals(topology)
    replay = Replay(running, by_lane=by_lane)
    yield from run_steps(replay, contents, summary, advance=advance)
    if to_end and (step := replay.on_end()) is not None:
        _number_lines(step)
        summary.count_step(step)
        yield step
    add_left(replay, running.streams.values(), summary)


def run_steps(
    replay: Replay,
    contents: Iterable[Content],
    summary: Summary,
    *,
    counts_clocks: bool = True,
    advance: Advance = lambda _: None,
) -> Iterator[Step]:
    """Yield the steps of the inputs, and count them in `summary`.

    `advance` is called with the number of inputs in each batch. With `counts_clocks`, clock lines
    are counted too.
    """
    summary.check_queries(replay.topology)
    for inputs, until_ns in batches(contents):
        advance(len(inputs))
        taken = [each for each in inputs if isinstance(each, Event | Malformed)]
        if counts_clocks:
            summary.count_clock_lines(len(inputs) - len(taken))
        summary.read(taken)
        step = replay.on_inputs(inputs, until_ns)
        if step is not None:
            _number_lines(step)
            summary.count_step(step)
            yield step


def _number_lines(step: Step) -> None:
    """Give reported lines their line numbers again, without the number of their lane."""
    for report in step.reports:
        if isinstance(report, Malformed):
            report.offset = offset_in_lane(report.offset)
        elif isinstance(report, Late | Duplicate):
            report.event.offset = offset_in_lane(report.event.offset)


def add_left(replay: Replay, streams: Iterable[StreamConfig], summary: Summary) -> None:
    """Add the events still buffered and the operators' figures to `summary`.

    `streams` has the settings of the replay's streams, in order.
    """
    summary.count_held(event for event in replay.iter_held() if event.kind == DATA)
    figures = replay.figures()
    summary.left_out(figures)
    summary.add_field_uses(replay.field_uses())
    summary.ends(replay.queries)
    summary.clocks(
        each for each, stream in zip(figures, streams, strict=True) if stream.unsynced == "estimate"
    )
