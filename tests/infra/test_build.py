"""End to end: the core is compiled with the build's own packages and no others.

pip builds in such an environment, and so does the image. Long tests run the lines of the README and
of the Dockerfile, with each Python on this machine.
"""

from __future__ import annotations

import ast
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.infra.environment import Environment

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
BUILD_S = 900.0
CHECK = """\
import os, runpy
os.environ["INORDER_COMPILE"] = "1"
library, *modules = runpy.run_path("setup.py", run_name="recipe")["core"]()
assert library.name == "inorder_core__mypyc"
print(len(modules))
"""
IS_COMPILED = """\
from codec import native
from topology.order.merge import operator
assert operator.__file__.endswith(".so"), operator.__file__
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with the files that git knows, without the tests, like a fresh clone."""
    tree = tmp_path / "tree"
    listing = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(
        [*listing, "--", ":!tests"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def found(python: str) -> str:
    path = shutil.which(python)
    works = path and subprocess.run([path, "--version"], check=False, capture_output=True)
    if not path or not works or works.returncode:
        pytest.skip(f"{python} is not on this machine")
    return path


def hot_modules() -> list[str]:
    found: list[str] = runpy.run_path(str(ROOT / "setup.py"), run_name="recipe")["hot_modules"]()
    return found


def bases_of_libraries(file: Path) -> Iterator[str]:
    """Yield the classes whose base is imported from outside the standard library and this tree."""
    known = sys.stdlib_module_names | {"topology", "agents", "inorder", "codec", "benchmarks"}
    module = ast.parse(file.read_text(encoding="utf-8"))
    strangers = {
        name.asname or name.name.partition(".")[0]
        for node in ast.walk(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
        if (getattr(node, "module", None) or name.name).partition(".")[0] not in known
    }
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            names = {
                each.id
                for base in node.bases
                for each in ast.walk(base)
                if isinstance(each, ast.Name)
            }
            if names & strangers:
                yield f"{file.relative_to(ROOT)}: {node.name}"


def test_compiled_class_has_no_library_base() -> None:
    """mypyc does not know a base from a library and leaves it out, which corrupts memory at run
    time.
    """
    assert [found for name in hot_modules() for found in bases_of_libraries(ROOT / name)] == []
    collector = ROOT / "agents" / "watch" / "metrics" / "worker.py"
    assert list(bases_of_libraries(collector)), "it has one"


def test_build_requirements_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = sorted(project["build-system"]["requires"])
    assert needed == sorted(project["dependency-groups"]["build"])
    least = next(each.removeprefix("mypy>=") for each in needed if each.startswith("mypy>="))
    lock = (ROOT / "infra/locks/build.txt").read_text(encoding="utf-8")
    (locked,) = re.findall(r"(?m)^mypy==([\d.]+)", lock)
    assert [*map(int, locked.split("."))] >= [*map(int, least.split("."))]
    assert [*map(int, least.split("."))] >= [2, 4, 1]  # Before that, attributes of exceptions leak.


@pytest.mark.slow
def test_core_compiles_alone(tree: Path, tmp_path: Path) -> None:
    """C code is generated, since mypyc can fail where mypy alone finds no fault."""
    there = Environment(tmp_path / "build")
    there.install("mypy", "setuptools>=77")
    checked = there.run("python", "-c", CHECK, cwd=tree, timeout_s=BUILD_S)
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.splitlines()[-1] == str(len(hot_modules()))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("python", PYTHONS)
def test_pip_compiles_a_clone(python: str, tree: Path, tmp_path: Path) -> None:
    there = Environment(tmp_path / "there", found(python))
    done = there.run("pip", "install", "./inorder", ".", cwd=tree, timeout_s=BUILD_S)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    imported = there.run("python", "-P", "-c", IS_COMPILED)
    assert imported.returncode == 0, imported.stderr


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_refused_core_stays_in_python(tree: Path, tmp_path: Path) -> None:
    """A compiler newer than this release could find a fault in the core, which must not end an
    installation.
    """
    event = tree / "topology" / "base" / "event.py"
    event.write_text(event.read_text() + '\n_REFUSED: int = "a text"\n')
    there = Environment(tmp_path / "there")
    done = there.run("pip", "install", "--verbose", "./inorder", ".", cwd=tree, timeout_s=BUILD_S)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "mypyc refused the core" in done.stdout + done.stderr
    imported = there.run("python", "-P", "-c", IS_COMPILED)
    assert "operator.py" in imported.stderr


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_image_steps_compile_the_worker(tree: Path, tmp_path: Path) -> None:
    """Steps of the Dockerfile run one by one, without an engine."""
    build = Environment(tmp_path / "build")
    build.install("--require-hashes", "-r", tree / "infra/locks/build.txt")
    python = str(build.folder / "bin" / "python")
    home, built, wheels = (tmp_path / name for name in ("home", "built", "wheels"))
    env = {"PATH": "/usr/bin:/bin", "INORDER_COMPILE": "1", "PYTHON": python}
    for step in (
        ("dependencies", home),
        ("build", python, built),
        ("build", python, wheels, built),
        ("install", home, wheels),
    ):
        command = [str(tree / "infra" / "image.sh"), *map(str, step)]
        subprocess.run(command, cwd=tree, env=env, check=True, timeout=BUILD_S)
    subprocess.run(
        [home / "bin" / "python", "-P", "-c", IS_COMPILED], check=True, cwd="/", timeout=60
    )
    subprocess.run([home / "bin" / "inorder", "--version"], check=True, timeout=60)
    for absent in ("pyarrow", "pip"):
        without = [str(home / "bin" / "python"), "-P", "-c", f"import {absent}"]
        assert subprocess.run(without, capture_output=True, check=False, cwd="/").returncode
