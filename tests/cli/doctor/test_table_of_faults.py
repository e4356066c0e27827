"""Examples: each fault that docs/operate/alerts.md gives to doctor is made on purpose, and found;
what the column of the page quotes is what is written there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from cli.doctor.finding import Finding
from cli.doctor.groups import SeenGroup
from cli.doctor.inputs import input_findings
from cli.doctor.topics import Cluster, findings
from tests import ROOT
from tests.cli.doctor.test_groups import GROUP, RAW, WORKER
from tests.cli.doctor.test_inputs import at, mapped, publish, text
from tests.cli.doctor.test_topics import CHANGELOG, SOUND, TOPOLOGY, config
from tests.infra.test_monitoring import table_of_faults
from tests.inorder.records import Topic
from topology.config import parse

Fault = Callable[[Topic], list[Finding]]


def seen(cluster: Cluster) -> Fault:
    return lambda _: findings(TOPOLOGY, cluster)


def seen_topic(name: str, settings: str) -> Fault:
    return seen(replace(SOUND, topics={**SOUND.topics, name: config(name, settings)}))


def seen_group(group: SeenGroup) -> Fault:
    return seen(replace(SOUND, read_by={GROUP: group}))


def dead_records(raw: Topic) -> list[Finding]:
    publish(raw, 3, {})
    return input_findings(parse(text(raw)), at(raw))


def spread_source(raw: Topic) -> list[Finding]:
    publish(raw, 2, {"m": b"press", "n": b"1"})
    return input_findings(parse(mapped(raw)), at(raw))


FAULTS: Mapping[str, tuple[Fault, str]] = {
    "all workers are away": (
        seen_group(SeenGroup({}, {RAW: 7}, {RAW: (5, 9)})),
        "has no members, and 2 records wait",
    ),
    "records break the contract": (
        dead_records,
        "among its newest 3, every record is a dead letter",
    ),
    "brokers refuse transactions": (
        seen_topic("events.ordered", "max.message.bytes=1000"),
        "max.message.bytes is 1000",
    ),
    "a source comes by several partitions": (spread_source, "is in partitions 0 and 1"),
    "topics absent, too narrow, of other settings": (
        seen(replace(SOUND, topics={})),
        f"do not exist, {len(SOUND.topics)} topics",
    ),
    "another program in a stage's group": (
        seen_group(SeenGroup({**WORKER, "b at /h": frozenset({"others"})})),
        "b at /h is in it and reads others",
    ),
    "records deleted before they were read": (
        seen_group(SeenGroup(WORKER, {RAW: 7}, {RAW: (9, 9)})),
        "2 records were deleted before stage reorder read them",
    ),
    "a transaction that stays open": (seen(replace(SOUND, open_at={RAW: 7})), "open at offset 7"),
    "changelogs that do not compact": (
        seen_topic(CHANGELOG, "segment.bytes=1073741824"),
        "segment.bytes is 1073741824: its newest segment is not compacted",
    ),
}


def test_each_row_has_its_fault_and_each_fault_its_row() -> None:
    assert {row[0] for row in table_of_faults() if row[4]} == FAULTS.keys()


@pytest.mark.parametrize("fault", FAULTS)
def test_doctor_finds_it(fault: str, raw: Topic) -> None:
    made, what = FAULTS[fault]
    (found,) = made(raw)
    assert what in found.what
    assert found.remedy


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
