"""Examples: how a command starts another one, whatever lies in the working directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.demo.stage import TOPOLOGY
from cli.program import PROGRAM
from cli.run.stage_options import StageOptions
from inorder.__main__ import ROOMS
from tests import ROOT
from tests.cli.invoking import text_file
from tests.kit.programs import ended

REFUSED = 2
NOBODYS = "127.0.0.1:1"
NOWHERE = "nowhere.properties"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder in which modules lie that bear the names of ours, and say so when they run."""
    folder = tmp_path / "hostile"
    for name in ("agents", "topology", "aiokafka", "json"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(_says(name))
    for name in ("cli", "click", "faust", "sitecustomize"):
        (folder / f"{name}.py").write_text(_says(name))
    return folder


def _says(name: str) -> str:
    return f"print('HOSTILE {name}', flush=True); raise SystemExit(9)\n"


def commands(topology: Path) -> dict[str, list[str]]:
    stage = StageOptions(
        topology_path=str(topology),
        brokers=NOBODYS,
        state_dir=Path("state"),
        kafka_path=NOWHERE,
        brokers_wait_s=0.0,
    )
    return {
        "a stage, as a worker starts it": stage.words_for("reorder"),
        "a worker, as the demo starts it": [
            *(*PROGRAM, "worker", "--topology", str(topology), "--brokers", NOBODYS),
            *("--stage", "no such one"),
        ],
    }


@pytest.mark.parametrize("which", commands(Path()))
def test_what_lies_on_the_path_under_the_name_of_a_room_is_not_run(
    tmp_path: Path, which: str
) -> None:
    rooms = tmp_path / "hostile_rooms"
    rooms.mkdir()
    for name in ROOMS:
        (rooms / f"{name}.py").write_text(_says(name))
    topology = text_file(tmp_path / "demo.yaml", TOPOLOGY)
    refused(commands(topology)[which], tmp_path, {"PYTHONPATH": str(rooms)})


def test_every_room_is_looked_for_beside_the_program() -> None:
    there = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert there - {"tests", "benchmarks", "infra"} == ROOMS, "what is in a wheel"


@pytest.mark.parametrize("which", commands(Path()))
def test_what_lies_in_the_working_directory_is_not_run(
    hostile: Path, tmp_path: Path, which: str
) -> None:
    topology = text_file(tmp_path / "demo.yaml", TOPOLOGY)
    refused(commands(topology)[which], hostile, {})


def refused(command: list[str], folder: Path, path: dict[str, str]) -> None:
    """For the reason it is given, so it has come to read its arguments."""
    done = ended(*command, cwd=folder, env=path)
    assert "HOSTILE" not in done.stdout + done.stderr
    assert done.returncode == REFUSED, done.stderr
    assert f"--kafka {NOWHERE}: No such file" in done.stderr or "--stage no such" in done.stderr
