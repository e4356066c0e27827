"""Builds the project's own image from its Dockerfile, as it stands.

`python -m infra.containers.product_image` does so on a private engine, and prints the version that
the image says.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from infra.containers import base_images
from infra.containers import engine as engines
from infra.containers.base_images import PYTHON
from infra.containers.command import CommandFailed, run
from infra.containers.engine import Engine
from inorder import __version__

NAME: Final = "inorder"
ROOT: Final = Path(__file__).parents[2]
BUILD_TIMEOUT_S: Final = 3000.0
NOT_SHIPPED: Final = ("benchmarks", "docs", "infra", "tests")


def main() -> None:
    if reason := missing():
        sys.exit(f"no image: {reason}")
    with Engine() as engine:
        base_images.make_all(engine)
        print(engine.docker("run", "--rm", build(engine), "--version"), end="")


def missing() -> str | None:
    """Return why no image can be built here on a private engine; None if one can."""
    return engines.missing() or base_images.missing()


def build(engine: Engine) -> str:
    """Build the image and return its name; the engine's cache has the layers that did not change.

    Raises CommandFailed if the build fails.
    """
    wheels = ("--build-arg", "WHEELS=dist") if has_wheels(ROOT) else ()
    labels = ("--build-arg", f"VERSION={__version__}", "--build-arg", f"REVISION={_revision()}")
    words = ("build", "--network", "host", *wheels, *labels, "--tag", NAME, str(ROOT))
    engine.docker(*words, timeout_s=BUILD_TIMEOUT_S)
    return NAME


def _revision() -> str:
    """Return the commit of the tree, with `-dirty` if it has changes, or "unknown"."""
    words = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    try:
        return run("git", *words, cwd=ROOT).strip()
    except (CommandFailed, FileNotFoundError):
        return "unknown"


def has_wheels(tree: Path) -> bool:
    """Return whether dist/ has both wheels of the tree, compiled for the image's Python.

    They must be newer than all sources, because the image has to be that of the tree.
    """
    tag = f"cp{PYTHON.replace('.', '')}"
    forms = (f"inorder-{__version__}-py3-none-any", f"inorder_engine-{__version__}-{tag}-{tag}-*")
    found = [[*(tree / "dist").glob(f"{form}.whl")] for form in forms]
    if not all(found):
        return False
    oldest_s = min(wheel.stat().st_mtime for wheels in found for wheel in wheels)
    sources = [tree / "pyproject.toml", tree / "setup.py"]
    for package in tree.glob("*/__init__.py"):
        if package.parent.name not in NOT_SHIPPED:
            sources += (file for file in package.parent.rglob("*.p*") if file.suffix != ".pyc")
    return all(source.stat().st_mtime < oldest_s for source in sources if source.is_file())


if __name__ == "__main__":
    main()
