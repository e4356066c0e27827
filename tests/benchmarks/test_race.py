"""Examples: CPU seen from outside, start-up taken off; end to end: contenders on Kafka."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from benchmarks.kafka import BARE, CONTENDERS, FAUST, OURS, prepare, table_of
from benchmarks.race import Spent, cpu_seconds
from cli.local.process import Process
from tests.services import SharedKafka

BUSY_PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
try:
    time.sleep(60)
finally:
    child.kill()
"""


def test_start_up_is_taken_off() -> None:
    spent = Spent(1_001, 3.0, 4.0).less(Spent(1, 1.0, 2.0))
    assert spent == Spent(1_000, 2.0, 2.0)
    assert (spent.per_cpu_second, spent.per_second, spent.cpu_us) == (500.0, 500.0, 2_000.0)


def test_the_time_of_children_counts(tmp_path: Path) -> None:
    process = Process("busy", [sys.executable, "-c", BUSY_PARENT], tmp_path)
    process.start()
    try:
        process.wait_until(lambda: cpu_seconds(process.pid) > 0.3, 30)
        own = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        assert int(own[11]) + int(own[12]) < 100 * cpu_seconds(process.pid)
    finally:
        _end_with_children(process)


def _end_with_children(process: Process) -> None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    for child in map(int, children):
        os.kill(child, signal.SIGKILL)


@pytest.mark.kafka
@pytest.mark.slow
def test_contenders_do_the_whole_backlog(kafka: SharedKafka, tmp_path: Path) -> None:
    course = prepare(tmp_path, kafka.bootstrap, 2_000)
    found = {CONTENDERS[key].name: course.spent(CONTENDERS[key]) for key in ("bare", "fused")}
    assert found[OURS][1].records >= 0.99 * course.records - 1
    table = table_of([found])
    assert [row[0] for row in table.rows] == [BARE, OURS]
    assert table.rows[0][-2] == "1.00"


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.slow
def test_the_plain_agent_puts_its_part_in_order(kafka: SharedKafka, tmp_path: Path) -> None:
    # Without ticks nothing ends a wait but later records: the backlog has to outlast one.
    course = prepare(tmp_path, kafka.bootstrap, 40_000)
    start_up, spent = course.spent(CONTENDERS["faust"])
    assert start_up.cpu_s > 0
    assert spent.records >= 0.1 * course.records
    assert FAUST in table_of([{FAUST: (start_up, spent)}]).rows[0]
