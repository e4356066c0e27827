"""Run programs until they end, each as a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests import ROOT

TIMEOUT_S = 180.0

Ended = subprocess.CompletedProcess[str]


def ended(
    *words: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None, stdin: str = ""
) -> Ended:
    """Run a program until it ends.

    `env` is added to this process's environment, from which PYTHONPATH is removed.
    """
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(each) for each in words],
        cwd=cwd,
        env=others | dict(env or {}),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def python(*words: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> Ended:
    """Run Python with these arguments."""
    return ended(sys.executable, *words, cwd=cwd, env=env)


def printed(*words: str | Path, cwd: Path = ROOT) -> str:
    """Run Python with these arguments, assert that it succeeds, and return its output."""
    done = python(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout
