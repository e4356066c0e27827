"""Example tables of good topology files."""

from __future__ import annotations

from typing import Any

import pytest

from inorder.contract import PRESETS
from topology.config import MergeConfig, ReorderConfig, StageConfig, StreamConfig, Topology, parse
from topology.config.resolved import resolve_stream

MINIMAL = "streams: {default: {}}\n"
DEFAULT = ("reorder", "merge", "window", "pattern", "join")


@pytest.mark.parametrize(
    "source",
    [
        MINIMAL,
        "streams:\n  default:\n",
        b"streams: {default: }",
        {"streams": {"default": None}},
        {"streams": {"default": {"headers": None, "reorder": None, "clock": {}, "merge": None}}},
        "streams: {default: {}}\nqueries: {}\n",
        "streams: {default: {}}\nqueries:\ntopics:\n",
    ],
)
def test_default_stream_is_enough(source: Any) -> None:
    assert parse(source) == Topology(streams={"default": StreamConfig()})


def test_derived_defaults_are_resolved() -> None:
    """MERGE takes settings from other sections, and the stages have defaults too."""
    topology = parse(MINIMAL)
    stream = resolve_stream(topology, "default")
    assert (stream.input, stream.output) == ("events.raw", "events.ordered")
    assert stream.merge.reorder == stream.reorder
    assert (stream.merge.heartbeat_ns, stream.merge.correct_for_ns) == (200_000_000, 600 * 10**9)
    assert stream.merge.expected_sources == ()
    assert stream.merge.new_source_allowance_ns is None
    assert (stream.clock.max_behind_ns, stream.clock.granularity_ns) == (2**63 - 1, None)
    (stage,) = topology.stages
    assert (stage.name, stage.operators) == ("all", DEFAULT)
    assert (topology.topics.replication, topology.topics.resend) == (None, None)


EVERY_KEY = """
streams:
  pitch:
    input: football.raw
    output: football.ordered
    headers: {preset: cloudevents, ts_unit: ms, sig: seal}
    reorder: {rule: fixed, miss_target: 0.1%, max_wait: 1.5s, late: side,
              start: zero, infer_restart: false, seq_bits: 16, max_jump: 10, max_held: 11,
              max_held_bytes: 1.5 KiB, max_sources: 13, forget_after: 2d,
              gap_memory: 90min}
    clock: {sync: none, unsynced: trust, max_ahead: 5min, max_error: 50us}
    merge: {miss_target: 1e-2, max_wait: 0ms, idle_after: 7ns, max_queued: 15,
            expected_sources: [a, "1"], new_source_allowance: 0s}
stages: [ reorder + merge , window ]
queries: {}
delivery: at_least_once
checkpoint: 1s
application: my.app_1-x
topics: {partitions: 1, replication: 1, sequenced: s, gaps: g, late: l, dead: d, clock: c}
state: memory
redis: unix:///run/redis.sock
watermark: false
tick_lag: 0ns
spill_after: 1s
correct_for: 0s
transaction_timeout: 20s
"""


def test_every_key_is_read() -> None:
    topology = parse(EVERY_KEY)
    stream = resolve_stream(topology, "pitch")
    assert stream.reorder == ReorderConfig(
        rule="fixed",
        miss_target_ppm=1_000,
        max_wait_ns=1_500_000_000,
        late="side",
        start="zero",
        infer_restart=False,
        seq_bits=16,
        max_jump=10,
        max_held=11,
        max_held_bytes=1_536,
        max_sources=13,
        forget_after_ns=2 * 86_400 * 10**9,
        gap_memory_ns=5_400 * 10**9,
    )
    assert stream.reorder.start == 0
    assert stream.merge == MergeConfig(
        miss_target_ppm=10_000,
        max_wait_ns=0,
        idle_after_ns=7,
        max_queued=15,
        reorder=stream.reorder,
        heartbeat_ns=0,
        correct_for_ns=0,
        expected_sources=("a", "1"),
        new_source_allowance_ns=0,
    )
    assert (stream.clock.max_ahead_ns, stream.clock.max_error_ns) == (300 * 10**9, 50_000)
    of_reorder = stream.reorder.max_sources, stream.reorder.forget_after_ns
    assert (stream.clock.max_sources, stream.clock.forget_after_ns) == of_reorder
    assert stream.headers.names() == PRESETS["cloudevents"]._replace(sig="seal")
    assert topology.stages == (StageConfig(("reorder", "merge")), StageConfig(("window",)))
    assert topology.fused
    assert topology.topics.partitions == 1
    assert (topology.watermark, topology.stuck_after_ns) == (False, 80 * 10**9)


@pytest.mark.parametrize(
    ("stream", "granularity_ns"),
    [
        ("headers: {ts_unit: us}", 1_000),
        ("fields: {source: key, seq: payload.n}, ts_unit: ms", 1_000_000),
        ("headers: {ts_unit: ms}, clock: {granularity: 0ns}", 0),
        ("headers: {ts_unit: ns}", None),
    ],
)
def test_granularity_follows_the_unit(stream: str, granularity_ns: int | None) -> None:
    found = resolve_stream(parse(f"streams: {{a: {{{stream}}}}}"), "a").clock
    assert found.granularity_ns == granularity_ns
    assert found.play.granularity_ns == (granularity_ns or 0)


def test_anchors_share_settings() -> None:
    topology = parse(
        "streams:\n"
        "  a: &base {reorder: {rule: fixed}}\n"
        "  b: *base\n"
        "  c: {<<: *base, merge: {max_wait: 1s}}\n"
    )
    assert topology.streams["b"] == topology.streams["a"]
    assert topology.streams["c"].reorder.rule == "fixed"


def test_default_wait_can_be_written() -> None:
    assert parse("streams: {a: {merge: {wait: delay}}}") == parse("streams: {a: {}}")
