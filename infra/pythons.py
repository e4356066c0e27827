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
ASKED: Final = """\
import sys
print("%s-%d.%d" % (sys.implementation.name, *sys.version_info[:2]), sys.base_prefix)
"""


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
    """Yield the CPythons of a version such as 3.12: of `PATH`, and of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    programs = [shutil.which(f"python{version}")]
    programs += map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}")))
    for program in filter(None, programs):
        asked = [program, "-c", ASKED]
        told = subprocess.run(asked, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
        kind, _, home = told.stdout.strip().partition(" ")
        if told.returncode == 0 and kind == f"cpython-{version}":
            yield Python(Path(program), Path(home))


if __name__ == "__main__":
    main()
