"""Examples: a demo waits as long as there is progress, and reports what it waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.demo import stage
from cli.demo.patience import REPORT_EVERY_S, STILL_S, Patience
from cli.demo.stage import TOPOLOGY, DemoFailed, run_worker
from cli.demo.trouble import Trouble
from tests.kit.clock import Clock
from topology.config import parse


def test_progress_renews_patience() -> None:
    clock = Clock()
    patience = Patience(lambda _: None, now_s=clock)
    for step in range(20):
        clock.now_s += STILL_S - 1
        assert patience.lasts(step, "the end")
    clock.now_s += STILL_S - 1
    assert patience.lasts(19, "the end")
    clock.now_s += 1
    assert not patience.lasts(19, "the end")


def test_waiting_is_reported() -> None:
    clock = Clock()
    reports: list[str] = []
    patience = Patience(reports.append, now_s=clock)
    for step in range(12):
        patience.lasts(0, f"step {step}")
        clock.now_s += REPORT_EVERY_S / 4
    assert reports == ["waiting for step 4 (5 s)", "waiting for step 8 (10 s)"]


def test_ended_worker_is_not_awaited(tmp_path: Path) -> None:
    with (
        pytest.raises(DemoFailed, match="no broker answers|colour"),
        run_worker("127.0.0.1:1", "streams: {default: {colour: red}}\n", tmp_path, 1),
    ):
        pass


def test_stalled_worker_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker exists, so the worker would wait for ever."""
    monkeypatch.setattr(stage, "STILL_S", 1.5)
    monkeypatch.setattr("cli.demo.patience.REPORT_EVERY_S", 0.3)
    reports: list[str] = []
    with (
        pytest.raises(DemoFailed, match="did not become ready"),
        run_worker("127.0.0.1:1", "streams: {default: {}}\n", tmp_path, 16, reports.append),
    ):
        pass
    assert reports
    assert reports[0].startswith("waiting for the worker: 0 of 16 tasks taken")


def test_topology_outwaits_delays() -> None:
    """One source is silent for 11 s at most (`recording`)."""
    stream = parse(TOPOLOGY).streams["default"]
    assert stream.merge.idle_after_ns > 11_000_000_000
    assert stream.merge.max_wait_ns > Trouble().longest_ns + Trouble().base_ns
    assert stream.reorder.max_wait_ns > Trouble().longest_ns
