"""Helpers for tests of backfills: run one in this process, and read its output and a replay's."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import Row

from cli.program import PROGRAM
from recordings.summary import Summary
from spark_analytics.backfill.kinds import TABLE_OF
from spark_analytics.backfill.pieces import NOTHING, pieces_of
from spark_analytics.backfill.place import Place
from spark_analytics.backfill.resuming import (
    ENDED,
    Known,
    ParquetTables,
    PendingRows,
    Resumed,
    TableForm,
    begin_run,
)
from spark_analytics.backfill.run import RunOutput, gather
from spark_analytics.backfill.work import OrderGroups, ReadPieces
from spark_analytics.executors.setting import Setting, digests, topology_of
from tests.cli.invoking import Answer, inorder

Lines = dict[tuple[str | None, str], list[str]]
"""Lines by stream and kind, in their order."""

APART_TIMEOUT_S = 900.0

Batches = Sequence[Any]
"""Rows in Arrow's batches."""


KILLS = """\
import os, signal, pathlib

def meets(number):
    mark = pathlib.Path({mark!r}) / str(os.getpid())
    if number == {number} and len(list(mark.parent.iterdir())) < {kills}:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return True

functions = {{"meets": meets}}
"""
"""Functions of a topology: `meets` kills its process at that number, up to so many times."""


def killing(folder: Path, number: int, kills: int) -> Path:
    """Write `own.py` with KILLS, and return the folder with a mark for each process that died."""
    marks = folder / "marks"
    marks.mkdir()
    (folder / "own.py").write_text(KILLS.format(mark=str(marks), number=number, kills=kills))
    return marks


