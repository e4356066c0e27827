"""Runs a program to its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 600.0
TAIL_CHARS: Final = 3000


class CommandFailed(Exception):
    """A program failed; the message has the end of its output."""


def run(
    *command: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Run a program of the path in `env` and return its output; raise CommandFailed if it fails."""
    done = subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env={**(os.environ if env is None else env), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if done.returncode:
        told = f"{done.stdout[-TAIL_CHARS:]}{done.stderr[-TAIL_CHARS:]}"
        raise CommandFailed(f"{command[0]} … {command[-1]} failed:\n{told}")
    return done.stdout
