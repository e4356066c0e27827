"""End to end: our own tests and a user's example pass on a broker that testcontainers starts."""

from __future__ import annotations

import os
import re
import sys

import pytest

from infra.containers import programs
from infra.containers.engine import Engine
from tests import ROOT
from tests.infra.containers.command import run_to_end

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]

QUIETLY = ("-q", "-p", "no:cacheprovider", "--tb=short", "--show-capture=no")
RUN_TIMEOUT_S = 3000.0
"""Time limit of a run, below the limit of a test here."""

NOWHERE = "127.0.0.1:1/ryuk:none"
"""Address of an image that cannot be pulled, since nothing listens there."""

OURS = {
    "tests/agents/kafka/test_log_reader.py": (),
    "tests/end_to_end/test_worker.py": (),
    "tests/end_to_end/test_outage.py": ("-m", "chaos", "-k", "next_to_nothing and one and task"),
    "tests/end_to_end/test_sync.py": (),
}
"""Modules with the options of the run."""


def run(engine: Engine, *words: str, **env: str) -> str:
    """Run pytest, assert that it passes, and return its output."""
    command = [sys.executable, "-m", "pytest", *QUIETLY, *words]
    told = run_to_end(command, {**engine.env, "PYTHONPATH": str(ROOT), **env}, RUN_TIMEOUT_S)
    print(told)
    return told


@pytest.mark.parametrize("module", OURS)
def test_our_tests_pass_on_containers(engine: Engine, module: str) -> None:
    """Containers start without Ryuk if its image cannot be pulled."""
    reaper = {} if programs.is_pulled() else {"RYUK_CONTAINER_IMAGE": NOWHERE}
    told = run(engine, module, *OURS[module], INORDER_BROKER="container", **reaper)
    assert re.search(r"\d passed", told)
    assert not re.search(r"\d skipped", told)
    assert engine.docker("ps", "--all", "--quiet") == ""


def test_example_on_the_page_passes(engine: Engine) -> None:
    """Pytest runs without the project's own settings."""
    off = {} if programs.is_pulled() else {"TESTCONTAINERS_RYUK_DISABLED": "true"}
    path = f"{ROOT / '.venv/bin'}:{engine.env['PATH']}"
    own = ("-c", os.devnull, "--rootdir", str(ROOT))
    told = run(engine, "docs/examples/kafka_test.py", *own, PATH=path, **off)
    assert "1 passed" in told
    assert engine.docker("ps", "--all", "--quiet") == ""
