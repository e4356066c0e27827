"""Examples: each fault that docs/operate/alerts.md gives to doctor has a test that makes it; what
the column of the page quotes is what is written there."""

from __future__ import annotations

import re

from tests import ROOT
from tests.cli.doctor import test_groups, test_inputs, test_topics
from tests.infra.test_monitoring import table_of_faults

FAULTS = {
    "all workers are away": test_groups.test_what_is_amiss,
    "records break the contract": test_inputs.test_every_record_is_dead,
    "brokers refuse transactions": test_topics.test_what_is_amiss_is_told_with_its_remedy,
    "a source comes by several partitions": (
        test_inputs.test_a_source_of_others_in_several_partitions
    ),
    "topics absent, too narrow, of other settings": (
        test_topics.test_topics_that_are_absent_have_one_remedy
    ),
    "another program in a stage's group": test_groups.test_what_is_amiss,
    "records deleted before they were read": test_groups.test_what_is_amiss,
    "a transaction that stays open": test_topics.test_a_transaction_that_stays_open_is_found,
    "changelogs that do not compact": test_topics.test_what_is_amiss_is_told_with_its_remedy,
}
"""Who makes each fault that the page gives to doctor, and finds it."""


def test_each_row_has_its_fault_and_each_fault_its_row() -> None:
    assert {row[0] for row in table_of_faults() if row[4]} == FAULTS.keys()


def test_what_is_quoted_of_the_page_is_written_there() -> None:
    """By the text of what writes `/ready`, the page and `explain`."""
    written = "".join(
        path.read_text()
        for room in ("agents/watch", "agents/stage", "cli/run", "topology")
        for path in (ROOT / room).rglob("*")
        if path.suffix in {".py", ".js", ".html"}
    )
    quoted = [
        (row[0], part.strip())
        for row in table_of_faults()
        for words in re.findall(r"`([^`]+)`", row[3])
        for part in words.split("…")
        if part.strip()
    ]
    assert len(quoted) > 15
    assert [each for each in quoted if each[1] not in written] == []
