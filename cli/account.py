"""What a replay and a backfill have in common: their steps are counted, and told at the end.

At the end they say what looks wrong, the account, and by the exit code whether anything was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import click

from agents.exits import Exit
from cli.summary import Summary
from topology.config import StreamConfig
from topology.flow.batches import batches
from topology.flow.replay import Replay
from topology.model.event import DATA, Event
from topology.model.outcome import Malformed, Step
from topology.wire.line_reader import Content


def passed(
    replay: Replay,
    contents: Iterable[Content],
    summary: Summary,
    *,
    counts_clocks: bool = True,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[Step]:
    """The steps of what comes in; counts go to `summary`, and to `advance` how many came."""
    for inputs, until_ns in batches(contents):
        advance(len(inputs))
        taken = [each for each in inputs if isinstance(each, Event | Malformed)]
        if counts_clocks:
            summary.took_clock_lines(len(inputs) - len(taken))
        summary.read(taken)
        step = replay.on_inputs(inputs, until_ns)
        if step is not None:
            summary.said(step)
            yield step


def left(replay: Replay, streams: Iterable[StreamConfig], summary: Summary) -> None:
    """What is held still, and what the operators counted; `streams` are those of the replay."""
    summary.holds(event for event in replay.held() if event.kind == DATA)
    figures = replay.figures()
    summary.left_out(figures)
    summary.clocks(
        each
        for each, stream in zip(figures, streams, strict=True)
        if stream.clock.unsynced == "estimate"
    )


def told_at_end(summary: Summary, *, as_json: bool) -> None:
    """On standard error. Ends the command by NOTHING_USABLE where no line could be read."""
    warn_of(summary)
    if (moved := summary.estimated()) is not None:
        click.echo(moved, err=True)
    click.echo(summary.json() if as_json else summary.table(), err=True)
    if summary.all_unread:
        raise SystemExit(Exit.NOTHING_USABLE)


def warn_of(summary: Summary, when: str = "") -> None:
    if (alarm := summary.alarm()) is not None:
        warn(when + alarm)


def warn(word: str) -> None:
    click.echo(f"WARNING: {word}", err=True)
