"""Reads and writes the list of tests by tier, with their seconds.

A function is in the first tier with all of its cases, with those that the list names, or not at
all. The list is by module:

    ["tests/topology/queries/window/test_cells.py".first]
    test_sums = 0.021
    "test_means[float]" = 0.004

    ["tests/topology/queries/window/test_cells.py".rest]
    test_means = 7.3
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from tests import ROOT

FIRST: Final = "first"
REST: Final = "rest"
TIERS: Final = (FIRST, REST)
VARIABLE: Final = "INORDER_TIER"
PLAN: Final = ROOT / "tests/tiers.toml"
BUDGET_S: Final = 600.0
"""Seconds of tests that the first tier may take on two quiet cores, with three workers."""

HEAD: Final = """\
# Written by `make tiers`: the tier of each test, and its seconds, which two quiet cores took.
# `make test` runs the first tier, `make test-rest` the rest (CONTRIBUTING.md, Test).
"""

Module = dict[str, dict[str, float]]


class Plan(NamedTuple):
    """A plan of the two tiers: seconds by the id of a test.

    Attributes:
        first: Functions of which all cases are in the first tier, and other single cases.
        rest: Functions with cases that are only in the rest; the seconds are of these cases.
    """

    first: Mapping[str, float]
    rest: Mapping[str, float]

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(map(function_of, (*self.first, *self.rest)))

    def is_first(self, test: str) -> bool:
        return test in self.first or function_of(test) in self.first

    def has_some(self, test: str) -> bool:
        """Return whether the first tier has the test, or a case of the function."""
        return self.is_first(test) or any(function_of(each) == test for each in self.first)


def get_tier() -> str | None:
    """Return the tier of this run; None for a run of all tests, or of those that are named."""
    return os.environ.get(VARIABLE) or None


def function_of(test: str) -> str:
    """Return the id without its case."""
    return test.partition("[")[0]


def module_of(test: str) -> str:
    """Return the path of the test's module."""
    return test.partition("::")[0]


def parse(text: str) -> Plan:
    """Return the plan that a text in TOML holds."""
    modules: Mapping[str, Module] = tomllib.loads(text)
    first, rest = (
        {
            f"{path}::{name}": seconds
            for path, tiers in modules.items()
            for name, seconds in tiers.get(tier, {}).items()
        }
        for tier in TIERS
    )
    return Plan(first, rest)


def write(plan: Plan) -> str:
    """Return the plan as a text in TOML, sorted by name."""
    modules: dict[str, Module] = {}
    for tier, tests in zip(TIERS, plan, strict=True):
        for test, seconds in sorted(tests.items()):
            path, _, name = test.partition("::")
            modules.setdefault(path, {}).setdefault(tier, {})[name] = seconds
    lines = [HEAD]
    for path, tiers in sorted(modules.items()):
        for tier, tests in tiers.items():
            lines.append(f'["{path}".{tier}]\n')
            lines += [f"{_key(name)} = {round(seconds, 3)}\n" for name, seconds in tests.items()]
            lines.append("\n")
    return "".join(lines).rstrip("\n") + "\n"


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


@cache
def read_plan() -> Plan:
    """Return the plan of this tree."""
    return parse(PLAN.read_text(encoding="utf-8"))
