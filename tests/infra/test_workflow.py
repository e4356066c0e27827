"""Examples: GitHub's workflows build wheels for each supported Python, with pinned tools."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.infra.test_build import PYTHONS

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
JOBS: dict[str, dict[str, Any]] = {
    name: job
    for file in WORKFLOWS
    for name, job in yaml.safe_load(file.read_text())["jobs"].items()
}
COMPILED = JOBS["compiled"]
USED = re.compile(
    r"^\s*- uses: (?P<name>\S+)@(?P<commit>[0-9a-f]{40})  # (?P<version>v\d+\.\d+\.\d+)$"
)
"""An action is pinned by its commit, since tags move; the comment is for people and Dependabot."""

MACHINES = ["ubuntu-24.04", "ubuntu-24.04-arm"]
"""GitHub's names for x86-64 and arm64."""


def using(job: dict[str, Any], action: str) -> list[dict[str, Any]]:
    return [step for step in job["steps"] if step.get("uses", "").startswith(f"{action}@")]


def words_with_files(text: str) -> set[str]:
    return set(re.findall(r"\{project\}/([\w./-]+)", text))


@pytest.mark.parametrize("name", JOBS)
def test_job_has_known_machine_and_time_out(name: str) -> None:
    job = JOBS[name]
    machines = job.get("strategy", {}).get("matrix", {}).get("machine", [job["runs-on"]])
    assert set(machines) <= set(MACHINES)
    assert job["timeout-minutes"] <= 90


def test_actions_are_pinned_by_commit() -> None:
    lines = [line for file in WORKFLOWS for line in file.read_text().splitlines()]
    used = [(line, USED.match(line)) for line in lines if "uses:" in line]
    assert [line for line, found in used if found is None] == []
    pins = {found.groups() for _, found in used if found}
    assert len(pins) == len({name for name, *_ in pins}), "one version of each action"


@pytest.mark.parametrize("name", JOBS)
def test_job_runs_existing_targets(name: str) -> None:
    run = "\n".join(step.get("run", "") for step in JOBS[name]["steps"])
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?m)^(?:sudo .*)?make ([\w-]+)", run):
        assert re.search(rf"(?m)^{target}:", makefile), target


def test_wheels_are_built_for_each_python() -> None:
    matrix = COMPILED["strategy"]["matrix"]
    tags = [name.replace("python", "cp").replace(".", "") for name in PYTHONS]
    assert matrix["python"] == tags
    assert matrix["machine"] == MACHINES
    assert COMPILED["runs-on"] == "${{ matrix.machine }}"


def test_wheels_use_locked_compiler() -> None:
    (built,) = using(COMPILED, "pypa/cibuildwheel")
    settings = built["env"]
    assert settings["CIBW_BUILD"] == "${{ matrix.python }}-manylinux_*"
    assert settings["CIBW_ARCHS"] == "native"
    assert settings["CIBW_ENVIRONMENT"] == "INORDER_COMPILE=1", "else a fault leaves it pure"
    assert settings["CIBW_BUILD_FRONTEND"] == "pip; args: --no-build-isolation"
    assert "--require-hashes" in settings["CIBW_BEFORE_BUILD"]
    tried = settings["CIBW_TEST_COMMAND"]
    (module,) = re.findall(r"from topology\.(\w+)\.\w+ import operator", tried)
    assert module in runpy.run_path(str(ROOT / "setup.py"), run_name="recipe")["HOT_ROOMS"]
    named = words_with_files("\n".join(settings.values()))
    assert len(named) == 4
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_built_files_are_uploaded() -> None:
    kept = {}
    for name in ("wheels", "compiled"):
        (upload,) = using(JOBS[name], "actions/upload-artifact")
        kept[name] = upload["with"]["path"].split()
    assert kept == {"wheels": ["dist/*.whl", "dist/*.tar.gz"], "compiled": ["dist/*.whl"]}
    (upload,) = using(COMPILED, "actions/upload-artifact")
    assert upload["with"]["name"] == "compiled-${{ matrix.python }}-${{ matrix.machine }}"
