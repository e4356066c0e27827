"""Law: time passes alike for all streams, however the input is cut and whoever runs it.

The topologies are drawn, over several streams of which some become silent
(`tests.laws.many_streams`). A replay's output is the same, line by line, for batches of 1, 7, 64
and 256 lines and for all at once. Independent groups of streams, each replayed separately in
different batches, together give the output of one replay, byte for byte. A stage as a worker runs
it, cut within instants and ticked in between, gives the same lines; their order within an instant
may differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from typing import Final

import pytest

from tests.laws.many_streams import contents_of, text_of, topology_of
from tests.seeds import seeds_of_today
from topology.base.event import Event
from topology.base.outcome import Malformed, Step
from topology.base.sample import Declared, Sample
from topology.config import Topology
from topology.order.clock.drift_table import DriftTable
from topology.records.json_lines import encode_line, make_step_lines
from topology.records.line_reader import Content
from topology.stage.batches import batches
from topology.stage.instants import whole_instants
from topology.stage.replay import Replay, group_all_streams
from topology.stage.stage import Stage

SEEDS: Final = seeds_of_today(8)
CUTS: Final = (1, 7, 64, 1 << 30)
KINDS: Final = {"event", "gap", "late", "duplicate", "dead", "window", "match", "join"}


def test_batches_do_not_change_output(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        topology = topology_of(seed)
        try:
            whole = lines(replayed(topology, seed), topology)
            for cut in CUTS:
                with monkeypatch.context() as patch:
                    patch.setattr("topology.stage.batches.BATCH", cut)
                    assert lines(replayed(topology, seed), topology) == whole, f"cut {cut}"
            with monkeypatch.context() as patch:
                patch.setattr("topology.stage.batches.BATCH", 10)
                assert lines([together(topology, seed)], topology) == whole
            worked = lines(worker_steps(topology, seed), topology)
            assert sorted(worked) == sorted(whole)
        except AssertionError as failure:
            failure.add_note(f"seed {seed}\n{text_of(seed)}")
            raise
        kinds.update(line.split(b'"', 4)[3].decode() for line in whole)
    assert kinds.keys() >= KINDS


def lines(steps: Iterable[Step], topology: Topology) -> list[bytes]:
    """Return the lines that a replay prints."""
    return [
        encode_line(line)
        for step in whole_instants(steps, topology)
        for line in make_step_lines(step)
    ]


def replayed(topology: Topology, seed: int) -> Iterator[Step]:
    return steps_of(Replay(topology), contents_of(topology, seed))


def steps_of(
    replay: Replay, contents: Iterable[Content], end_ns: int | None = None
) -> Iterator[Step]:
    """Return the steps of a replay; for a part of the input, `end_ns` is the last arrival of the
    whole.
    """
    steps = [replay.on_inputs(*batch) for batch in batches(contents)]
    if end_ns is not None:
        steps.append(replay.on_other_input(end_ns))
    return (step for step in [*steps, replay.on_end()] if step is not None)


def together(topology: Topology, seed: int) -> Step:
    """Return the output of all groups, each replayed separately, and of other contents."""
    contents = contents_of(topology, seed)
    end_ns = max(each.at_ns for each in contents if not isinstance(each, Sample | Declared))
    whole = Step(end_ns)
    for streams in [*group_all_streams(topology), []]:
        own = [each for each in contents_of(topology, seed) if concerns(each, streams, topology)]
        for step in steps_of(Replay(topology, streams), own, end_ns):
            whole.released += step.released
            whole.reports += step.reports
            whole.results += step.results
    return whole


def concerns(content: Content, streams: list[str], topology: Topology) -> bool:
    if isinstance(content, Sample | Declared):
        return True
    return content.stream in streams or not (streams or content.stream in topology.streams)


def worker_steps(topology: Topology, seed: int) -> Iterator[Step]:
    """Yield the steps of a worker: batches end anywhere, and the clock ticks during silences."""
    rng = Random(seed)
    table = DriftTable()
    stage = Stage(topology, topology.operators, table=table)
    inputs: list[Event | Malformed] = []
    for each in contents_of(topology, seed):
        if isinstance(each, Sample | Declared):
            table.add(each)
        else:
            inputs.append(each)
    at, now_ns = 0, inputs[0].at_ns
    while at < len(inputs):
        batch = inputs[at : at + rng.choice((0, 1, 1, 2, 3, 10, 50))]
        at += len(batch)
        now_ns = batch[-1].at_ns if batch else now_ns
        yield stage.on_batch(batch, now_ns)
        for _ in range(rng.choice((0, 1, 3))):
            if at < len(inputs) and inputs[at].at_ns > now_ns:
                now_ns = rng.randrange(now_ns, inputs[at].at_ns)
                yield stage.on_time(now_ns)
    yield stage.on_end(now_ns)
