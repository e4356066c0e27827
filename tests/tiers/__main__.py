"""Writes tests/tiers.toml from a measured run, for `make tiers`.

`python -m tests.tiers RECORD` writes the tests of the run again; all others stay as they are.
`python -m tests.tiers RECORD CATCHES` also chooses again the tests that catch faults, by a file of
`make mutants TURN=0`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from tests.tiers import recorder
from tests.tiers.choice import choose
from tests.tiers.plan import BUDGET_S, PLAN, Plan, parse, write
from tests.tiers.wanted import list_wanted


def read_catchers(path: Path) -> dict[str, list[str]]:
    """Return the tests that catch a fault, by fault."""
    catchers = defaultdict[str, list[str]](list)
    for line in path.read_text(encoding="utf-8").splitlines():
        fault, test = json.loads(line)
        catchers[fault].append(test)
    return catchers


def main(record: str, catches: str | None = None) -> None:
    run = [*recorder.read(Path(record))]
    if not run:
        raise SystemExit(f"{record} has no tests; did the run begin?")
    catchers = read_catchers(Path(catches)) if catches else {}
    before = parse(PLAN.read_text(encoding="utf-8")) if PLAN.exists() else Plan({}, {})
    plan = choose(run, before, {*list_wanted()}, catchers)
    PLAN.write_text(write(plan), encoding="utf-8")
    for name, tier, most in (("first", plan.first, f" of {BUDGET_S:.0f}"), ("rest", plan.rest, "")):
        print(f"{name}: {sum(tier.values()):.0f}{most} seconds of tests")
    if catchers:
        missed = [fault for fault, tests in catchers.items() if not any(map(plan.is_first, tests))]
        print(f"{len(missed)} of {len(catchers)} faults are caught by no test of the first tier")
        print("\n".join(f"  {fault}" for fault in missed))


if __name__ == "__main__":
    main(*sys.argv[1:])
