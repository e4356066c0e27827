"""Examples: the benchmark of speculation runs, each of its ways comes to the same, and ours is
early."""

from __future__ import annotations

import re

import pytest

from benchmarks import speculation
from benchmarks.__main__ import bench


def test_every_way_comes_to_the_same_and_ours_is_early(capsys: pytest.CaptureFixture[str]) -> None:
    bench(speculation.command, "--seconds", "60")
    said = capsys.readouterr().out
    assert "UNLIKE" not in said
    assert said.count("pure buffering") == 2
    assert ", late" not in said
    stalls, jitter = (int(cut) for cut in re.findall(r"ours .*?(\d+)%", said))
    assert stalls >= 75
    assert jitter >= 60
