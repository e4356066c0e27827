"""Examples: the memory limit from a process's control groups, and which process is killed first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agents.process.memory import OOM_SCORE, STAGE_OOM_SCORE, memory_limit, raise_kill_priority

MIB = 1 << 20


class Machine:
    """A fake /proc folder of a process, and its mounted tree of groups, which begins at `root`."""

    def __init__(self, folder: Path, group: str, root: str = "/", *, version: int = 2) -> None:
        self._mount = folder / "sys with a space"
        self._file = {1: "memory.limit_in_bytes", 2: "memory.max"}[version]
        self.process = folder / "proc"
        self.process.mkdir()
        mount = str(self._mount).replace(" ", "\\040")
        kind = {1: "cgroup cgroup rw,memory", 2: "cgroup2 cgroup rw"}[version]
        (self.process / "mountinfo").write_text(
            f"22 1 0:20 / /proc rw - proc proc rw\n"
            f"30 23 0:27 / /elsewhere rw,relatime shared:4 - cgroup cgroup rw,cpu\n"
            f"31 23 0:28 {root} {mount} rw,relatime shared:5 - {kind}\n"
        )
        line = {1: f"4:hugetlb,memory:{group}", 2: f"0::{group}"}[version]
        (self.process / "cgroup").write_text(f"9:name=systemd:/other\n3:cpu:/other\n{line}\n")

    def limit(self, group: str, content: str) -> None:
        folder = self._mount / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self._file).write_text(content + "\n")


@pytest.mark.parametrize("version", [1, 2])
def test_own_group_sets_the_limit(tmp_path: Path, version: int) -> None:
    machine = Machine(tmp_path, "/pods/a", version=version)
    machine.limit("", str(96 * 1024 * MIB))
    machine.limit("other", str(MIB))
    machine.limit("pods/a", str(96 * MIB))
    assert memory_limit(machine.process) == 96 * MIB


def test_parent_group_limits_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/pods/a/b")
    machine.limit("pods/a/b", "max")
    machine.limit("pods", str(64 * MIB))
    assert memory_limit(machine.process) == 64 * MIB


@pytest.mark.parametrize(
    ("group", "root"), [("/docker/x", "/docker/x"), ("/", "/"), ("/../y", "/")]
)
def test_container_root_is_own_group(tmp_path: Path, group: str, root: str) -> None:
    machine = Machine(tmp_path, group, root)
    machine.limit("", str(32 * MIB))
    assert memory_limit(machine.process) == 32 * MIB


@pytest.mark.parametrize("absent", ["cgroup", "mountinfo", ""])
def test_default_is_machine_memory(tmp_path: Path, absent: str) -> None:
    machine = Machine(tmp_path, "/pods/a")
    machine.limit("pods/a", "max")
    if absent:
        (machine.process / absent).unlink()
    assert memory_limit(machine.process) == memory_limit(tmp_path / "none") > 64 * MIB


def test_stage_is_killed_first(tmp_path: Path) -> None:
    score = tmp_path / OOM_SCORE
    for before, after in ((0, STAGE_OOM_SCORE), (950, 1_000), (-500, STAGE_OOM_SCORE - 500)):
        score.write_text(f"{before}\n")
        raise_kill_priority(tmp_path)
        assert int(score.read_text()) == after
    raise_kill_priority(tmp_path / "none")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this score")
def test_system_accepts_the_score() -> None:
    code = (
        "from pathlib import Path; from agents.process.memory import *; raise_kill_priority();"
        " print(Path('/proc/self/oom_score_adj').read_text())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert int(ran.stdout) == min(1_000, own + STAGE_OOM_SCORE)
