"""Build the compiled modules: the codec with Cython, and the core with mypyc, from the same files.

Plain Python is the reference and always sufficient. The codec (`codec/native`) is built wherever
Cython and a C compiler are. Without them the same code runs with the Python codec, and nothing
fails. A wheel contains the compiled core too, if mypyc is available. An editable install keeps the
core pure, since compiled modules would hide the sources that are edited there. INORDER_COMPILE=1
always compiles the core, and fails if that is impossible. With =0 nothing at all is compiled.

The compiled modules are those that most events pass: `HOT_ROOMS` in `topology/`, and `HOT_SHELL`.
The other modules run in Python, beside compiled ones. With =all, as in an image of sources,
`OTHER_ROOMS` are compiled, too. That takes three times as long and makes patterns, joins and
detectors faster.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

HOT_ROOMS = ("answer", "base", "order", "queries/window", "records", "stage", "state")
"""The packages in `topology/` that are compiled, with all folders in them.

With order, merge and windows, an event spends more than 99 % of its time in the core there.
"""

PUBLISHED = "benchmarks/published"
"""A package that is compiled with the core, but is in no wheel.

It extends classes of `order`, which would be slower if Python could extend them.
"""

OTHER_ROOMS = (
    "queries/detector",
    "queries/join",
    "queries/pattern/compile",
    "queries/pattern/match",
    "queries/pattern/operator.py",
    "queries/pattern/run",
    "queries/pattern/store",
    "queries/pattern/targets.py",
)
"""The other packages and modules in `topology/` that can be compiled.

The rest has models of pydantic's, code that lark calls, and values that are compared and digested
by their fields and that no event passes.
"""

HOT_SHELL = (
    "agents/stage/arrival.py",
    "agents/stage/inlet.py",
    "agents/stage/outbox.py",
    "agents/stage/outlet.py",
    "agents/state/held.py",
    "agents/watch/metrics/wait_counts.py",
)
"""The compiled modules of the shell; code that awaits, or is a msgspec structure, is not."""

INTERPRETED = {
    "__init__.py": "a list of names",
    "settings.py": "a model of pydantic's",
    "encoded.py": "a class of bytes, of which a compiled one cannot be",
    "native.py": "read by the compiler itself, and empty without it",
}

ROOT = Path(__file__).parent
ASKED = os.environ.get("INORDER_COMPILE", "")
MUST = ASKED in {"1", "all"}
"""Whether the core must be compiled."""


class Build(build_ext):  # type: ignore[misc]
    """A build of C files on all processors at once, without optional files that fail."""

    extensions: list[Extension]

    def build_extensions(self) -> None:
        one_by_one = self.compiler.compile

        def side_by_side(sources: list[str], **options: object) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as processors:
                objects = processors.map(lambda source: one_by_one([source], **options), sources)
                return [file for one in objects for file in one]

        self.compiler.compile = side_by_side
        try:
            super().build_extensions()
        except (CCompilerError, ExecError, PlatformError) as error:
            if MUST:
                raise
            print(f"not compiled, the core stays in Python: {error}", file=sys.stderr)
            self.extensions = [one for one in self.extensions if one.optional]


def is_for_a_wheel() -> bool:
    return "bdist_wheel" in sys.argv and "editable_wheel" not in sys.argv


def hot_modules() -> list[str]:
    """Return the files to compile, relative to this folder."""
    core, files = ROOT / "topology", list[Path]()
    for room in HOT_ROOMS + (OTHER_ROOMS if ASKED == "all" else ()):
        files += [core / room] if room.endswith(".py") else sorted((core / room).rglob("*.py"))
    if not is_for_a_wheel():
        files += sorted((ROOT / PUBLISHED).rglob("*.py"))
    found = [str(file.relative_to(ROOT)) for file in files if file.name not in INTERPRETED]
    return [*found, *HOT_SHELL]


CODEC = ("records", "scanner", "events", "batches")
"""The modules in `codec/native/`; a digest of all sources there goes in, to detect a stale build.
"""


def codec() -> list[Extension]:
    if ASKED == "0":
        return []
    try:
        from Cython import Build
    except ImportError:
        print("no Cython: the codec stays in Python", file=sys.stderr)
        return []
    room = Path("codec") / "native"
    sources = sorted(file for file in room.iterdir() if file.suffix in {".pyx", ".pxd"})
    digest = sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    modules = [
        Extension(
            f"codec.native.{name}",
            [str(room / f"{name}.pyx")],
            depends=[str(file) for file in sources],
            define_macros=[("CODEC_SOURCES", f'"{digest}"')],
            extra_compile_args=["-O2"],
            optional=True,
        )
        for name in CODEC
    ]
    cythonize: Any = Build.cythonize
    return list(cythonize(modules, build_dir="build/codec", quiet=True))


TYPES_OF_OURS_ALONE = (
    "--config-file=",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--explicit-package-bases",
    "--disable-error-code=call-arg",  # The base class of a library accepts the arguments.
)
"""Options by which the compiler reads the files of this tree and of no library.

It then makes the same C beside the libraries and in pip's isolated build, which has none of them.
`make lint` checks the types. A compiled class must not have a base from a library: the compiler
would not know it, and leave it out.
"""


def core() -> list[Extension]:
    """Return one library of all compiled modules, and a small module for each of its files.

    The library comes first, since nothing else of the core runs without it.
    """
    if ASKED == "0" or not (MUST or is_for_a_wheel()):
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        if MUST:
            raise
        print("no mypyc: the core stays in Python", file=sys.stderr)
        return []
    try:
        found = mypycify(
            [*TYPES_OF_OURS_ALONE, *hot_modules()],
            # Level 2 takes the C compiler two to three times as long.
            opt_level="2" if ASKED == "all" else "g",
            debug_level="0",
            multi_file=True,  # A C compiler takes a quarter of an hour for one file of 25 MB.
            group_name="inorder_core",
        )
    except SystemExit:  # mypyc exits after it has printed why it refuses a file.
        if MUST:
            raise
        print("mypyc refused the core (see above): it stays in Python", file=sys.stderr)
        return []
    return sorted(found, key=lambda one: not one.name.endswith("__mypyc"))


if __name__ == "__main__":
    setup(ext_modules=codec() + core(), cmdclass={"build_ext": Build})
