"""Examples: steps are told by the checkpoint that makes them true, and by no other."""

from __future__ import annotations

import asyncio
from collections import Counter

from sinks.otlp.budget import Budget, Steps
from sinks.otlp.export import SENT
from sinks.otlp.sampling import Sampling
from sinks.otlp.tracing import PartitionTraces, Tracing, keyed
from tests.sinks.otlp.collector import collecting
from topology.config import parse
from topology.flow.stage import Stage
from topology.model.event import Event

TOPOLOGY = """\
streams: {default: {reorder: {rule: fixed, max_wait: 50ms}, clock: {unsynced: trust}}}
topics: {partitions: 1}
queries:
  tumbling: {window: tumbling 1s, key: payload.player, aggregate: {n: count()}}
  session: {window: session 1s, key: payload.player, aggregate: {n: count()}}
  count: {window: count 9, aggregate: {n: count()}}
"""
MS = 1_000_000
OPERATORS = ("reorder", "clock", "merge", "window")


def event(seq: int) -> Event:
    value = b'{"player": 1}'
    return Event("default", "s", 0, seq, seq * MS, (seq + 1) * MS, value=value)


def told(traces: PartitionTraces, seq: int) -> None:
    traces.probe.left("reorder", [event(seq)])
    traces.probe.left("merge", [event(seq)])


def test_a_checkpoint_that_fails_tells_nothing() -> None:
    got: list[tuple[Steps, int]] = []
    traces = PartitionTraces(
        Budget(Sampling(1), OPERATORS), lambda steps, left_out: got.append((steps, left_out))
    )
    told(traces, 0)
    traces.cut()
    told(traces, 1)  # while it is on its way
    traces.committed()
    assert [each.who[3] for steps, _ in got for each in steps.travelled] == [0]
    traces.cut()
    traces.probe.left_out += 2
    traces.committed()
    traces.cut()
    traces.committed()
    assert [each.who[3] for steps, _ in got for each in steps.travelled] == [0, 1]
    assert [left_out for _, left_out in got] == [0, 2]


def test_queries_whose_windows_are_told_key_by_key() -> None:
    assert set(keyed(parse(TOPOLOGY))) == {"session", "count"}


def test_a_stage_that_runs_is_traced_from_end_to_end() -> None:
    topology = parse(TOPOLOGY)
    counts: Counter[str] = Counter()

    async def run(url: str) -> None:
        url += "/v1/traces"
        tracing = Tracing(url, 1, topology, OPERATORS, {}, lambda o, n: counts.update({o: n}))
        traces = tracing.of_partition()
        stage = Stage(topology, OPERATORS)
        stage.show(traces.probe)
        for seq in range(40):
            traces.found(stage.on_batch([event(100 * seq)], (100 * seq + 1) * MS).results)
            traces.found(stage.on_time((100 * seq + 90) * MS).results)
        traces.cut()
        traces.committed()
        await tracing.close()

    with collecting() as collector:
        asyncio.run(run(collector.url))
    found = collector.traces()
    assert counts[SENT] >= len(found) > 20
    with_window = [each for each in found.values() if any(s.name == "window" for s in each)]
    assert with_window
    for spans in with_window:
        (root,) = (span for span in spans if span.name == "event")
        parts = [s for s in spans if s.name not in {"event", "window"}]
        assert sum(span.took_ns for span in parts) == root.took_ns
        assert all(s.parent == root.span for s in spans if s is not root)
