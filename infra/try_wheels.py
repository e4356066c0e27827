"""Installs built wheels as a user does, and runs the README with them, away from the checkout.

`python -m infra.try_wheels FOLDER` makes an empty environment for each Python of this machine and
each wheel that fits it. FOLDER may have a compiled wheel for it, and has the pure one. It ends with
exit code 1 if a command fails, or does not print the lines that the README shows.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from infra import pythons
from infra.containers.command import CommandFailed, run
from inorder import __version__

README: Final = Path(__file__).parents[1] / "README.md"
BLOCK: Final = re.compile(r"^```(?P<kind>\w+)\n(?P<lines>.*?)^```", re.M | re.S)
TRIED: Final = ("sample", "audit", "demo", "replay")
"""The commands that need neither a broker nor an end by hand."""

COMMAND: Final = re.compile(rf"^(?P<prompt>\$ )?(?P<command>inorder (?:{'|'.join(TRIED)})\b.*)$")


class Step(NamedTuple):
    """Words to run, and the lines that must be among their output."""

    words: tuple[str, ...]
    shown: tuple[str, ...] = ()


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    steps = list(read_steps(README.read_text(encoding="utf-8")))
    tried = 0
    for version in pythons.VERSIONS:
        python = next(pythons.find_all(version), None)
        if python is None:
            continue
        for wheel in find_wheels(folder, version):
            began_s = time.monotonic()
            try:
                try_wheel(python.program, folder, wheel, steps)
            except (CommandFailed, OSError, subprocess.TimeoutExpired) as error:
                sys.exit(f"{wheel.name} with Python {version}: {error}")
            seconds = time.monotonic() - began_s
            print(f"{wheel.name} with Python {version}: the README works, {seconds:.0f} s")
            tried += 1
    if not tried:
        sys.exit(f"no wheel of {__version__} in {folder}, or no Python {pythons.VERSIONS}")


def read_steps(text: str) -> Iterator[Step]:
    """Yield the README's commands and its program, in its order."""
    yield Step(("inorder", "--version"), (f"inorder, version {__version__}",))
    blocks = list(BLOCK.finditer(text))
    for number, block in enumerate(blocks):
        lines = block["lines"].splitlines()
        if block["kind"] == "python":
            shown = blocks[number + 1]["lines"].splitlines()
            yield Step(("python", "-c", block["lines"]), tuple(shown))
        for found in map(COMMAND.match, lines):
            if found is not None:
                # In a console, the output follows.
                shown = [line for line in lines if line != found[0]] if found["prompt"] else []
                yield Step(tuple(shlex.split(found["command"], comments=True)), tuple(shown))


def find_wheels(folder: Path, version: str) -> list[Path]:
    """Return the engine's wheels for a Python here: compiled, if it is there, and pure."""
    tag = f"cp{version.replace('.', '')}"
    names = (f"{tag}-{tag}-*_{platform.machine()}", "py3-none-any")
    return [
        wheel
        for name in names
        for wheel in sorted(folder.glob(f"inorder_engine-{__version__}-{name}.whl"))[:1]
    ]


def try_wheel(python: Path, folder: Path, wheel: Path, steps: list[Step]) -> None:
    client = folder / f"inorder-{__version__}-py3-none-any.whl"
    uv = str(Path(sys.executable).with_name("uv"))
    with TemporaryDirectory() as there:
        home, work = Path(there, "home"), Path(there, "work")
        work.mkdir()
        run(uv, "venv", "--quiet", "--python", str(python), str(home), cwd=work)
        install = (uv, "pip", "install", "--quiet", "--python", str(home), str(client))
        run(*install, f"{wheel}[kafka]", cwd=work)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        for step in steps:
            program, *words = step.words
            out = run(str(home / "bin" / program), *words, cwd=work, env=env)
            said = [line.rstrip() for line in out.splitlines()]
            if absent := [line for line in step.shown if line.rstrip() not in said]:
                raise CommandFailed(f"{shlex.join(step.words)} did not print {absent[0]!r}:\n{out}")


if __name__ == "__main__":
    main()
