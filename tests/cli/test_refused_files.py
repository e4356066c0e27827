"""Examples: commands refuse a topology file in the same words, before they contact a broker.

The chart's Job runs `topics create`. If it accepted a bad file, only the pods of the workers would
report the fault.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents.exits import Exit
from tests.cli.invoking import inorder, text_file

NOWHERE = ("--brokers", "127.0.0.1:1")
FILES = {
    "two faults": ("streams: {default: {reorder: {max_wait: 5}}}\ncolour: red\n", "colour"),
    "no YAML": ("streams: {default: \n", "not YAML"),
    "a key twice": ("streams: {default: {}, default: {}}\n", "appears here twice"),
    "stages in disorder": ("streams: {default: {}}\nstages: [merge, reorder]\n", "keep the order"),
    "a topic twice": ("streams: {default: {}}\ntopics: {late: events.raw}\n", "another name"),
    "a pattern": ("streams: {default: {}}\nqueries: {p: {pattern: PATTERN SEQ(A}}\n", "queries.p"),
    "absent functions": ("streams: {default: {}}\nfunctions: absent.py\n", "no Python file"),
    "faulty functions": ("streams: {default: {}}\nfunctions: faulty.py\n", "ZeroDivisionError"),
}


def plain(told: str) -> list[str]:
    """Return the lines of a refusal without the error mark or the head of a log line."""
    return re.sub(r"^(Error:|\S+ \S+ worker ERROR) |^ +", "", told.strip(), flags=re.M).splitlines()


@pytest.mark.parametrize("case", FILES)
def test_commands_refuse_alike(case: str, tmp_path: Path) -> None:
    text, word = FILES[case]
    (tmp_path / "faulty.py").write_text("1 / 0\n")
    path = text_file(tmp_path / "t.yaml", text)
    checked = inorder("check", "--trust", path).refused(word)
    for command in (("topics", "create"), ("worker",)):
        refused = inorder(*command, "--topology", path, *NOWHERE)
        assert refused.code == checked.code == Exit.REFUSED
        assert plain(refused.err) == plain(checked.err)
