"""Laws: importing the engine for an Ordering is fast and loads few modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.kit.programs import printed, python
from topology.config import (
    DetectorQuery,
    JoinQuery,
    PatternQuery,
    StreamConfig,
    Topology,
    WindowQuery,
)
from topology.spelling.section import Section

ENGINE: Final = "from inorder.engine import Ordering"
PYDANTIC: Final = "from pydantic import BaseModel\nclass A(BaseModel):\n    a: int"
KAFKA: Final = {
    *("aiohttp", "aiokafka", "confluent_kafka", "cramjam", "faust", "mode"),
    *("prometheus_client", "rocksdict"),
}
NOT_NEEDED: Final = {
    "yaml",
    "lark",
    "topology.queries.pattern.tree.syntax",
    "asyncio",
    "click",
    "rich",
}
SILENT: Final = [
    type(field.default)
    for section in (Topology, StreamConfig, WindowQuery, JoinQuery, PatternQuery, DetectorQuery)
    for field in section.model_fields.values()
    if isinstance(field.default, Section)
]
RUNS: Final = 7
MOST_S: Final = 0.2
PARTS: Final = 2.0
"""Limit on a busy machine, as a multiple of the time that pydantic alone takes."""


def cpu_s(program: str, cache: Path) -> float:
    """Return the CPU seconds of a process that runs the program."""
    measuring = f"{program}\nimport time; print(time.process_time())"
    cached = {"PYTHONPYCACHEPREFIX": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
    return float(python("-c", measuring, env=cached).stdout)


@pytest.mark.slow
def test_import_is_fast(tmp_path: Path) -> None:
    """The CPU time above that of an empty Python counts, in the best of several rounds.

    The programs in a round run under the same load; the first round compiles.
    """
    programs = ("", ENGINE, PYDANTIC)
    turns = [[cpu_s(each, tmp_path) for each in programs] for _ in range(RUNS)]
    assert any(
        engine_s - empty_s <= max(MOST_S, PARTS * (pydantic_s - empty_s))
        for empty_s, engine_s, pydantic_s in turns
    ), turns


@pytest.mark.parametrize("then", ["", "; Ordering(Topology(streams={'default': StreamConfig()}))"])
def test_ordering_loads_few_modules(then: str) -> None:
    told = "import json, sys; print(json.dumps([*sys.modules]))"
    program = f"{ENGINE}, StreamConfig, Topology{then}; {told}"
    loaded = set(json.loads(printed("-c", program)))
    assert {"topology.stage.replay", "pydantic"} <= loaded
    assert loaded.isdisjoint(KAFKA | NOT_NEEDED)


@pytest.mark.parametrize("section", SILENT, ids=lambda each: each.__name__)
def test_default_section_matches_validated(section: type[Section]) -> None:
    said, silent = section(), section.make_default()
    assert (silent, silent.model_fields_set) == (said, set())
    assert silent.__dict__ == said.__dict__
