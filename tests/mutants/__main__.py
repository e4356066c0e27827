"""`make mutants`: runs each planted fault against the tests of its room, then the laws.

A mutant is caught if a test fails, or takes longer than it may. Each process has a copy of the tree
of its own, and takes the next mutant when it is done. The names of those that no test catches are
compared with `uncaught.txt`: exit 1 where one is new, 0 otherwise. WRITE=1 writes the list.

SEED draws others (then nothing is compared), PART=10 only a tenth of them, JOBS is the number of
processes. 200 mutants take a night on two cores; each result is added to `build/mutants.txt`, and
RESUME=1 takes those from there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final

from tests import ROOT
from tests.mutants.plant import Mutant, drawn, planted

ROOMS: Final = ("agents", "topology")
LAWS: Final = ("tests/laws", "tests/oracle", "tests/simulation")
UNCAUGHT: Final = Path(__file__).with_name("uncaught.txt")
RESULTS: Final = ROOT / "build/mutants.txt"
WORDS: Final = {True: "caught", False: "NOT CAUGHT"}
SEED: Final = 54
CHOICE: Final = "not kafka and not spark and not postgres and not redis and not chaos and not long"
DAY: Final = {"INORDER_DAY": "0"}
"""A mutant meets the same seeds in each run."""

TEST_S: Final = 300
"""A test that runs longer has met an endless loop."""

MOST_S: Final = 3600
"""The tests of a mutant that run longer are stuck."""


def copied(folder: Path) -> None:
    """Copy the tracked files and the compiled codec into the folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    built = [str(path.relative_to(ROOT)) for path in (ROOT / "codec/native").glob("*.so")]
    for name in [*listed.stdout.decode().split("\0"), *built]:
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def steps_of(module: str) -> Iterator[list[str]]:
    """Yield the choices of tests for a module, the nearest first: its folder's, the room's, the
    laws, which are quick and then slow."""
    tested: list[str] = []
    folder = Path("tests") / Path(module).parent
    while len(folder.parts) > 2:
        if (ROOT / folder).is_dir():
            yield ["-m", CHOICE, str(folder), *(f"--ignore={each}" for each in tested)]
            tested.append(str(folder))
        folder = folder.parent
    yield ["-m", f"{CHOICE} and not slow", *LAWS]
    yield ["-m", f"{CHOICE} and slow", *LAWS]


def is_caught(tree: Path, module: str) -> bool:
    """Whether a test of the tree fails, or does not end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("INORDER_")}
    env |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", **DAY}
    pytest = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "-p", "no:xdist"]
    for step in steps_of(module):
        command = [*pytest, f"--timeout={TEST_S}", *step]
        try:
            code = subprocess.run(
                command, cwd=tree, env=env, capture_output=True, timeout=MOST_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return True
        if code not in (0, 5):  # 5: no test is chosen
            return True
    return False


def run(mutants: Sequence[Mutant], jobs: int, folder: Path) -> dict[str, bool]:
    """Return whether each mutant is caught, by name."""
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(jobs):
        tree = folder / str(number)
        copied(tree)
        trees.put(tree)

    def one(mutant: Mutant) -> tuple[str, bool]:
        tree = trees.get()
        path = tree / mutant.module
        source = path.read_bytes()
        began_s = time.monotonic()
        try:
            path.write_bytes(planted(source, mutant))
            caught = is_caught(tree, mutant.module)
        finally:
            path.write_bytes(source)
            trees.put(tree)
        print(f"{WORDS[caught]} in {time.monotonic() - began_s:.0f} s: {mutant.name}", flush=True)
        with RESULTS.open("a") as file:
            file.write(f"{WORDS[caught]}: {mutant.name}\n")
        return mutant.name, caught

    with ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(one, mutants))


def known_results() -> dict[str, bool]:
    """Return the results of a run that was stopped, by name."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {name: word == WORDS[True] for word, _, name in (line.partition(": ") for line in lines)}


def told(results: Mapping[str, bool], known: Sequence[str]) -> list[str]:
    """Return the names that are newly not caught, after telling what changed."""
    uncaught = [name for name, caught in results.items() if not caught]
    new = sorted(set(uncaught) - set(known))
    print(f"{len(results)} mutants, {len(uncaught)} not caught, {len(new)} of them new")
    for name in new:
        print(f"  new: {name}")
    for name in known:
        if results.get(name):
            print(f"  now caught: {name}")
    return new


def main() -> int:
    seed = int(os.environ.get("SEED") or SEED)
    mutants = drawn(ROOT, ROOMS, seed, int(os.environ.get("PART") or 1))
    known = UNCAUGHT.read_text().splitlines() if UNCAUGHT.exists() and seed == SEED else []
    if not os.environ.get("RESUME"):
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("")
    before = known_results()
    results = {each.name: before[each.name] for each in mutants if each.name in before}
    with TemporaryDirectory(prefix="inorder-mutants-") as name:
        left = [each for each in mutants if each.name not in results]
        results |= run(left, int(os.environ.get("JOBS") or 2), Path(name))
    new = told(results, known)
    if os.environ.get("WRITE"):
        UNCAUGHT.write_text("".join(f"{name}\n" for name in sorted(results) if not results[name]))
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
