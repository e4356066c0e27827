"""Names what the first tier must have: a test of each promise, and of the README's commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests import ROOT
from tests.tiers.source import read_source

GUARANTEES: Final = ROOT / "docs/guarantees.md"
TEST: Final = re.compile(
    r"`(?P<name>test_\w+(\[[^`]+\])?)` of \[[^]]+\]\(\.\./(?P<path>tests/[^)]+)\)"
)
"""A test on that page, as its readers see it."""

ALWAYS: Final[Mapping[str, Sequence[str]]] = {
    # The commands of the README and of the tutorial.
    "tests/docs/test_pages.py": ["test_page_shows_the_real_output"],
    "tests/docs/test_on_kafka.py": ["test_page_commands_work"],
    "tests/end_to_end/test_dev.py": ["test_tutorial_commands_work", "test_dev_runs_without_java"],
    # A new test must get a tier.
    "tests/test_tiers.py": [
        "test_each_test_is_in_a_tier",
        "test_first_tier_has_wanted_tests",
        "test_first_tier_is_complete",
    ],
    # Answers on recorded traces, and the balance of a worker.
    "tests/cli/test_answers_stay.py": [
        "test_replay_answers_are_unchanged",
        "test_match_answers_are_unchanged",
    ],
    "tests/end_to_end/test_worker.py": ["test_worker_replaces_a_killed_stage"],
    # Spark: a session, a job, a backfill, a table that is read.
    "tests/spark_analytics/test_session.py": ["test_functions_run_in_same_interpreter"],
    "tests/spark_analytics/jobs/test_end_to_end.py": [
        "test_streaming_job_matches_batch[disorder-tables0-shown0]"
    ],
    "tests/spark_analytics/backfill/test_backfill.py": ["test_tables_match_a_replay"],
    "tests/spark_analytics/test_topic_source.py": ["test_input_topic_matches_a_replay"],
}
"""Tests that the page of guarantees does not name, by module."""

LAWS: Final = "tests/laws/test_laws.py"
"""The laws of every operator; the first tier has them all."""


def list_wanted() -> Iterator[str]:
    """Yield the ids of functions and cases."""
    yield from find_promised(GUARANTEES.read_text(encoding="utf-8"))
    yield from (f"{path}::{name}" for path, names in ALWAYS.items() for name in names)
    yield from (f"{LAWS}::{name}" for name in sorted(read_source(ROOT / LAWS).tests))


def find_promised(page: str) -> Iterator[str]:
    """Yield the tests that the page of guarantees names for `make test`."""
    return (f"{test['path']}::{test['name']}" for test in TEST.finditer(page))
