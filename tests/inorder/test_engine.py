"""Examples and laws: topologies in code say what files say, and replay as the command does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inorder.engine import (
    Aggregate,
    ClockConfig,
    ClockOffset,
    Function,
    HeaderConfig,
    QueryConfig,
    RawEvent,
    ReorderConfig,
    StreamConfig,
    Topology,
    TopologyError,
    Window,
    parse,
    pattern,
    replay,
)
from inorder.records import DeadRecord, MatchRecord, OrderedEvent, WindowRecord, record_of
from tests.cli.invoking import inorder
from topology.pattern.tree.errors import QueryRefused

SECOND_NS = 1_000_000_000
FILE = """\
streams:
  default: {clock: {unsynced: trust}, reorder: {max_wait: 300ms}}
queries:
  pair: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}
  load: {window: tumbling 1s, aggregate: {n: count(), mean: avg(payload.x)}}
"""
TRUSTED = StreamConfig(
    clock=ClockConfig(unsynced="trust"), reorder=ReorderConfig(max_wait_ns=300_000_000)
)
IN_CODE = Topology(
    streams={"default": TRUSTED},
    queries={
        "pair": QueryConfig(pattern=pattern("PATTERN SEQ(A a, B b) WITHIN 1 s")),
        "load": QueryConfig(
            window=Window("tumbling", SECOND_NS),
            aggregate={"n": Aggregate("count"), "mean": Aggregate("avg", ("payload", "x"))},
        ),
    },
)


def events(count: int = 40) -> list[RawEvent]:
    """Two sources take turns; every seventh event comes later than the two behind it."""
    made = [
        RawEvent(
            source=f"s{at % 2}",
            seq=at // 2,
            ts_ns=at * 100_000_000,
            arrival_ns=(at + (2 if at % 7 == 0 else 0)) * 100_000_000,
            type="AB"[at // 2 % 2],
            payload={"x": at},
        )
        for at in range(count)
    ]
    return sorted(made, key=lambda event: event.arrival_ns or 0)


def test_code_and_file_are_the_same_value() -> None:
    assert parse(FILE) == IN_CODE


def test_law_a_replay_says_what_the_command_says(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(FILE)
    lines = [json.dumps(event.line()) for event in events()] + ['{"source": 3}']
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    done = inorder("replay", "--topology", tmp_path / "t.yaml", tmp_path / "events.jsonl")
    told = [record_of(line) for line in done.out.splitlines()]
    assert list(replay(IN_CODE, [*events(), {"source": 3}])) == told
    assert {OrderedEvent, MatchRecord, WindowRecord, DeadRecord} <= {type(each) for each in told}


def test_records_come_as_inputs_go() -> None:
    endless = iter(RawEvent(source="s", seq=at, ts_ns=at * SECOND_NS) for at in range(10**9))
    assert isinstance(next(replay(IN_CODE, endless)), OrderedEvent)


def test_what_is_open_stays_open() -> None:
    said = list(replay(IN_CODE, [RawEvent(source="s", seq=5, ts_ns=0)], to_end=False))
    assert said == []


def test_an_offset_moves_the_times() -> None:
    offset = ClockOffset(source="s", at_ns=0, offset_ns=5, error_ns=2)
    topology = Topology(streams={"default": StreamConfig()})
    (said,) = (
        each
        for each in replay(topology, [offset, RawEvent(source="s", seq=0, ts_ns=100)])
        if isinstance(each, OrderedEvent)
    )
    assert (said.ref_time_ns, said.error_ns) == (105, 2)


def test_times_of_raw_events_are_ns_whatever_the_file_says_of_the_wire() -> None:
    in_ms = Topology(
        streams={"default": StreamConfig(headers=HeaderConfig(ts_unit="ms"), clock=TRUSTED.clock)}
    )
    raw = RawEvent(source="s", seq=0, ts_ns=1_000_001)
    (said,) = (each for each in replay(in_ms, [raw]) if isinstance(each, OrderedEvent))
    assert said.ts_ns == 1_000_001


def spread() -> Function:
    return Function(
        init=lambda: (float("inf"), float("-inf")),
        add=lambda state, value: (min(state[0], value), max(state[1], value)),
        combine=lambda one, other: (min(one[0], other[0]), max(one[1], other[1])),
        value=lambda state: state[1] - state[0],
    )


def test_functions_of_ones_own() -> None:
    near = pattern("PATTERN SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 9 s", functions=["near"])
    topology = Topology(
        streams={"default": TRUSTED},
        queries={
            "pair": QueryConfig(pattern=near),
            "span": QueryConfig(
                window=Window("tumbling", SECOND_NS),
                aggregate={"wide": Aggregate("spread", ("payload", "x"))},
            ),
        },
    )
    with pytest.raises(TopologyError) as refused:
        replay(topology, [])
    assert [problem.path for problem in refused.value.problems] == [
        "queries.pair.pattern",
        "queries.span.aggregate.wide",
    ]
    whole = topology.with_functions({"near": lambda a, b: abs(a - b) < 3}, {"spread": spread()})
    told = list(replay(whole, events()))
    assert any(isinstance(each, MatchRecord) for each in told)
    windows = [each for each in told if isinstance(each, WindowRecord)]
    assert windows[0].values == {"wide": 9}


def test_a_bad_pattern_is_refused_with_its_place() -> None:
    with pytest.raises(QueryRefused, match="line 1"):
        pattern("PATTERN SEQ(A a, B b")


@pytest.mark.parametrize(
    "asked", ["import inorder.engine", "import inorder.testing", "from inorder import Topology"]
)
def test_where_the_engine_is_missing_it_is_said_what_to_install(asked: str) -> None:
    program = f"import sys; sys.modules['topology'] = None; {asked}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == (
        "ImportError: topologies in code are a part of the engine; pip install inorder-engine"
    )
