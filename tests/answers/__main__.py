"""Run `make answers BASE=revision`: compare the core's answers in this tree with a revision's.

Both run the same cases (`cases`) with their own packages, each in its own process. The exit code is
0 if no line differs, and 1 if any does; the first differing line of each case is printed. It is
also 1 for a case that fails in this tree or gives no result. SEED repeats a run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.answers.cases import ROOT, Case, written

RUN = Path(__file__).with_name("run.py")
SHOWN = 240
"""Number of characters of a differing line that are printed."""

MOST_S = 600
"""Time limit of a tree in seconds."""


class Difference(NamedTuple):
    """A case's first line that differs in two answers, counted from 1; None: it is missing."""

    case: str
    line: int
    base: str | None
    here: str | None

    def near(self, text: str | None) -> str | None:
        """Return the part of a line from a little before the difference."""
        if text is None:
            return None
        pairs = enumerate(zip(self.base or "", self.here or "", strict=False))
        differs = next((at for at, (one, other) in pairs if one != other), 0)
        begin = max(differs - SHOWN // 4, 0)
        return text[begin : begin + SHOWN]


def running(tree: Path, asked: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that writes a tree's answers into the folder."""
    folder.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("INORDER_")}
    command = [sys.executable, str(RUN), str(asked), str(folder)]
    return subprocess.Popen(command, cwd=tree, env=env)


def differences(cases: Sequence[Case], base: Path, here: Path) -> Iterator[Difference]:
    """Yield the first difference of each case, from the answers in two folders."""
    for number, case in enumerate(cases):
        pairs = zip_longest(lines_of(base, number), lines_of(here, number))
        for line, (one, other) in enumerate(pairs, 1):
            if one != other:
                yield Difference(case.name, line, one, other)
                break


def unanswered(cases: Sequence[Case], here: Path) -> list[str]:
    """Return the names of the cases that fail or give no result, and so cannot differ."""
    return [
        case.name for number, case in enumerate(cases) if not case.answered(lines_of(here, number))
    ]


def lines_of(folder: Path, number: int) -> list[str]:
    """Return the lines of a case's answer."""
    return (folder / f"{number}.txt").read_text().splitlines()


@contextmanager
def tree_of(base: str) -> Iterator[Path]:
    """Yield the tree of a revision, or the one in a folder."""
    if Path(base).is_dir():
        yield Path(base).resolve()
        return
    with TemporaryDirectory(prefix="inorder-base-") as name:
        tree = Path(name) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), base], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def main() -> int:
    if len(sys.argv) != 2:
        print("BASE is missing; write: make answers BASE=main", file=sys.stderr)
        return 2
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1 << 32))
    print(f"SEED={seed}")
    with tree_of(sys.argv[1]) as base, TemporaryDirectory(prefix="inorder-answers-") as name:
        folder = Path(name)
        cases = written(folder, seed)
        asked = folder / "cases.json"
        asked.write_text(json.dumps([case.as_json() for case in cases]))
        answers = folder / "base", folder / "here"
        processes = [
            running(tree, asked, place) for tree, place in zip((base, ROOT), answers, strict=True)
        ]
        for process in processes:
            if process.wait(MOST_S):
                print("a tree did not run the cases; its error is above", file=sys.stderr)
                return 1
        found = list(differences(cases, *answers))
        silent = unanswered(cases, answers[1])
        lines = sum(len(path.read_text().splitlines()) for path in answers[1].glob("*.txt"))
    for each in found:
        print(f"{each.case}, line {each.line}:")
        print(f"  base {each.near(each.base)}\n  here {each.near(each.here)}")
    for name in silent:
        print(f"{name}: the run failed here, or a query of it has no result; mend the case")
    print(f"{len(cases)} cases, {lines:,} lines; {len(found)} cases differ")
    return 1 if found or silent else 0


if __name__ == "__main__":
    sys.exit(main())
