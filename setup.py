"""The optional build of the core with mypyc.

Plain Python is the default and the reference. With INORDER_COMPILE=1 the modules of
`topology/` and `topology/clock/` are compiled, unchanged, into one extension, and those
of patterns and of the shell that every event passes; the description of a topology,
which is pydantic's, never is, nor is what reads a query.
"""

import os
from pathlib import Path

from setuptools import setup

NOT_COMPILED = {"__init__.py"}
IN_PATTERNS = (
    "anchors.py", "engine.py", "entry.py", "evaluation.py", "index.py", "lateness.py", "ledger.py",
    "match.py", "operator.py", "run.py", "shelves.py", "skip.py", "telling.py", "unit_state.py",
    "values.py", "wiring.py",
)  # fmt: skip
"""In `topology/pattern/`. `compilation.py` has classes that interpreted ones inherit from, and
`build_values.py` one that inherits from a builtin; mypyc has neither."""

IN_THE_SHELL = ("arrival.py", "inlet.py", "outlet.py", "outbox.py", "wait_histogram.py")
"""In `agents/`. What awaits, or is a msgspec structure, stays as it is."""


def hot_modules() -> list[str]:
    root = Path(__file__).parent
    patterns = root / "topology" / "pattern"
    rooms = (root / "topology", root / "topology" / "clock", patterns / "tactics")
    files = [file for room in rooms for file in sorted(room.glob("*.py"))]
    files += [patterns / name for name in IN_PATTERNS]
    files += [root / "agents" / name for name in IN_THE_SHELL]
    return [str(file.relative_to(root)) for file in files if file.name not in NOT_COMPILED]


def extensions() -> list[object]:
    if os.environ.get("INORDER_COMPILE", "") != "1":
        return []
    from mypyc.build import mypycify

    return list(mypycify(["--strict", *hot_modules()], opt_level="3", group_name="inorder_core"))


setup(ext_modules=extensions())
