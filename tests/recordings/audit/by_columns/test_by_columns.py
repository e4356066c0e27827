"""Laws: an audit of columns gives the output of an audit of the same rows.

The tables are generated, and files have cells of all kinds.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from benchmarks.workloads.machines import BEGIN_NS, FAST, MS, RESTARTS, S, plant
from cli.audit.text import format_findings
from inorder.contract import MAX_INT64
from recordings.audit import from_table
from recordings.audit.by_columns.count import is_countable
from recordings.audit.by_columns.numbers import track_numbers
from recordings.audit.columns import Columns
from recordings.audit.document import make_document
from recordings.audit.findings import Asked, audit
from recordings.audit.from_table import columns_of_file
from recordings.audit.from_values import rows_of_file
from recordings.audit.machine import Machine
from recordings.audit.numbers import GapBudget, NumberedEpochs
from recordings.audit.row import ONE_ORDER, AuditRow
from recordings.audit.spool import NONE
from recordings.audit.wraps import LASTS, Wraps
from recordings.values import FileMapping
from tests.cli.audit.test_command import MAPPED, WORLDS
from tests.cli.invoking import inorder
from tests.seeds import seeds_of_today
from topology.base.outcome import Malformed
from topology.records.mapping import Fields
from topology.records.where import Where

ASKED: Final = Asked(60 * S, (0, 1 * S, 5 * S, 30 * S), ONE_ORDER, arrives=True)


def in_columns(rows: Sequence[AuditRow]) -> Columns:
    names: dict[str, int] = {}
    for row in rows:
        names.setdefault(row.source, len(names))

    def column(of: Callable[[AuditRow], int | None]) -> Any:
        return np.array([NONE if (value := of(row)) is None else value for row in rows], np.int64)

    return Columns(
        [*names],
        column(lambda row: names[row.source]),
        column(lambda row: row.seq),
        column(lambda row: row.epoch),
        column(lambda row: row.ts_ns),
        column(lambda row: row.arrival_ns),
        column(lambda row: row.offset),
    )


def audit_output(inputs: Sequence[AuditRow] | Columns, asked: Asked) -> tuple[Any, ...]:
    """Return the whole output of an audit, and the waits on which its advice is based."""
    findings = audit(inputs, asked)
    counting = findings.counting
    waits = sorted(counting.gaps.filled_after_ns), [*counting.behind_own_ns]
    return make_document(findings), format_findings(findings, "head", [], []), waits


def agree(rows: Sequence[AuditRow], asked: Asked = ASKED) -> None:
    rows = [row._replace(digest=0) for row in rows]
    table = in_columns(rows)
    assert is_countable(table, asked.length_ns, asked.bounds_ns)
    assert audit_output(table, asked) == audit_output(rows, asked)


@pytest.mark.parametrize("seed", seeds_of_today(1))
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("arrives", [True, False])
def test_columns_of_plant_match_rows(world: str, seed: int, arrives: bool) -> None:
    rows = WORLDS[world](seed)
    if not arrives:
        rows = [row._replace(arrival_ns=None) for row in rows]
    agree(rows, replace(ASKED, arrives=arrives))


def drifting(rows: Sequence[AuditRow]) -> list[AuditRow]:
    """Return the rows with one source whose clock gains half a second in a thousand."""
    begin_ns = rows[0].ts_ns
    return [
        row._replace(ts_ns=row.ts_ns + (row.ts_ns - begin_ns) // 2_000)
        if row.source == "robot-0"
        else row
        for row in rows
    ]


@pytest.mark.parametrize("fast_after", [0.0, 0.5])
def test_columns_with_wrong_clocks_match(
    fast_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        row if row.source != RESTARTS else row._replace(seq=None)
        for row in drifting(plant(2, 6_000, fast_after=fast_after))
    ]
    expected = audit_output(rows, ASKED)
    clocks = expected[0]["by_machine"]
    assert clocks["robot-0"]["verdict"] == "drifting"
    assert clocks[FAST]["verdict"] == ("jumped" if fast_after else "fast by 41 s")
    monkeypatch.setattr("recordings.audit.mended._mend", None)
    assert audit_output(in_columns(rows), ASKED) == expected


NUMBERS: Final = (0, 1, 14, 15, 16, 254, 255, 256, 65_535, 1 << 31, (1 << 32) - 1, MAX_INT64)
STEPS_NS: Final = (0, 0, 1, MS, 300 * MS, S, S, S, 40 * S, 3_600 * S)


def odd_rows(dice: Random) -> Iterator[AuditRow]:
    """Yield rows of a few sources with odd numbers and times; each table has some of the faults."""
    count, sources = dice.randrange(1, 150), dice.choice((1, 2, 5, 40))
    begin_ns = dice.choice((BEGIN_NS, BEGIN_NS, 0, -7 * S, -(1 << 61) + 3_600 * S * 200))
    chances = {
        name: dice.choice((0.0, 0.0, 0.05, 0.4))
        for name in ("copy", "late", "gap", "reset", "far", "tied", "bare", "epoch", "jump", "away")
    }
    arrives = dice.random() < 0.7
    last: dict[str, AuditRow] = {}
    at_ns = begin_ns
    sent: list[AuditRow] = []
    for offset in range(count):
        happens = {name for name, chance in chances.items() if dice.random() < chance}
        at_ns += dice.choice(STEPS_NS)
        source = f"s{dice.randrange(sources)}"
        before = last.get(source)
        seq = (before.seq or 0) + 1 if before else dice.choice((0, 1, 7))
        epoch = before.epoch if before else None
        if "gap" in happens:
            seq += dice.randrange(1, 20)
        if "reset" in happens:
            seq = dice.choice((0, 0, 1, 3))
        if "far" in happens:
            seq = dice.choice(NUMBERS)
        if "epoch" in happens:
            epoch = dice.choice((0, 1, 2, (epoch or 0) + 1))
        ts_ns = before.ts_ns if before and "tied" in happens else at_ns
        if "late" in happens:
            ts_ns -= round(dice.random() * 90 * S)
        if "jump" in happens:
            ts_ns += dice.choice((-1, 1)) * dice.choice((2 * S, 4_000 * S, 90_000 * S, 1 << 55))
        came_ns = None if not arrives or "away" in happens else at_ns
        row = AuditRow(source, min(seq, MAX_INT64), epoch, ts_ns, came_ns, 0, offset)
        if "copy" in happens and sent:
            row = dice.choice(sent[-9:])._replace(arrival_ns=came_ns, offset=offset)
            if dice.random() < 0.2:
                row = row._replace(ts_ns=ts_ns)
        else:
            last[source] = row
        sent.append(row)
        yield row._replace(seq=None) if "bare" in happens else row


@pytest.mark.parametrize("seed", seeds_of_today(30))
def test_columns_of_table_match_rows(seed: int) -> None:
    dice = Random(seed)
    rows = [*odd_rows(dice)]
    if all(abs(row.ts_ns) <= 1 << 61 for row in rows):
        length_ns = dice.choice((1, 7, 60, 86_400)) * S
        bounds_ns = dice.choice(((0,), (0, 1 * S, 5 * S, 30 * S), (300 * MS, 90 * S)))
        arrives = any(row.arrival_ns is not None for row in rows)
        agree(rows, replace(ASKED, length_ns=length_ns, bounds_ns=bounds_ns, arrives=arrives))


def machines_of(names: Sequence[str]) -> list[Machine]:
    budget, modulus = GapBudget(), Wraps().modulus("")
    return [
        Machine(name, number, 0, NumberedEpochs(budget, modulus))
        for number, name in enumerate(names)
    ]


COUNTS = ("last", "count", "close", "others", "tops", "ones", "zeros")


def numbers_of(machines: Sequence[Machine]) -> list[tuple[object, ...]]:
    """Return the tracked state of each source's numbers."""
    falls = [machine.epochs.falls for machine in machines]
    return [
        (*map(each.__getattribute__, COUNTS), epochs.missing, epochs.restarts)
        for each, epochs in zip(falls, (machine.epochs for machine in machines), strict=True)
    ]


