"""Examples and laws: topologies in code match those in files, and `replay` matches the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from inorder.engine import (
    Aggregate,
    ClockConfig,
    Function,
    HeaderConfig,
    PatternQuery,
    QueryRefused,
    RawEvent,
    ReorderConfig,
    StreamConfig,
    Topology,
    TopologyError,
    Window,
    WindowQuery,
    parse,
    pattern,
    replay,
)
from inorder.records import DeadRecord, MatchRecord, OrderedEvent, WindowRecord, record_of
from tests import ROOT
from tests.cli.invoking import inorder
from tests.kit.programs import python

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
        "pair": PatternQuery(pattern=pattern("PATTERN SEQ(A a, B b) WITHIN 1 s")),
        "load": WindowQuery(
            window=Window("tumbling", SECOND_NS),
            aggregate={"n": Aggregate("count"), "mean": Aggregate("avg", ("payload", "x"))},
        ),
    },
)


def events(count: int = 40) -> list[RawEvent]:
    """Return events of two sources in turn; every seventh arrives after the next two."""
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


def test_code_matches_file() -> None:
    assert parse(FILE) == IN_CODE
    assert list(replay(FILE, events())) == list(replay(IN_CODE, events()))
    assert issubclass(TopologyError, ValueError)
    assert issubclass(QueryRefused, ValueError)


def test_law_replay_matches_command(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(FILE)
    lines = [json.dumps(event.line()) for event in events()] + ['{"source": 3}']
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    done = inorder("replay", "--topology", tmp_path / "t.yaml", tmp_path / "events.jsonl")
    told = [record_of(line) for line in done.out.splitlines()]
    assert list(replay(IN_CODE, [*events(), {"source": 3}])) == told
    assert {OrderedEvent, MatchRecord, WindowRecord, DeadRecord} <= {type(each) for each in told}


def test_replay_is_lazy() -> None:
    endless = iter(RawEvent(source="s", seq=at, ts_ns=at * SECOND_NS) for at in range(10**9))
    assert isinstance(next(replay(IN_CODE, endless)), OrderedEvent)


def test_raw_event_ignores_ts_unit() -> None:
    in_ms = Topology(
        streams={"default": StreamConfig(headers=HeaderConfig(ts_unit="ms"), clock=TRUSTED.clock)}
    )
    (said,) = replay(in_ms, [RawEvent(source="s", seq=0, ts_ns=1_000_001)])
    assert isinstance(said, OrderedEvent)
    assert said.ts_ns == 1_000_001


def spread() -> Function:
    return Function(
        init=lambda: (float("inf"), float("-inf")),
        add=lambda state, value: (min(state[0], value), max(state[1], value)),
        combine=lambda one, other: (min(one[0], other[0]), max(one[1], other[1])),
        value=lambda state: state[1] - state[0],
    )


FUNCTIONS = {"near": lambda a, b: abs(a - b) < 3}, {"spread": spread()}
NEAR = pattern("PATTERN SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 9 s", functions=["near"])
OWN = Topology(
    streams={"default": TRUSTED},
    queries={
        "pair": PatternQuery(pattern=NEAR),
        "span": WindowQuery(
            window=Window("tumbling", SECOND_NS),
            aggregate={"wide": Aggregate("spread", ("payload", "x"))},
        ),
    },
)
OWN_FILE = """\
streams: {default: {clock: {unsynced: trust}, reorder: {max_wait: 300ms}}}
functions: formulas.py
queries:
  span: {window: tumbling 1s, aggregate: {wide: spread(payload.x)}}
  pair: {pattern: "PATTERN SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 9 s"}
"""
OWN_TEXT = OWN_FILE.replace("functions: formulas.py\n", "")


@pytest.mark.parametrize(
    "whole",
    [OWN.with_functions(*FUNCTIONS), parse(OWN_FILE, *FUNCTIONS), parse(OWN_TEXT, *FUNCTIONS)],
    ids=["in code", "a file that names its functions", "a file that does not"],
)
def test_custom_functions_are_called(whole: Topology) -> None:
    told = list(replay(whole, events()))
    assert any(isinstance(each, MatchRecord) for each in told)
    windows = [each for each in told if isinstance(each, WindowRecord)]
    assert windows[0].values == {"wide": 9}


def test_missing_functions_are_refused() -> None:
    with pytest.raises(TopologyError) as refused:
        replay(OWN, [])
    assert [problem.path for problem in refused.value.problems] == [
        "queries.pair.pattern",
        "queries.span.aggregate.wide",
    ]
    with pytest.raises(TopologyError, match=r"functions \(line 2\).*parse\(text, functions="):
        replay(OWN_FILE, [])
    with pytest.raises(
        TopologyError, match="`spread` is not an aggregate.*add it to the `functions` file"
    ):
        replay(OWN_TEXT, [])


def test_bad_pattern_names_its_line() -> None:
    with pytest.raises(QueryRefused, match="line 1"):
        pattern("PATTERN SEQ(A a, B b")
    with pytest.raises(TypeError, match="3 is not text; write it like PATTERN SEQ"):
        pattern(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "asked", ["import inorder.engine", "import inorder.testing", "from inorder import Topology"]
)
def test_missing_engine_has_remedy(asked: str) -> None:
    done = python("-c", f"import sys; sys.modules['topology'] = None; {asked}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: topologies in code are a part of the engine; pip install inorder-engine"
    )


def test_hiding_module_is_named(tmp_path: Path) -> None:
    (tmp_path / "topology.py").write_text("")
    done = python("-c", "import inorder.engine", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: `topology` is {tmp_path}/topology.py, which is not the engine's; rename it,"
        " or remove it from the path"
    )


def broken_init() -> None:
    raise ValueError("no state")


@pytest.mark.parametrize(
    ("functions", "aggregates", "said"),
    [
        ({"near": 5}, None, "'near' cannot be called; map the name to a function or a lambda"),
        ({"abs": abs}, None, "'abs' is built in; choose another name"),
        ({"a b": abs}, None, "'a b' is not a name"),
        ([abs], None, "`functions` is not a mapping"),
        (None, {"x": 5}, "the aggregate 'x' is not an inorder.engine.Function; write Function("),
        (None, {"x": Function}, "the aggregate 'x' is not an inorder.engine.Function"),
        (None, {"sum": spread()}, "'sum' is built in"),
        (None, {"x": spread()._replace(add=None)}, "add of 'x' cannot be called"),  # type: ignore[arg-type]
        (None, {"x": spread()._replace(init=broken_init)}, "init() of 'x' fails with ValueError"),
    ],
)
def test_bad_functions_are_refused(functions: Any, aggregates: Any, said: str) -> None:
    for give in (IN_CODE.with_functions, lambda one, other: parse(FILE, one, other)):
        with pytest.raises(TopologyError) as refused:
            give(functions, aggregates)
        assert said in str(refused.value)


@pytest.mark.parametrize(
    ("topology", "inputs", "said"),
    [
        (IN_CODE, None, "inputs is of type NoneType; pass a list of RawEvent"),
        (IN_CODE, {"source": "s"}, "inputs is of type dict; pass a list of"),
        (IN_CODE, "line", "inputs is of type str"),
        (IN_CODE, ["x"], "input 1 is of type str; pass RawEvent"),
        (IN_CODE, [RawEvent(source="s", seq=0), [1]], "input 2 is of type list"),
        (3, [], "3 is not a topology; pass a Topology, or the text of a file"),
        (None, [], "None is not a topology"),
    ],
)
def test_bad_input_type_is_refused(topology: Any, inputs: Any, said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        list(replay(topology, inputs))
