"""The compiled codec, and the optional build of the core with mypyc.

The codec (`codec/native`, in Cython) is built wherever Cython and a C compiler are; without them
the same code runs with the one in Python, and nothing fails.

Plain Python is the default and the reference. With INORDER_COMPILE=1 the modules of
`topology/` and `topology/clock/` are compiled, unchanged, into one extension, and those
of patterns and of the shell that every event passes; the description of a topology,
which is pydantic's, never is, nor is what reads a query.
"""

import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from setuptools import Extension, setup

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


CODEC = ("records", "events", "batches")
"""In `codec/native/`; the digest of all sources there goes in, by which a stale build is known."""


def codec() -> list[Extension]:
    try:
        from Cython import Build
    except ImportError:
        print("no Cython: the codec stays in Python", file=sys.stderr)
        return []
    room = Path("codec") / "native"
    sources = sorted(file for file in room.iterdir() if file.suffix in {".pyx", ".pxd"})
    if not any(file.suffix == ".pyx" for file in sources):
        return []
    digest = sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    modules = [
        Extension(
            f"codec.native.{name}",
            [str(room / f"{name}.pyx")],
            depends=[str(file) for file in sources],
            define_macros=[("CODEC_SOURCES", f'"{digest}"')],
            extra_compile_args=[] if sys.platform == "win32" else ["-O2"],
            optional=True,
        )
        for name in CODEC
    ]
    cythonize: Any = Build.cythonize
    return list(cythonize(modules, build_dir="build/codec", quiet=True))


def extensions() -> list[object]:
    if os.environ.get("INORDER_COMPILE", "") != "1":
        return []
    from mypyc.build import mypycify

    return list(mypycify(["--strict", *hot_modules()], opt_level="3", group_name="inorder_core"))


setup(ext_modules=codec() + extensions())