def test_tracked_numbers_match_rows() -> None:
    seen: set[tuple[int, ...]] = set()
    for seed in range(200):
        dice = Random(seed)
        last, of_epochs = dice.choice(LASTS), dice.choice(([None], [None, 0], [0, 1, 2]))
        parts = [dice.randrange(64) for _ in range(3)] + [0, 30, 63]
        rows = [
            AuditRow(
                dice.choice("ab"),
                min(dice.choice(parts) * (last + 1) // 64 + dice.randrange(9), last)
                if dice.random() < 0.8
                else dice.choice((last, last - 1, 0, 1)),
                dice.choice(of_epochs),
                at,
                at,
            )
            for at in range(dice.randrange(1, 60))
        ]
        table = in_columns(rows)
        expected, found = machines_of(table.names), machines_of(table.names)
        shown = []
        for row in rows:
            epoch, is_written = row.epoch or 0, row.epoch is not None
            numbers = expected[table.names.index(row.source)].epochs
            shown.append(numbers.take(epoch, row.seq or 0, row.ts_ns, is_written=is_written))
        epochs = np.where(table.epoch == NONE, 0, table.epoch)
        tracked = track_numbers(table, epochs, table.ts_ns, found)
        assert [*zip(*(each.tolist() for each in tracked), strict=True)] == shown
        assert numbers_of(found) == numbers_of(expected)
        falls = [machine.epochs.falls for machine in expected]
        seen |= {(each.last, each.close > 0, each.others > 0, each.tops > 0) for each in falls}
    assert len(seen) > 20


@pytest.mark.parametrize("times_ns", [[BEGIN_NS, MAX_INT64], [-MAX_INT64, BEGIN_NS]])
def test_huge_times_rule_out_columns(
    times_ns: list[int],
) -> None:
    rows = [AuditRow("a", number, None, ts_ns) for number, ts_ns in enumerate(times_ns)]
    assert not is_countable(in_columns(rows), 60 * S, (0,))


# -- files -----------------------------------------------------------------------------------------

NAMES: Final = ("device", "n", "time", "received", "boot", "force")
BY_NAME: Final = FileMapping(
    Fields(
        source=Where("payload", ("device",)),
        seq=Where("payload", ("n",)),
        ts=Where("payload", ("time",)),
        epoch=Where("payload", ("boot",)),
        ts_unit="ms",
    ),
    Where("payload", ("received",)),
)
CELLS: Final = {
    "device": ("", "a b", "Förderband", "x" * 300, "7", " a"),
    "n": ("", "-1", "-0", "007", "1.0", "+1", "9223372036854775808", "0" * 25, "n", " 1", "１"),
    "time": (
        "",
        "-5",
        "-0",
        "0",
        "1.5",
        "1e3",
        "2026-01-01T00:00:00Z",
        "9223372036855",
        "x",
        "2026-01-01T00:00:60Z",
        "2026-02-30T00:00:00Z",
        "1700-01-01T00:00:00Z",
        "2026-01-01T00:00:00+01:00",
        "2026-01-01T00:00:00",
    ),
    "received": ("", "-5", "1.5", "2026-01-01T00:00:00Z", "9223372036855", "x", "0" * 45),
    "boot": ("", "0", "3", "-1", "x", "9223372036854775807"),
    "force": ("", "12.5", "ü", "\udcff", "x\ry", "x\0y", '"', "a b", '"a, b;c"', 'a"b', '"a""b"'),
}
LINES: Final = (
    "",
    " ",
    "a",
    "a,1",
    "a,1,2,3,4,5,6,7",
    ",,,,,",
    '"a\nb",1,2,3,4,5',
    '"a"b,1,2,3,4,5',
)


def _in_ms(time_ns: int) -> str:
    return str(time_ns // MS)


def _as_instant(time_ns: int) -> str:
    text = datetime.fromtimestamp(time_ns // S, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{time_ns % S:09d}"[: 20 + time_ns % 10].rstrip(".") + "Z"


def csv_text(dice: Random) -> bytes:
    """Return a table with a few odd cells and lines."""
    rows = plant(dice.randrange(99), 60)
    odd = dice.choice((0.0, 0.01, 0.1))
    end = dice.choice(("\n", "\n", "\r\n"))
    delimiter = dice.choice((",", ",", ";", "\t"))
    names = [*NAMES]
    dice.shuffle(names)
    lines = [names]
    spelled = dice.choice((_in_ms, _in_ms, _in_ms, _as_instant))
    quoted = dice.choice((frozenset[str](), frozenset[str](), {"device"}, frozenset(NAMES)))
    for each in rows:
        times = spelled(each.ts_ns), spelled(each.arrival_ns or 0)
        cells = dict(zip(NAMES, (each.source, str(each.seq), *times, "", "1"), strict=True))
        if dice.random() < odd:
            name = dice.choice(NAMES)
            cells[name] = dice.choice(CELLS[name])
        lines.append([f'"{cells[name]}"' if name in quoted else cells[name] for name in names])
    texts = [delimiter.join(line) for line in lines]
    for _ in range(dice.choice((0, 0, 1, 2)) if odd else 0):
        texts.insert(dice.randrange(1, len(texts) + 1), dice.choice(LINES))
    text = end.join(texts) + dice.choice(("", end, end))
    mark = dice.choice((b"", b"", b"\xef\xbb\xbf"))
    return mark + text.encode("utf-8", "surrogateescape")


def by_rows(path: Path) -> tuple[list[AuditRow], list[Malformed]]:
    rows = [*rows_of_file(BY_NAME, BY_NAME.rows(str(path), needed=BY_NAME.columns()))]
    read = [row for row in rows if isinstance(row, AuditRow)]
    return read, [row for row in rows if isinstance(row, Malformed)]


@pytest.fixture
def at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_table, "LEAST_BYTES", 0)


def test_csv_columns_match_rows(
    tmp_path: Path, at_any_size: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recordings.audit.by_columns.read.PART_BYTES", 500)
    path = tmp_path / "telemetry.csv"
    found = faulty = 0
    for seed in range(200):
        path.write_bytes(csv_text(Random(seed)))
        table = columns_of_file(str(path), BY_NAME)
        if table is not None:
            rows, faults = by_rows(path)
            assert [*table.rows()] == rows, seed
            assert [*map(repr, table.faults)] == [*map(repr, faults)], seed
            found += 1
            faulty += bool(faults)
    assert found > 120
    assert faulty > 20


@pytest.mark.parametrize(("spelled", "quote"), [(_in_ms, ""), (_in_ms, '"'), (_as_instant, "")])
def test_plain_csv_is_not_read_by_row(
    spelled: Callable[[int], str],
    quote: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_any_size: None,
) -> None:
    path = tmp_path / "telemetry.csv"
    rows = plant(1)
    lines = [
        f"{quote}{row.source}{quote},{row.seq},{spelled(row.ts_ns)},{spelled(row.arrival_ns or 0)},"
        for row in rows
    ]
    path.write_text("\n".join(["device,n,time,received,boot", *lines]))
    monkeypatch.setattr("recordings.audit.by_columns.read.rows_of_file", None)
    table = columns_of_file(str(path), BY_NAME)
    assert table is not None
    assert len(table) == len(rows)


def tables_of(dice: Random) -> pa.Table:
    """Return a table with columns of any type, and sometimes a value that is odd for its column."""
    rows = plant(dice.randrange(99), 60)
    odd = dice.choice((False, False, True))
    numbers: list[int | None] = [row.seq for row in rows]
    times: list[int | None] = [row.ts_ns // MS for row in rows]
    came = [None if dice.random() < 0.1 else (row.arrival_ns or 0) // MS for row in rows]
    if odd:
        numbers[dice.randrange(len(rows))] = dice.choice((None, -1, 1 << 53))
        times[dice.randrange(len(rows))] = dice.choice((None, 0, -5, 1 << 60))
    of_time = dice.choice((pa.int64(), pa.timestamp("ms", "UTC"), pa.timestamp("ms"), pa.float64()))
    devices = [row.source for row in rows]
    by_name = {
        "device": pa.array(devices, dice.choice((pa.string(), pa.large_string()))),
        "n": pa.array(numbers, dice.choice((pa.int64(), pa.float64()) if odd else (pa.int32(),))),
        "time": pa.array(times, pa.int64()).cast(of_time, safe=False),
        "received": pa.array(came, pa.int64()),
        "boot": pa.array([None] * len(rows), pa.int64()),
        "force": pa.array(dice.choice(([1.5], [None], ["x"], [b"x"], [{"a": 1}])) * len(rows)),
    }
    return pa.table(by_name)


def test_parquet_columns_match_rows(tmp_path: Path, at_any_size: None) -> None:
    path = tmp_path / "telemetry.parquet"
    found = 0
    for seed in range(150):
        parquet.write_table(tables_of(Random(seed)), path)
        table = columns_of_file(str(path), BY_NAME)
        if table is not None:
            rows, faults = by_rows(path)
            assert [*table.rows()] == rows, seed
            assert [*table.faults] == faults == [], seed
            found += 1
    assert found > 15


@pytest.fixture
def telemetry(tmp_path: Path) -> Path:
    """Write a CSV file with a faulty row, and a source of which one row has no number."""
    path = tmp_path / "telemetry.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["device", "n", "time", "received", "force"])
        for at, row in enumerate(plant(1)):
            time = "soon" if at == 1_500 else row.ts_ns // MS
            seq = None if at == 2_000 else row.seq
            table.writerow([row.source, seq, time, (row.arrival_ns or 0) // MS, 12.5])
    return path


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("options", [(), ("--json",), ("--window", "7s", "--lateness", "10s")])
def test_command_matches_reading_by_row(
    telemetry: Path,
    form: str,
    options: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    at_any_size: None,
) -> None:
    path = telemetry
    if form == "parquet":
        path = telemetry.with_suffix(".parquet")
        with telemetry.open() as file:
            rows = [row for row in csv.DictReader(file) if row["time"] != "soon"]
        kinds = {"device": str, "n": int, "time": int, "received": int}
        columns = {
            name: [kind(row[name]) if row[name] else None for row in rows]
            for name, kind in kinds.items()
        }
        parquet.write_table(pa.table(columns), path)
    taken: list[Columns | None] = []

    def noted(*arguments: Any) -> Columns | None:
        taken.append(columns_of_file(*arguments))
        return taken[-1]

    monkeypatch.setattr("cli.audit.from_file.columns_of_file", noted)
    by_columns = inorder("audit", path, *MAPPED, *options).well()
    assert taken[0] is not None
    monkeypatch.setattr(from_table, "find_spec", lambda name: None)
    by_rows = inorder("audit", path, *MAPPED, *options)
    assert taken[1] is None
    assert by_columns == by_rows
