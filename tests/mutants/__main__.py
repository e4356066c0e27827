"""`make mutants`: run each planted fault against the tests that reach it, in forks of this process.

First the tests of the packages and the laws that need no service run once, to find which mutants
each test reaches. Then those tests run against each mutant, the quickest first, until one fails or
takes too long. A test that starts another process does not run the fault there. The mutants that no
test catches are compared with `uncaught.txt`: exit 1 if one is new, 0 otherwise. WRITE=1 removes
caught ones from the list, if none is new. A new one that behaves like the original is added by
hand.

Another SEED draws other mutants (then nothing is compared), PART=10 only a tenth of them, JOBS is
the number of processes. TURN=0 takes the cases of one turn (`tests.seeds`) instead of all.
TIER=first runs only the tests in `make test`, and prints the share of faults that they catch,
without those in `uncaught.txt`. SAMPLE=60 tries that number of mutants.

Each result is added to a file in `build/mutants`. Each caught fault, with the first test that
catches it, is added to another. RESUME=1 continues a stopped run with the same SEED, PART, TIER and
TURN from these files, and from its record of the tests' reach.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests import ROOT
from tests.mutants.plant import Mutant, drawn, mix
from tests.mutants.trial import Trial

ROOMS: Final = ("agents", "topology")
FOLDERS: Final = (
    *(f"tests/{room}" for room in ROOMS),
    *("tests/laws", "tests/simulation"),
)
UNCAUGHT: Final = Path(__file__).with_name("uncaught.txt")
FOUND: Final = ROOT / "build/mutants"
WORDS: Final = {True: "caught", False: "NOT CAUGHT"}
SEED: Final = 54
LEFT_OUT: Final = (
    *("kafka", "spark", "postgres", "redis", "chaos", "long", "containers", "kubernetes"),
)
CHOICE: Final = " and ".join(f"not {marker}" for marker in LEFT_OUT)
DAY: Final = "0"
"""A mutant meets the same seeds in each run."""

TEST_S: Final = 300
"""A test that runs longer is in an endless loop."""


class Files(NamedTuple):
    """A run's files: each result, each test that catches a fault, and each test's reach."""

    found: Path
    catches: Path
    reach: Path

    @classmethod
    def of_run(cls, name: str) -> Files:
        return cls(*(FOUND / f"{name}-{kind}" for kind in ("results", "catches", "reach")))

    def begin(self) -> None:
        FOUND.mkdir(parents=True, exist_ok=True)
        self.found.write_text("")
        self.catches.write_text("")
        self.reach.unlink(missing_ok=True)


def run(
    mutants: Sequence[Mutant], jobs: int, files: Files, turn: str, tier: str
) -> dict[str, bool]:
    """Return whether each mutant is caught, by name."""
    results: dict[str, bool] = {}

    def tell(mutant: Mutant, caught: bool, took_s: float) -> None:
        results[mutant.name] = caught
        print(f"{WORDS[caught]} in {took_s:.0f} s: {mutant.name}", flush=True)
        with files.found.open("a") as file:
            file.write(f"{WORDS[caught]}: {mutant.name}\n")

    for name in list(os.environ):
        if name.startswith("INORDER_"):
            del os.environ[name]
    os.environ |= {"INORDER_DAY": DAY, "INORDER_TURN": turn}
    # This module reads the day and the turn on import, so it is imported only now.
    from tests.tiers.selection import Selection

    quiet = ["-qs", "-p", "no:cacheprovider", "-p", "no:xdist", f"--timeout={TEST_S}"]
    trial = Trial(mutants, jobs, files.reach, files.catches, tell)
    plugins = [trial, Selection(tier)] if tier else [trial]
    pytest.main([*quiet, "-m", CHOICE, *FOLDERS], plugins=plugins)
    if len(results) < len(mutants):
        raise SystemExit(f"broken off: {len(mutants) - len(results)} mutants were not tried")
    return results


def known_results(found: Path) -> dict[str, bool]:
    """Return the results of a run that was stopped, by name."""
    lines = found.read_text().splitlines() if found.exists() else []
    return {name: word == WORDS[True] for word, _, name in (line.partition(": ") for line in lines)}


def told(results: Mapping[str, bool], known: Sequence[str]) -> list[str]:
    """Print the changes, and return the names of mutants that are newly not caught."""
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
    part = int(os.environ.get("PART") or 1)
    tier = os.environ.get("TIER") or ""
    turn = os.environ.get("TURN") or ("0" if tier else "all")
    writes = bool(os.environ.get("WRITE"))
    if writes and (seed, part, tier, turn) != (SEED, 1, "", "all"):
        raise SystemExit("WRITE=1 writes the whole list; leave out SEED, PART, TIER and TURN")
    known = UNCAUGHT.read_text().splitlines() if seed == SEED else []
    mutants = drawn(ROOT, ROOMS, seed, part)
    if tier:
        left = [each for each in mutants if each.name not in known]
        mutants = mix(left, seed)[: int(os.environ.get("SAMPLE") or len(left))]
    files = Files.of_run("-".join(map(str, filter(None, (seed, part, tier, f"turn-{turn}")))))
    if not os.environ.get("RESUME"):
        files.begin()
    before = known_results(files.found)
    results = {each.name: before[each.name] for each in mutants if each.name in before}
    left = [each for each in mutants if each.name not in results]
    results |= run(left, int(os.environ.get("JOBS") or 2), files, turn, tier)
    if tier:
        caught = sum(results.values())
        print(f"{caught} of {len(results)} caught: {100 * caught // len(results)} %")
        return 0
    new = told(results, known)
    if writes and new:
        print(f"not written: {len(new)} are new")
    elif writes:
        UNCAUGHT.write_text("".join(f"{name}\n" for name in sorted(results) if not results[name]))
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
