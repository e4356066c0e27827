"""End to end: queries with `upsert` under kill -9.

A reader that reduces their topics has the results of a replay of the same log. For each key the
newest record counts, and one without a value removes it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import inorder
from tests.end_to_end.records import read_all
from tests.end_to_end.setting import Setting, Settles
from tests.sinks.told import (
    STREAM,
    as_tables,
    content,
    is_overflow,
    overflows,
    without_course,
    worked,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 2_000
Table = dict[str, dict[str, Any]]


def folded(setting: Setting) -> tuple[Table, Counter[str]]:
    """Return all tables as one, and a count of each kind of change."""
    table: Table = {}
    seen: Counter[str] = Counter()
    for query, topic in setting.topology.result_tables.items():
        revisions: dict[bytes, int] = {}
        for record in read_all(setting.bootstrap, topic):
            assert record.key is not None
            if record.value is None:
                seen["retract"] += 1
                assert (record.header("op"), record.header("query")) == ("retract", query)
                revision = record.number("revision")
                del table[record.key.decode()]
            else:
                line = json.loads(record.value)
                assert (line["id"], line["query"]) == (record.key.decode(), query)
                seen[line["op"]] += 1
                revision = line["revision"]
                table[line["id"]] = line
            assert revision == revisions.get(record.key, -1) + 1, "each once, and in order"
            revisions[record.key] = revision
    return table, seen


def await_tables(setting: Setting, expected: Table) -> None:
    wait_until(lambda: without_course(folded(setting)[0]) == expected, "what is expected")


def test_tables_match_the_replay(settles: Settles, tmp_path: Path) -> None:
    setting = settles(
        stages="reorder+merge, window+pattern",
        stream=STREAM,
        more=as_tables(tmp_path.name),
    )
    lines = worked(setting, EVENTS, await_tables, killed=0.5)
    expected = content(lines)
    table, seen = folded(setting)
    assert without_course(table) == expected
    assert seen.keys() == {"emit", "update", "retract"}
    shared = [
        json.loads(record.value or b"")
        for topic in setting.topology.result_topics.values()
        for record in read_all(setting.bootstrap, topic)
    ]
    assert all(map(is_overflow, shared))
    assert overflows(shared) == overflows(lines) != set()
    printed = [
        line
        for topic in setting.topology.result_tables.values()
        for line in inorder("read", "--brokers", setting.bootstrap, "--topic", topic).lines
    ]
    assert Counter(line["op"] for line in printed) == seen
    assert content(printed) == expected
