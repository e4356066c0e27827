"""Examples: a command starts if its packages are unchanged, and is refused otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import ROOT
from tests.kit.programs import Ended, python

COMMAND = "def main(prog_name):\n    import agents.exits\n    print('started')\n"
FILES = {
    "agents/__init__.py": "",
    "agents/exits.py": "",
    "agents/stage/__init__.py": "",
    "cli/__init__.py": "",
    "cli/main.py": COMMAND,
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder in which pip has installed the engine's command and packages."""
    folder = tmp_path / "site-packages"
    shutil.copytree(
        ROOT / "inorder", folder / "inorder", ignore=shutil.ignore_patterns("__pycache__")
    )
    installed(folder, "inorder_engine-0.1.0", FILES)
    return folder


def installed(site: Path, name: str, files: dict[str, str]) -> None:
    """Install as pip does: overwrite files with the same path, and record all files."""
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    info = site / f"{name}.dist-info"
    info.mkdir()
    lines = [f"{path},sha256=x,{len(text)}\n" for path, text in files.items()]
    (info / "RECORD").write_text("".join([*lines, f"{info.name}/RECORD,,\n"]))


def started(site: Path) -> Ended:
    return python("-P", site / "inorder" / "__main__.py", "replay")


def test_command_starts_if_unchanged(site: Path) -> None:
    for _ in range(2):  # The second time there are also files that Python has compiled.
        done = started(site)
        assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({"__init__.py": "print('HOSTILE')\n", "run.py": ""}, id="ours replaced"),
        pytest.param({"run.py": ""}, id="ours over theirs"),
    ],
)
def test_foreign_files_are_named(site: Path, others: dict[str, str]) -> None:
    files = {f"agents/{name}": text for name, text in others.items()}
    installed(site, "somebody_elses-1.0", files)
    done = started(site)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {site}/agents also has files of somebody_elses; reinstall inorder-engine in a"
        " separate environment (python -m venv)\n"
    )


@pytest.mark.parametrize(
    ("gone", "says"),
    [
        ("agents", "Error: {site}/agents also has files of another package;"),
        ("cli", "where `inorder` is; pip install inorder-engine"),
    ],
)
def test_missing_file_is_reported(site: Path, gone: str, says: str) -> None:
    """Another distribution removed a file, or the engine is not installed."""
    (site / gone / "__init__.py").unlink()
    if gone == "cli":
        shutil.rmtree(site / gone)
    done = started(site)
    assert (done.returncode, done.stdout) == (2, "")
    assert says.format(site=site) in done.stderr
    assert done.stderr.count("\n") == 1
