"""Laws: a command imports only what it needs, so that it answers at once.

Imports, unlike time, do not depend on the machine.
"""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests import ROOT
from tests.kit.programs import python

HEAVY: Final = (
    *("faust", "aiokafka", "confluent_kafka", "cramjam", "aiohttp", "mode"),
    *("pyarrow", "pyspark", "pandas", "numpy"),
    *("redis", "rocksdict", "psycopg", "prometheus_client"),
    "google.protobuf",
)
SCRIPT: Final = """
import sys
from cli.main import main
try:
    main(sys.argv[1:], prog_name="inorder")
finally:
    print("loaded", *sorted(sys.modules), file=sys.stderr)
"""
TOPOLOGY: Final = "streams: {default: {}}\n"
EVENT: Final = '{"source": "s", "seq": 0, "ts": 1}\n'


def loaded(*arguments: str) -> set[str]:
    done = python("-c", SCRIPT, *arguments)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split("loaded ")[-1].split())


@pytest.mark.parametrize(
    "command",
    [
        *("match --help", "keys --help", "check --defaults"),
        *("check press.yaml", "init press.jsonl", "audit press.jsonl"),
        "audit --source device --seq n --ts time telemetry.csv",
        "replay --topology press.yaml press.jsonl",
        "match --query 'PATTERN SEQ(stroke a) WITHIN 1 s' press.jsonl",
    ],
)
def test_file_commands_import_no_kafka(command: str) -> None:
    """These commands also run where the extra `kafka` is not installed."""
    examples = ROOT / "docs" / "examples"
    words = shlex.split(command)
    found = [str(examples / word) if (examples / word).is_file() else word for word in words]
    assert loaded(*found).isdisjoint(HEAVY)


@pytest.mark.parametrize("command", ["--help", "explain --help"])
def test_help_imports_no_topology(command: str) -> None:
    assert loaded(*command.split()).isdisjoint({*HEAVY, "topology.config", "lark"})


ASKED: Final = {
    "window": "{window: tumbling 1s, aggregate: {n: count()}}",
    "pattern": "{pattern: 'PATTERN SEQ(A a, B b) WITHIN 5 s'}",
    "join": "{join: interval 1s, sides: {a: {type: A}, b: {type: B}}}",
}
ASKED_FOR: Final = {*ASKED, "detector"}


@pytest.mark.parametrize("asked", [None, *ASKED])
def test_replay_imports_needed_operators(asked: str | None, tmp_path: Path) -> None:
    query = "" if asked is None else f"queries: {{q: {ASKED[asked]}}}\n"
    (tmp_path / "t.yaml").write_text(TOPOLOGY + query)
    (tmp_path / "e.jsonl").write_text(EVENT)
    topology, events = str(tmp_path / "t.yaml"), str(tmp_path / "e.jsonl")
    found = loaded("replay", "--json", "--topology", topology, events)
    operators = {name for name in ASKED_FOR if f"topology.queries.{name}.operator" in found}
    assert operators == {*([] if asked is None else [asked])}
    assert found.isdisjoint({"asyncio", "rich.table"})


def test_each_query_has_an_operator() -> None:
    assert all(find_spec(f"topology.queries.{name}.operator") for name in ASKED_FOR)


def test_stage_help_imports_no_query() -> None:
    found = loaded("stage", "--help")
    assert "lark" not in found
    assert {name for name in ASKED_FOR if f"topology.queries.{name}.operator" in found} == set()


def test_loaded_modules_are_detected() -> None:
    found = loaded("worker", "--help") | loaded("topics", "create", "--help")
    assert "topology.config" in found
    assert "confluent_kafka" in found
