"""Law: each commit has a short subject. Examples: messages that are accepted and refused."""

from __future__ import annotations

import subprocess

import pytest

from infra.commit_message import find_faults
from tests import ROOT

SINCE = "777e0507fa6a66850873bdc9600852e01f5ace40"
"""The last commit before the rule."""


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_commits_have_short_subjects() -> None:
    if git("merge-base", "--is-ancestor", SINCE, "HEAD").returncode:
        pytest.skip("the history is not here, as in a shallow clone or an archive")
    messages = git("log", "--no-merges", "--format=%B%x00", f"{SINCE}..HEAD").stdout.split("\0")
    wrong = {
        each.strip(): faults
        for each in messages
        if each.strip() and (faults := find_faults(each.strip()))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("", "empty"),
        ("x" * 73, "73 characters"),
        ("Order events; count them", "semicolon"),
        ("Order events.", "full stop"),
        ("order events", "capital letter"),
        ("Order events\nand count them", "second line"),
    ],
)
def test_odd_message_is_refused(message: str, fault: str) -> None:
    assert any(fault in each for each in find_faults(message))


def test_plain_message_is_accepted() -> None:
    assert find_faults("Order events\n\nThey came late.\n# a comment\n") == []
