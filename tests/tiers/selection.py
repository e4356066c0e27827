"""Runs one tier if the variable INORDER_TIER is `first` or `rest`, and all tests otherwise.

The rest repeats the tests of the first tier that use seeds of the day, because the first tier has
fixed seeds. A run of named tests (`make test ARGS=tests/laws`) includes them whatever their tier.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT, seeds
from tests.tiers.plan import FIRST, Plan, module_of, read_plan
from tests.tiers.source import find_seeded


class Selection:
    """A pytest plugin that keeps the tests of one tier.

    Register it before `tests.seeds`, so that it sees the cases of the turn and no others.
    """

    def __init__(self, tier: str, plan: Plan | None = None) -> None:
        self._is_first = tier == FIRST
        self._plan = plan or read_plan()
        self._first_modules = frozenset(map(module_of, self._plan.first))

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out modules without a test of the first tier: reading them takes half a minute."""
        if not self._is_first or not collection_path.match("test_*.py"):
            return None
        path = collection_path.relative_to(ROOT).as_posix()
        return None if path in self._first_modules else True

    @pytest.hookimpl(tryfirst=True)  # before tests are left out by their marks
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        kept, left_out = list[pytest.Item](), list[pytest.Item]()
        for item in items:
            (kept if self.has(item) else left_out).append(item)
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)

    def has(self, item: pytest.Item) -> bool:
        """Return whether the tier has the test."""
        is_first = self._plan.is_first(item.nodeid)
        return is_first if self._is_first else not is_first or is_seeded(item)


def is_seeded(item: pytest.Item) -> bool:
    """Return whether the day chooses the seeds, examples or cases of a test."""
    function = getattr(item, "function", None)
    return (
        item.get_closest_marker(seeds.IN_TURNS) is not None
        or getattr(function, "is_hypothesis_test", False)
        or getattr(item, "originalname", None) in find_seeded(item.path)
    )


def is_first_tier(config: pytest.Config) -> bool:
    """Return whether the run has the first tier and nothing else."""
    return config.pluginmanager.has_plugin(FIRST)


def names_paths(config: pytest.Config) -> bool:
    """Return whether the run is of named files or tests."""
    return bool(list(config.args) != config.getini("testpaths"))


def takes_all(config: pytest.Config) -> bool:
    """Return whether no test is named, by its path or otherwise."""
    option = config.option
    some = option.keyword or option.ignore or option.deselect or getattr(option, "lf", False)
    return not (names_paths(config) or some)