def backfill(
    folder: Path,
    source: Path | Sequence[Path],
    *more: str,
    text: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Answer:
    """Run `inorder spark backfill` on these inputs with `t.yaml`; if `text` is given, write it to
    that file first.

    The output tables go to `out`.
    """
    if text is not None:
        (folder / "t.yaml").write_text(text)
    inputs = [source] if isinstance(source, Path) else source
    asked = [word for each in inputs for word in ("--in", each)]
    where = ("--topology", folder / "t.yaml", "--out", folder / "out")
    return inorder("spark", "backfill", *where, *asked, *more, env=env)


def backfill_apart(folder: Path, source: Path, *more: str, env: Mapping[str, str] = {}) -> str:
    """Run a backfill in its own process, assert that it succeeds, and return its output."""
    asked = ("--topology", folder / "t.yaml", "--in", source, "--out", folder / "out")
    done = subprocess.run(
        [*PROGRAM, "spark", "backfill", *map(str, asked), *more],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=APART_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def assert_replayed(folder: Path, events: Path) -> Lines:
    """Assert that the tables match a replay of these events, and return the lines of the replay."""
    wanted, _ = replayed(folder / "t.yaml", events)
    assert tabled(folder / "out") == wanted
    return wanted


def parts_of(whole: Path, folder: Path, cuts: Sequence[int]) -> list[Path]:
    """Write the lines of a file to `1.jsonl` and so on, cut at these lines."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = whole.read_text().splitlines(keepends=True)
    parts = []
    for number, (begin, end) in enumerate(pairwise([0, *cuts, len(lines)]), start=1):
        parts.append(folder / f"{number}.jsonl")
        parts[-1].write_text("".join(lines[begin:end]))
    return parts


def each_apart(seeds: Iterable[int], folder: Path, agrees: Callable[[int, Path], Any]) -> list[Any]:
    """Return the results of all seeds, each run in its own folder."""
    found = []
    for seed in seeds:
        (folder / str(seed)).mkdir()
        found.append(agrees(seed, folder / str(seed)))
    return found


def run_of_several(
    setting: Setting,
    out: Path,
    number: int,
    tasks: Callable[[OrderGroups], RunOutput],
    *,
    last: bool,
) -> None:
    """Do one of several runs into one folder; the first creates it, and the last flushes."""
    about = digests(setting)
    resumed = Resumed(str(out), first=False) if number > 1 else None
    place = Place(str(out), adds=number > 1)
    order = OrderGroups(setting, place.staged, to_end=last)
    if resumed is not None:
        resumed.find_new_queries(about, TableForm())
        order = order._replace(begin=resumed.begin, states=resumed.states())
    output = tasks(order)
    totals = output.summary.totals()
    assert totals["in"] == sum(totals[n] for n in ("event", "late", "duplicate", "dead", "held"))
    now: Known = {"run": number, ENDED: True}
    if not last:
        now = {"run": number, "topology": about, "tables": TableForm(), "begin": output.end}
        now |= {"states": output.states, "files": {}, "offsets": {}}
    if resumed is not None:
        coming = PendingRows(number, place.staged, output.files, now, {})
        resumed.add(place, coming, ParquetTables(str(out)))
        return
    place.complete(output.files)
    if not last:
        begin_run(place, now)
    place.publish({})
    place.discard()


def replayed(topology: Path, events: Path) -> tuple[Lines, dict[str, Any]]:
    """Return the lines that `inorder replay` prints, and its summary."""
    answer = inorder("replay", "--json", "--topology", topology, events)
    assert answer.code in (0, 4), answer.err
    lines: Lines = defaultdict(list)
    for text in answer.out.splitlines():
        line = json.loads(text)
        lines[line["stream"], line["kind"]].append(text)
    return dict(lines), answer.summary


def tabled(out: Path) -> Lines:
    """Return the lines in the tables of a backfill."""
    lines: Lines = defaultdict(list)
    for kind, table in TABLE_OF.items():
        rows = parquet.read_table(out / table).to_pylist()
        rows.sort(key=lambda row: (row["stream"] or "", row["position"]))
        append_rows(lines, kind, rows)
    return dict(lines)


def append_rows(lines: Lines, kind: str, rows: Iterable[Any]) -> None:
    """Append a table's lines, which are in the order of their positions."""
    for row in rows:
        of_kind = lines[row["stream"], kind]
        assert row["position"] == len(of_kind), (kind, row)
        of_kind.append(row["line"])


def by_query(lines: Lines) -> dict[tuple[str | None, str, str | None], list[str]]:
    """Return the lines by stream, kind and, for results, query."""
    found: dict[tuple[str | None, str, str | None], list[str]] = {}
    for (stream, kind), texts in lines.items():
        for text in texts:
            found.setdefault((stream, kind, json.loads(text).get("query")), []).append(text)
    return found


def laked(lake: Any) -> Lines:
    """Return the lines in the tables of Iceberg or Delta that hold every line."""
    found: Lines = {}
    for kind, table in TABLE_OF.items():
        if kind == "overflow":
            rows = lake.read("overflows_matches").union(lake.read("overflows_joins"))
        elif kind == "match_set":
            rows = lake.read("matches").where("kind = 'match_set'")
        elif kind in ("window", "match", "join"):
            rows = lake.read(table).where(f"kind = '{kind}'")
        else:
            rows = lake.read(table).select("stream", "position", "line")
            if kind == "event" and lake.exists("bad"):
                rows = rows.union(lake.read("bad").select("stream", "position", "line"))
        placed = sorted(
            (row.stream or "", row.position, row.stream, row.line)
            for row in rows.select("stream", "position", "line").collect()
        )
        for _, position, stream, line in placed:
            lines = found.setdefault((stream, kind), [])
            assert position == len(lines), (table, stream, position)
            lines.append(line)
    return found


def newest_lines(lines: Lines) -> set[str]:
    """Return the line of the newest revision of each result."""
    newest: dict[str, tuple[int, str]] = {}
    for (_, kind), texts in lines.items():
        for text in texts if kind in ("window", "match", "match_set", "join") else ():
            line = json.loads(text)
            newest[line["id"]] = max(newest.get(line["id"], (-1, "")), (line["revision"], text))
    return {text for _, text in newest.values()}


def backfilled(
    setting: Setting,
    inputs: Sequence[Path],
    out: Path,
    piece_bytes: int,
    tasks: int = 1,
    dies: int | None = None,
) -> Summary:
    """Run the tasks of a backfill one after the other in this process, without Spark.

    Task `dies` runs twice, as if its worker had died at its very end.
    """
    place = Place(str(out))
    order = OrderGroups(setting, place.staged)
    rows: list[Any] = []
    try:
        for at, batches in enumerate(parcels_of(setting, inputs, piece_bytes, tasks)):
            if at == dies:
                list(rows_of(order(iter(batches))))
            rows += rows_of(order(iter(batches)))
        output = gather(rows)
        place.complete(output.files)
        place.publish({})
    finally:
        place.discard()
    return output.summary


def tasks_run(
    setting: Setting, inputs: Sequence[Path], order: OrderGroups, piece_bytes: int
) -> RunOutput:
    """Return the output of the reading and the ordering tasks."""
    (batches,) = parcels_of(setting, inputs, piece_bytes)
    return gather(rows_of(order(iter(batches))))


def left_off(
    folder: Path,
    text: str,
    lines: Sequence[bytes],
    ends: Mapping[str, int],
    sources: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    functions: str = "",
) -> Path:
    """Return the folder of a backfill that stopped before the end of an archive.

    Args:
        ends: The offsets at which its partitions continue, by `topic/partition`.
        sources: The partitions of each source, by stream; None puts all into the only partition.
        functions: The text of `functions.py`, if the topology names that file.
    """
    (folder / "t.yaml").write_text(text)
    (folder / "history.jsonl").write_bytes(b"".join(lines))
    setting, out = Setting(text), folder / "out"
    if functions:
        (folder / "functions.py").write_text(functions)
        setting = Setting(text, functions)
    place = Place(str(out))
    order = OrderGroups(setting, place.staged, to_end=False)
    output = tasks_run(setting, [folder / "history.jsonl"], order, 5_000)
    place.complete(output.files)
    lies = {name: sorted(ends) for name in topology_of(setting).streams}
    if sources is not None:
        lies = {
            name: sorted({each for where in of.values() for each in where})
            for name, of in sources.items()
        }
    known: Known = {
        "run": 1,
        "topology": digests(setting),
        "tables": TableForm(),
        "begin": output.end,
    }
    known["states"] = output.states
    offsets = {where: end - 1 for where, end in ends.items()}
    known |= {"files": {}, "offsets": offsets, "places": lies, "sources": sources or {}}
    begin_run(place, known)
    place.publish({})
    return out


def parcels_of(
    setting: Setting, inputs: Sequence[Path], piece_bytes: int, tasks: int = 1
) -> list[Batches]:
    """Return the rows that were read, as each ordering task receives them."""
    pieces = pieces_of([str(each) for each in inputs], piece_bytes) or [NOTHING]
    numbers: Any = pa.record_batch({"id": pa.array(range(len(pieces)), pa.int64())})
    read = ReadPieces(setting, pieces)([numbers])
    rows = sorted(
        (row for batch in read for row in batch.to_pylist()),
        key=lambda row: (row["group"], row["number"] > 0, row["piece"], row["number"]),
    )
    return [_batches([row for row in rows if row["group"] % tasks == at]) for at in range(tasks)]


def _batches(rows: Sequence[dict[str, Any]]) -> Batches:
    starts = range(0, len(rows), 3)
    return [pa.RecordBatch.from_pylist(list(rows[at : at + 3])) for at in starts]


def rows_of(batches: Iterator[Any]) -> Iterator[Row]:
    for batch in batches:
        yield from (Row(**row) for row in batch.to_pylist())
