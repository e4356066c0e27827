"""Examples: each fault that docs/operate/alerts.md leaves to doctor has a test."""

from __future__ import annotations

import re

from tests import ROOT
from tests.cli.doctor import test_groups, test_inputs, test_topics
from tests.infra.test_monitoring import table_of_faults

FAULTS = {
    "all workers are away": test_groups.test_fault_of_group_is_found,
    "records break the contract": test_inputs.test_dead_input_is_found,
    "brokers refuse transactions": test_topics.test_fault_of_topic_has_a_remedy,
    "a source comes by several partitions": test_inputs.test_spread_source_is_found,
    "topics absent, too narrow, of other settings": test_topics.test_missing_topics_share_a_remedy,
    "another program in a stage's group": test_groups.test_fault_of_group_is_found,
    "records deleted before they were read": test_groups.test_fault_of_group_is_found,
    "a transaction that stays open": test_topics.test_open_transaction_is_found,
    "changelogs that do not compact": test_topics.test_fault_of_topic_has_a_remedy,
}
"""A test for each fault that the page leaves to doctor."""


def test_each_fault_on_the_page_has_a_test() -> None:
    assert {row[0] for row in table_of_faults() if row[4]} == FAULTS.keys()


def test_quoted_texts_exist() -> None:
    """Each quoted text is compared with the sources of `/ready`, the page and `explain`."""
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
