"""Finds the supported Pythons of this machine: `python -m infra.pythons` prints a path each."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
TIMEOUT_S: Final = 60.0


class Python(NamedTuple):
    """An interpreter that runs; `home` is the folder of its installation."""

    program: Path
    home: Path


def main() -> None:
    for version in VERSIONS:
        for found in find_all(version):
            print(found.program)
            break


def find_all(version: str) -> Iterator[Python]:
    """Yield the interpreters of a version such as 3.12: of `PATH`, and of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    programs = [shutil.which(f"python{version}")]
    programs += map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}")))
    for program in filter(None, programs):
        asked = [program, "-c", "import sys; print(sys.base_prefix)"]
        told = subprocess.run(asked, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
        if told.returncode == 0:
            yield Python(Path(program), Path(told.stdout.strip()))


if __name__ == "__main__":
    main()
