"""Examples: what the README shows of its topology is what a replay says."""

from __future__ import annotations

import json
import re

import yaml

from tests import ROOT
from tests.cli.invoking import inorder
from tests.cli.test_pages import part_of

README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_WORDS = 900


def test_it_is_short() -> None:
    assert len(README.split()) <= MOST_WORDS


def test_the_topology_is_the_file() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", README, re.S)
    file = ROOT / "docs/examples/telemetry.yaml"
    assert yaml.safe_load(shown) == yaml.safe_load(file.read_text())


def test_the_lines_come_in_this_order() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", README, re.S)
    shown = [json.loads(line) for line in block.splitlines()]
    sample = ROOT / "docs/examples/telemetry.csv"
    said = iter(inorder("replay", "--topology", sample.with_suffix(".yaml"), sample).lines)
    for part in shown:
        assert any(part_of(line, part) == part for line in said), part
