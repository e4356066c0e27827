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
    "tests/cli/test_pages.py": ["test_the_pages_are_right"],
    "tests/docs/test_on_kafka.py": ["test_what_the_pages_tell_to_type_works"],
    "tests/end_to_end/test_dev.py": ["test_the_first_minutes_of_the_tutorial", "test_without_java"],
    # Whoever adds a test puts it into a tier.
    "tests/test_tiers.py": [
        "test_each_test_is_in_a_tier",
        "test_first_tier_has_what_it_must_have",
        "test_first_tier_is_all_there",
    ],
    # Answers on recorded traces, and the balance of a worker.
    "tests/cli/test_answers_stay.py": [
        "test_a_replay_says_what_it_said",
        "test_matches_are_what_they_were",
    ],
    "tests/end_to_end/test_worker.py": ["test_health_balance_and_a_stage_that_dies"],
    # Spark: a session, a job, a backfill, a table that is read.
    "tests/spark_analytics/test_session.py": [
        "test_functions_over_arrow_run_in_this_very_interpreter"
    ],
    "tests/spark_analytics/test_end_to_end.py": [
        "test_a_job_says_as_a_stream_what_it_says_in_batch[disorder-tables0-shown0]"
    ],
    "tests/spark_analytics/backfill/test_backfill.py": ["test_its_tables_say_what_a_replay_says"],
    "tests/spark_analytics/test_topic_source.py": [
        "test_an_input_topic_gives_the_tables_of_a_replay"
    ],
}
"""What the page of guarantees does not name, by module."""

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
