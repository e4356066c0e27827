"""The optional build of the core with mypyc.

Plain Python is the default and the reference. With INORDER_COMPILE=1 the modules of
`topology/` and `topology/clock/` are compiled, unchanged, into one extension, and those
of patterns and of the shell that every event passes; the description of a topology,
which is pydantic's, never is, nor is what reads a query.
"""

import os
from pathlib import Path

from setuptools import setup

ROOMS = (
    "model", "wire", "reorder", "reorder/published", "clock", "clock/published",
    "merge", "merge/published", "flow",
    "pattern", "pattern/store", "pattern/compile", "pattern/match", "pattern/match/tactics",
    "pattern/match/uncertain", "pattern/run",
)  # fmt: skip
"""In `topology/`. What reads a query or a topology file stays as it is: `pattern/tree` has values
that are compared and digested by their fields, no event passes it; `config` is pydantic's."""

INTERPRETED = {"__init__.py", "compiled.py", "native.py", "reach.py", "view.py"}
"""`compile/view`: what a user's function is given refuses to be written to, by a `__setattr__`."""
SHELL = ("arrival", "inlet", "outlet", "outbox")
"""In `agents/stage/`. What awaits, or is a msgspec structure, stays as it is."""


def hot_modules() -> list[str]:
    root = Path(__file__).parent
    core = root / "topology"
    files = [file for room in ROOMS for file in sorted((core / room).glob("*.py"))]
    files += [root / "agents" / "stage" / f"{name}.py" for name in SHELL]
    files.append(root / "agents" / "watch" / "wait_histogram.py")
    return [str(file.relative_to(root)) for file in files if file.name not in INTERPRETED]


def extensions() -> list[object]:
    if os.environ.get("INORDER_COMPILE", "") != "1":
        return []
    from mypyc.build import mypycify

    return list(mypycify(["--strict", *hot_modules()], opt_level="3", group_name="inorder_core"))


setup(ext_modules=extensions())
