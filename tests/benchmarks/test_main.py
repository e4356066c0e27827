"""Examples: `python -m benchmarks` finds and runs the requested benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

import click
import pytest

from benchmarks import __main__ as entry


def test_named_benchmark_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str, Sequence[str]]] = []
    known = {name: click.Command(name) for name in ("core_speed", "waits")}
    monkeypatch.setattr(entry, "find_all", lambda: known)
    monkeypatch.setattr(entry, "bench", lambda each, *options: ran.append((each.name, options)))
    assert entry.main([]) == 0
    assert entry.main(["core-speed", "--rounds", "3"]) == 0
    assert ran == [("core_speed", ()), ("waits", ()), ("core_speed", ("--rounds", "3"))]
    assert entry.main(["speed"]) == 2
    assert len(ran) == 3
    assert "no benchmark speed; use one of: core_speed, waits" in capsys.readouterr().err


def test_benchmark_needs_a_command() -> None:
    assert not {"workloads", "__main__"} & entry.find_all().keys()
