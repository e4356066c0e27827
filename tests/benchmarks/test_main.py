"""Examples: how `python -m benchmarks` finds and runs what it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import click
import pytest

from benchmarks import __main__ as entry


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sequence[str]]]:
    calls: list[tuple[str, Sequence[str]]] = []
    known = {name: click.Command(name) for name in ("core_speed", "waits")}
    monkeypatch.setattr(entry, "found", lambda: known)
    monkeypatch.setattr(entry, "bench", lambda each, *options: calls.append((each.name, options)))
    return calls


def test_without_a_name_all_run(ran: list[tuple[str, Sequence[str]]]) -> None:
    assert entry.main([]) == 0
    assert ran == [("core_speed", ()), ("waits", ())]


def test_a_name_may_be_written_with_dashes(ran: list[tuple[str, Sequence[str]]]) -> None:
    assert entry.main(["core-speed", "--rounds", "3"]) == 0
    assert ran == [("core_speed", ("--rounds", "3"))]


def test_an_unknown_name_is_answered_with_the_known_ones(
    ran: list[tuple[str, Sequence[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["speed"]) == 2
    assert ran == []
    assert "no benchmark speed; use one of: core_speed, waits" in capsys.readouterr().err


def test_what_has_no_command_is_no_benchmark() -> None:
    assert not {"workloads", "__main__"} & entry.found().keys()
