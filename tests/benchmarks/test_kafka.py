"""Examples: CPU time seen from outside, less start-up; end to end: contenders on Kafka."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from benchmarks.harness import ROOT
from benchmarks.kafka import (
    CONTENDERS,
    Spent,
    contenders_beside,
    cpu_seconds,
    prepare,
    pss_bytes,
    table_of,
)
from cli.local.process import Process, find_descendants
from tests.services import SharedKafka

BUSY_PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
try:
    time.sleep(60)
finally:
    child.kill()
"""


def test_start_up_time_is_subtracted() -> None:
    spent = Spent(1_001, 3.0, 4.0, 6).subtract(Spent(1, 1.0, 2.0, 5))
    assert spent == Spent(1_000, 2.0, 2.0, 6)
    assert (spent.per_cpu_second, spent.cpu_us) == (500.0, 2_000.0)


def test_median_round_is_compared() -> None:
    start_up = Spent(1, 1.0, 1.0)
    rounds = {
        "bare": [(start_up, Spent(1_000, cpu_s, 1.0)) for cpu_s in (9.0, 1.0, 2.0)],
        "ours": [(start_up, Spent(1_000, cpu_s, 1.0)) for cpu_s in (4.0, 4.0, 8.0)],
    }
    assert [row[-1] for row in table_of(rounds).rows] == ["1.00", "0.50"]


def test_cpu_time_includes_children(tmp_path: Path) -> None:
    process = Process("busy", [sys.executable, "-c", BUSY_PARENT], tmp_path)
    process.start()
    try:
        process.wait_until(lambda: cpu_seconds(process.pid) > 0.3, 30)
        own = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        assert int(own[11]) + int(own[12]) < 100 * cpu_seconds(process.pid)
    finally:
        _end_with_children(process)


def test_memory_includes_children(tmp_path: Path) -> None:
    process = Process("busy", [sys.executable, "-c", BUSY_PARENT], tmp_path)
    process.start()
    try:
        process.wait_until(lambda: cpu_seconds(process.pid) > 0.3, 30)
        (child,) = find_descendants(process.pid)
        assert pss_bytes(process.pid) > pss_bytes(child) > 0
    finally:
        _end_with_children(process)


def _end_with_children(process: Process) -> None:
    left = find_descendants(process.pid)
    process.kill()
    for child in left:
        os.kill(child, signal.SIGKILL)


@pytest.mark.kafka
@pytest.mark.slow
def test_contenders_finish_backlog(kafka: SharedKafka, tmp_path: Path) -> None:
    course = prepare(tmp_path, kafka.bootstrap, 2_000)
    found = {key: [course.measure_spent(CONTENDERS[key])] for key in ("bare", "fused")}
    assert found["fused"][0][1].records >= 0.99 * course.records - 1
    table = table_of(found)
    assert [row[0] for row in table.rows] == ["bare", "fused"]
    assert table.rows[0][-1] == "1.00"


@pytest.mark.kafka
@pytest.mark.slow
def test_readme_topology_finishes(kafka: SharedKafka, tmp_path: Path) -> None:
    course = prepare(tmp_path, kafka.bootstrap, 2_000, is_telemetry=True)
    beside = contenders_beside(ROOT)["installed-beside"]
    assert beside.name == f"{ROOT.name}, with the window"
    start_up, spent = course.measure_spent(beside)
    assert start_up.records >= 1
    assert spent.records >= 0.99 * course.records - start_up.records
    assert spent.pss_bytes > 0


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.slow
def test_plain_agent_finishes_its_part(kafka: SharedKafka, tmp_path: Path) -> None:
    # Without ticks only later records end a wait, so the backlog has to be longer than one.
    course = prepare(tmp_path, kafka.bootstrap, 40_000)
    start_up, spent = course.measure_spent(CONTENDERS["faust"])
    assert start_up.cpu_s > 0
    assert spent.records >= 0.1 * course.records
    assert "faust" in table_of({"faust": [(start_up, spent)]}).rows[0]
