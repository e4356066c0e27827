"""End to end: the wheel, away from the checkout, holds what the commands need, and they run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.command import ROOT


def laid_down(folder: Path) -> Path:
    """What `pip install` of the wheel would lay down; built from a copy, so that nothing of an
    earlier build gets in."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    for name in listed.stdout.rstrip("\0").split("\0"):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / "tree" / name)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    options = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", str(folder))
    subprocess.run([*pip, "wheel", *options, str(folder / "tree")], check=True, timeout=100)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "site")
    return folder / "site"


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", str(site / "inorder_engine.py"), *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_commands_run_from_the_wheel(tmp_path: Path) -> None:
    site = laid_down(tmp_path)
    for command in ("demo", "dev", "check", "replay", "worker", "sync-server", "sink", "topics"):
        done = run(site, command, "--help")
        assert done.returncode == 0, done.stderr
    topology = tmp_path / "t.yaml"
    topology.write_text(
        'streams: {default: {}}\nqueries:\n  pair: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}\n'
    )
    events = tmp_path / "events.jsonl"
    events.write_text(
        '{"source": "s", "seq": 0, "ts": 1, "type": "A"}\n'
        '{"source": "s", "seq": 1, "ts": 2, "type": "B"}\n'
    )
    done = run(site, "replay", "--topology", str(topology), "--show", "event,match", str(events))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"kind":"match"') == 1
