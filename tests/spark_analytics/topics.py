"""Filled topics for a test, and `inorder spark` on them, in this process or in its own.

The core in this process applies REORDER and MERGE to a workload, and the stages' header writer
writes the result: a million events in seconds. In this process the command uses the tests' own
session.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.workloads import to_events
from benchmarks.workloads.rows import Row
from cli.local.process import Process
from cli.program import PROGRAM
from tests import ROOT
from tests.cli.invoking import Answer, inorder
from tests.end_to_end.records import FLUSH_TIMEOUT_S, POLL_S, new_producer
from tests.end_to_end.setting import Setting
from tests.spark_analytics.conftest import SETTINGS
from tests.spark_analytics.records import S, records_of, watermark
from tests.waiting import wait_until
from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Step
from topology.base.result import WindowResult
from topology.records.json_lines import encode_line, make_result_line
from topology.stage.stage import Stage

BATCH = 10_000
LATER_NS = 3_600 * S
KILL_TIMEOUT_S = 300.0
END_QUIET_S = 600.0
"""Patience with a job, which logs nothing of its batches."""


def steps_of(setting: Setting, rows: Sequence[Row]) -> Iterator[Step]:
    """Yield the steps of the stage, until an hour after the last event."""
    stage = Stage(setting.topology, setting.topology.stages[0].operators)
    events = to_events(rows, epoch=NO_EPOCH)
    for begin in range(0, len(events), BATCH):
        part = events[begin : begin + BATCH]
        yield stage.on_batch(part, part[-1].arrival_ns)
    yield stage.on_time(rows[-1].arrival_ns + LATER_NS)


def in_order(setting: Setting, rows: Sequence[Row]) -> list[Event]:
    """Return the events that the stage emits, and a watermark after all windows."""
    released = [event for step in steps_of(setting, rows) for event in step.released]
    end_ns = rows[-1].arrival_ns + LATER_NS
    return [*released, watermark(released[-1].ref_time_ns + LATER_NS, end_ns)]


def write_ordered(setting: Setting, events: Sequence[Event]) -> None:
    """Write the events to the ordered topic as MERGE does; values are `{"v": …}`."""
    producer = new_producer(setting.bootstrap, **{"compression.type": "lz4"})
    for record in records_of(events):
        while True:
            try:
                producer.produce(
                    setting.ordered,
                    record.value,
                    record.key,
                    partition=0,
                    timestamp=record.stamp_ms,
                    headers=list(record.headers),
                )
                break
            except BufferError:
                producer.poll(POLL_S)
    assert producer.flush(FLUSH_TIMEOUT_S) == 0


def results_of(setting: Setting, rows: Sequence[Row]) -> list[WindowResult]:
    """Return the windows of the stage, with all their revisions."""
    found = [each for step in steps_of(setting, rows) for each in step.results]
    return [each for each in found if isinstance(each, WindowResult)]


def write_results(setting: Setting, words: Sequence[WindowResult]) -> None:
    """Write the results to their topic as a worker does."""
    producer = new_producer(setting.bootstrap, **{"compression.type": "lz4"})
    for word in words:
        value = encode_line(make_result_line(word))
        producer.produce(setting.topology.topics.windows, value, word.id.encode(), partition=0)
    assert producer.flush(FLUSH_TIMEOUT_S) == 0


def words(setting: Setting, folder: Path, job: str, *more: str) -> list[str]:
    there = ["--topology", str(setting.path), "--brokers", setting.bootstrap]
    asked = [job] if job == "live" else ["run", job]
    return ["spark", *asked, "--out", str(folder), *there, *more]


def run(setting: Setting, folder: Path, job: str, *more: str) -> Answer:
    """Run `inorder spark run` in this process and its session."""
    return inorder(*words(setting, folder, job, *more))


def killed(
    setting: Setting,
    folder: Path,
    job: str,
    *more: str,
    until: Callable[[], bool],
    conf: Mapping[str, str] = SETTINGS,
) -> None:
    """Run `inorder spark run` in its own process until the condition holds, and then kill it.

    The Java process dies with it.
    """
    process = _process(setting, folder, job, more, conf)
    process.start()
    try:
        process.wait_until(until, KILL_TIMEOUT_S)
    finally:
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()


def run_apart(
    setting: Setting, folder: Path, job: str, *more: str, conf: Mapping[str, str] = SETTINGS
) -> None:
    """Run `inorder spark run` in its own process, to its end."""
    process = _process(setting, folder, job, more, conf)
    process.start()
    try:
        end = f"the end of {job}"
        wait_until(lambda: not process.is_alive(), end, process.tail, quiet_s=END_QUIET_S)
        assert process.kill() == 0, process.tail()
    finally:
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()


def _process(
    setting: Setting, folder: Path, job: str, more: Sequence[str], conf: Mapping[str, str]
) -> Process:
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [*PROGRAM, *words(setting, folder, job, *more), *settings]
    folder.mkdir(parents=True, exist_ok=True)
    return Process("job", command, folder, {"PYTHONPATH": str(ROOT)})
