"""Examples: a command starts its own programs, whatever lies in the working directory."""

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
        "a stage, as a worker starts it": stage.command_line_for("all"),
        "a worker, as the demo starts it": [
            *(*PROGRAM, "worker", "--topology", str(topology), "--brokers", NOBODYS),
            *("--stage", "no such one"),
        ],
    }


def test_packages_match_the_wheel() -> None:
    there = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert there - {"tests", "benchmarks", "infra"} == ROOMS, "what is in a wheel"


@pytest.mark.parametrize("which", commands(Path()))
def test_hostile_modules_are_not_run(tmp_path: Path, which: str) -> None:
    """Hostile modules lie in the working directory, and on the path under our packages' names."""
    folder, rooms = tmp_path / "hostile", tmp_path / "hostile_rooms"
    for name in ("agents", "topology", "aiokafka", "json"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(_says(name))
    rooms.mkdir()
    modules = [folder / name for name in ("cli", "click", "faust", "sitecustomize")]
    for module in (*modules, *(rooms / name for name in ROOMS)):
        module.with_suffix(".py").write_text(_says(module.name))
    topology = text_file(tmp_path / "demo.yaml", TOPOLOGY)
    done = ended(*commands(topology)[which], cwd=folder, env={"PYTHONPATH": str(rooms)})
    assert "HOSTILE" not in done.stdout + done.stderr
    # The expected refusal shows that the program got as far as its arguments.
    assert done.returncode == REFUSED, done.stderr
    assert f"--kafka {NOWHERE}: No such file" in done.stderr or "--stage no such" in done.stderr
