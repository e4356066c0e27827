"""A Python environment that holds only what a test installs, away from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests import ROOT

BUILD_S = 900.0
INSTALL_S = 300.0
RUN_S = 120.0


def copied_tree(folder: Path) -> Path:
    """Copy what git knows, but for the tests, as a fresh clone has it."""
    tree = folder / "tree"
    listing = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(
        [*listing, "--", ":!tests"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def image_home(tree: Path, folder: Path, python: str, env: Mapping[str, str]) -> Path:
    """Run the steps of the image on this tree; return where it has installed the program."""
    home, wheels = folder / "home", folder / "wheels"
    steps = (("dependencies", home), ("build", python, wheels), ("install", home, wheels))
    for step in steps:
        command = [str(tree / "infra" / "image.sh"), *map(str, step)]
        subprocess.run(
            command, cwd=tree, env={**env, "PYTHON": python}, check=True, timeout=BUILD_S
        )
    return home


class Environment:
    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        """With nothing in it but pip."""
        self.folder = folder
        self._uv("venv", "--quiet", "--seed", "--python", python, str(folder))

    def install(self, *what: Path | str) -> None:
        self._uv("pip", "install", "--quiet", "--python", str(self.folder), *map(str, what))

    def run(
        self, program: str, *arguments: str, cwd: Path | None = None, timeout_s: float = RUN_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program of this environment, in its own folder unless `cwd` names another."""
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
