"""Law: a backfill matches a replay, byte for byte, on every real trace. It runs in one, two and
seven tasks, with killed tasks, and resumed day by day.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_analytics.backfill import pieces
from spark_analytics.backfill.run import RunOutput, gather
from spark_analytics.backfill.work import OrderGroups
from spark_analytics.executors.setting import Setting
from tests.spark_analytics.backfill.outputs import (
    Batches,
    assert_replayed,
    backfill,
    backfill_apart,
    killing,
    parcels_of,
    replayed,
    rows_of,
    run_of_several,
    tabled,
)
from tests.spark_analytics.backfill.recorded import (
    TRACES,
    days,
    lines_of,
    side_by_side,
    topology,
    written,
)

FEW = 250
LONGEST = {"lorawan": 20_000}
"""The most lines of a trace; the others are read whole. This one has 98 days of one station, a line
a minute. 21 of the days show as much in a fifth of the time."""
KILLED = 2_500
"""Lines of each trace where processes are killed: each kill repeats all of the work."""
PIECE_BYTES = 20_000
TASKS = (1, 2, 7)


class Killed(Exception):
    """A kill of a task."""


def dies_after(batches: Batches, taken: int) -> Iterator[object]:
    yield from islice(batches, taken)
    raise Killed


def run_killed_tasks(order: OrderGroups, parts: list[Path], tasks: int) -> RunOutput:
    """Return the output of tasks that died halfway and were retried."""
    rows: list[object] = []
    for batches in parcels_of(order.setting, parts, PIECE_BYTES, tasks):
        with pytest.raises(Killed):
            list(order(dies_after(batches, len(batches) // 2)))
        rows += rows_of(order(iter(batches)))
    return gather(rows)


def cut_by_day(name: str, most: int | None, tasks: int, folder: Path) -> None:
    """Backfill a trace in a run for each day, and assert that the tables match a replay of all
    days.
    """
    (folder / "t.yaml").write_text(topology([name]))
    setting = Setting((folder / "t.yaml").read_text())
    cut = days(lines_of(name)[:most])
    for run, lines in enumerate(cut, start=1):
        day = written(folder / "day.jsonl", lines)

        def killed(order: OrderGroups, day: Path = day) -> RunOutput:
            return run_killed_tasks(order, [day], tasks)

        run_of_several(setting, folder / "out", run, killed, last=run == len(cut))
    whole = written(folder / "whole.jsonl", (line for lines in cut for line in lines))
    wanted = assert_replayed(folder, whole)
    assert {kind for _, kind in wanted} >= {"event", "window"}


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", TRACES)
def test_daily_runs_match_a_replay(name: str, tmp_path: Path) -> None:
    cut_by_day(name, FEW, TASKS[len(name) % 3], tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3_600)  # for a busy machine
@pytest.mark.parametrize("name", TRACES)
def test_daily_runs_of_whole_trace_match(name: str, tmp_path: Path) -> None:
    cut_by_day(name, LONGEST.get(name), TASKS[len(name) % 3], tmp_path)


@pytest.mark.in_turns(3)
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("tasks", TASKS)
def test_all_traces_match_a_replay(
    tasks: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 200_000)
    monkeypatch.setattr("spark_analytics.backfill.run.tasks_for", lambda *_: tasks)
    whole = written(tmp_path / "whole.jsonl", side_by_side(list(TRACES), FEW // 2))
    backfill(tmp_path, whole, text=topology(list(TRACES))).well()
    kinds = {kind for _, kind in assert_replayed(tmp_path, whole)}
    assert kinds >= {"event", "gap", "duplicate", "window", "match"}


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("cores", [1, 2])  # one task, and one for each trace
def test_traces_survive_killed_tasks(cores: int, tmp_path: Path) -> None:
    """Python processes get kill -9 while they order; Spark retries their tasks."""
    names = [name for name in TRACES if name != "lorawan"]  # a third of all lines, of one station
    # The replay runs afterwards and kills nothing: the marks show that enough have died.
    marks = killing(tmp_path, number=240, kills=3)
    pattern = "PATTERN SEQ(T0 a) WHERE meets(a.n) WITHIN 1 s RETURN a.n AS n"
    text = f"functions: own.py\n{topology(names)}"
    for name in ("umts_d1", "quakes", "mesh_tdma"):
        text += f'  k_{name}: {{stream: {name}, pattern: "{pattern}"}}\n'
    (tmp_path / "t.yaml").write_text(text)
    whole = written(tmp_path / "whole.jsonl", side_by_side(names, KILLED))
    said = backfill_apart(tmp_path, whole, "--master", f"local[{cores},8]", "--json")
    assert len(list(marks.iterdir())) == 3
    wanted, account = replayed(tmp_path / "t.yaml", whole)
    assert tabled(tmp_path / "out") == wanted
    assert json.loads(said.splitlines()[-1])["in"] == account["in"]
    kinds = {kind for _, kind in wanted}
    assert kinds >= {"event", "gap", "late", "duplicate", "window", "match"}
