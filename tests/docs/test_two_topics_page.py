"""Examples: the commands of docs/guides/two_topics.md, typed as they stand, give the results that
it shows.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.cli.invoking import inorder
from tests.docs.commands import commands_of
from tests.end_to_end.test_dev import dev
from topology.config import parse

PAGE = ROOT / "docs/guides/two_topics.md"
SHOWN = re.compile(r"^```json\n(.*?)^```", re.M | re.S)


def shown() -> list[list[dict[str, Any]]]:
    """Return the lines of each block of results."""
    return [
        [json.loads(line) for line in block.splitlines()]
        for block in SHOWN.findall(PAGE.read_text())
    ]


@pytest.mark.slow
def test_page_shows_the_real_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the port can differ, if another process uses it."""
    monkeypatch.chdir(ROOT)
    typed = [each.words[1:] for each in commands_of(PAGE) if each.is_whole]
    (serve,) = [words for words in typed if words[0] == "dev"]
    (file,) = [word for word in serve if word.endswith(".yaml")]
    topology = parse(Path(file).read_text())
    assert topology.topics.partitions == 4
    assert len({stream.input for stream in topology.streams.values()}) == 2
    options = [str(ROOT / word) if word == file else word for word in serve[1:]]
    with dev(tmp_path, *options) as (_, brokers):
        answers = []
        for words in typed:
            if words[0] not in {"produce", "read"}:
                continue
            done = inorder(*[brokers if word == "127.0.0.1:9092" else word for word in words])
            assert done.code == 0, (shlex.join(words), done.err)
            if words[0] == "read":
                answers.append(done.lines)
    for lines, wanted in zip(answers, shown(), strict=True):
        keys = wanted[0].keys()
        found = [{key: line[key] for key in keys} for line in lines]
        assert sorted(found, key=json.dumps) == sorted(wanted, key=json.dumps)
