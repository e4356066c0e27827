"""Examples: stages and tasks run as the pages state."""

from __future__ import annotations

import re

from tests import ROOT
from topology.config import parse
from topology.config.change import refuse_abandoned

CHANGE = ROOT / "docs/operate/change.md"
SIZE = ROOT / "docs/operate/size.md"
DEFAULT = parse("streams: {default: {}}\n")


def test_page_shows_the_refusal() -> None:
    """An older release left state for a file that named no stages. The stages that the refusal
    suggests are valid.
    """
    (shown,) = re.findall(r"^refused stages: .*$", CHANGE.read_text(), re.M)
    refused = str(refuse_abandoned("reorder", "events.raw", "", DEFAULT))
    assert re.fullmatch(".*".join(map(re.escape, shown.split("…"))), refused)
    (line,) = re.findall(r"`(stages: \[.*?\])`", shown)
    again = parse(f"streams: {{default: {{}}}}\n{line}\n")
    assert [stage.name for stage in again.stages][:2] == ["reorder", "merge"]


def test_shown_line_separates_the_stages() -> None:
    (line,) = re.findall(r"^stages: .*$", SIZE.read_text(), re.M)
    query = "queries: {n: {window: tumbling 1s, aggregate: {n: count()}}}\n"
    cut = parse(f"streams: {{default: {{}}}}\n{query}{line}\n")
    assert [stage.operators for stage in cut.stages] == [("reorder",), ("merge",), ("window",)]
    assert not cut.fused


def test_task_table_matches_the_code() -> None:
    """Each case gives the topics that one task reads together; the page has the row for separate
    topics.
    """
    two = "streams: {a: {input: a%s}, b: {input: b%s}}\n"
    join = "queries: {j: {join: interval 1s, sides: {l: {stream: a}, r: {stream: b}}}}\n"
    assert DEFAULT.topics_read_together == [["events.raw"]]
    assert parse(two % ("", "")).topics_read_together == [["a"], ["b"]]
    assert parse(two % ("", "") + join).topics_read_together == [["a", "b"]]
    keyed = ", keyed_by: stream"
    assert parse(two % (keyed, keyed)).topics_read_together == []
    assert SIZE.read_text().count("| one for each input topic, with all its partitions |") == 1
