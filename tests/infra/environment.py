"""A Python environment that holds only what a test installs, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

INSTALL_S = 300.0
RUN_S = 120.0


class Environment:
    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        """Create the environment with nothing but pip."""
        self.folder = folder
        self._uv("venv", "--quiet", "--seed", "--python", python, str(folder))

    def install(self, *what: Path | str) -> None:
        self._uv("pip", "install", "--quiet", "--python", str(self.folder), *map(str, what))

    def run(
        self, program: str, *arguments: str, cwd: Path | None = None, timeout_s: float = RUN_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment, in its own folder unless `cwd` names another."""
        return subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            cwd=cwd or self.folder,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def _uv(self, *arguments: str) -> None:
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, *arguments], cwd="/", check=True, timeout=INSTALL_S)
