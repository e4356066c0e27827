"""Examples: clocks and results behave as the concept pages state."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.cli.invoking import inorder, json_lines, text_file
from topology.base.sample import Declared, Sample
from topology.records.clock_words import read_report

CONCEPTS = ROOT / "docs" / "concepts"
JSON = re.compile(r"^```json\n(.*?)^```", re.M | re.S)
SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS


def test_shown_clock_records_are_read() -> None:
    shown = [json.loads(block) for block in JSON.findall((CONCEPTS / "clocks.md").read_text())]
    assert [type(read_report("press-7", each, 0, 0)) for each in shown] == [Declared, Sample]


EXPECTED = "{new_source_allowance: 0s, expected_sources: [s0, s1, s2, s3, s4]}"


@pytest.mark.parametrize(
    ("policy", "finals", "merge", "confirmed", "after_ns"),
    [
        ("estimate", "true", "{}", 0, None),
        ("trust", "false", "{}", 0, None),
        ("trust", "true", "{}", 5, None),
        ("trust", "true", EXPECTED, 5, SECOND_NS // 5),
    ],
)
def test_windows_are_certain_as_shown(
    tmp_path: Path, policy: str, finals: str, merge: str, confirmed: int, after_ns: int | None
) -> None:
    topology = text_file(
        tmp_path / "topology.yaml",
        f"streams: {{default: {{clock: {{unsynced: {policy}}}, merge: {merge}}}}}\n"
        f"queries: {{w: {{window: tumbling 10s, finals: {finals}, aggregate: {{n: count()}}}}}}\n",
    )
    events = json_lines(tmp_path / "events.jsonl", _five_sources())
    answer = inorder("replay", "--topology", str(topology), "--show", "window", str(events))
    current = {line["id"]: line for line in answer.lines}
    sure = [line for line in current.values() if line["confidence"] == "confirmed"]
    assert len(sure) == confirmed
    if after_ns is not None:
        assert {line["at"] - line["end"] for line in sure} == {after_ns}


def _five_sources() -> list[dict[str, Any]]:
    """Return a minute of events from five sources, one every 200 ms each, arriving 3 ms later."""
    return [
        {"source": f"s{source}", "seq": seq, "ts": ts_ns, "arrival": ts_ns + 3_000_000}
        for seq in range(300)
        for source in range(5)
        for ts_ns in [START_NS + seq * (SECOND_NS // 5) + source * 1_000_000]
    ]
