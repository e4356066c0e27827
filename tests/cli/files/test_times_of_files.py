"""Examples: times in foreign files are read directly or by a format. A format is proposed, and
unclear times are refused.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.invoking import Answer, inorder, text_file
from topology.config import parse

S = 10**9
AT = 1_748_931_214 * S  # 2025-06-03T06:13:34Z
BASE = ("--source", "device", "--seq", "n", "--ts", "time")
BEGIN = datetime(2025, 6, 3, 6, 13, 34, tzinfo=UTC)


def replayed(folder: Path, time: str, *options: str) -> Answer:
    table = text_file(folder / "t.csv", f'device;n;time;got\na;0;"{time}";"2025-06-03T06:13:40Z"\n')
    return inorder("replay", *BASE, *options, table)


@pytest.mark.parametrize(
    ("time", "options"),
    [
        ("2025-06-03T09:13:34+0300", ()),
        ("20250603T061334Z", ()),
        ("03/06/2025 06:13:34", ("--ts-format", "%d/%m/%Y %H:%M:%S", "--ts-zone", "UTC")),
        ("Tue, 03 Jun 2025 06:13:34 GMT", ("--ts-format", "rfc2822")),
        ("Jun  3 06:13:34", ("--ts-format", "syslog", "--ts-zone", "UTC", "--arrival", "got")),
        ("/Date(1748931214000)/", ("--ts-format", "dotnet")),
        ("20250603081334", ("--ts-format", "%Y%m%d%H%M%S", "--ts-zone", "Europe/Berlin")),
        ("1748931214,0", ("--decimal", ",", "--ts-unit", "s")),
    ],
)
def test_supported_time_is_read(tmp_path: Path, time: str, options: tuple[str, ...]) -> None:
    (event,) = replayed(tmp_path, time, *options).well().lines
    assert (event["kind"], event["ts"]) == ("event", AT)


@pytest.mark.parametrize(
    ("time", "options", "detail"),
    [
        ("03/06/2025 06:13:34", ("--ts-zone", "UTC"), "write their form as `ts_format`"),
        ("30.02.2025", ("--ts-format", "%d.%m.%Y", "--ts-zone", "UTC"), "write `%d.%m.%Y`"),
        ("03.06.2025", ("--ts-format", "%d.%m.%Y"), "has no time zone; write `ts_zone"),
        ("Jun  3 06:13:34", ("--ts-format", "syslog", "--ts-zone", "UTC"), "has no year"),
    ],
)
def test_unreadable_time_is_dead_letter(
    tmp_path: Path, time: str, options: tuple[str, ...], detail: str
) -> None:
    (dead,) = replayed(tmp_path, time, *options).lines
    assert (dead["kind"], dead["reason"]) == ("dead", "ts_unreadable")
    assert detail in dead["detail"]
    assert time not in dead["detail"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ts-format", "%q"), "--ts-format %q: has %q"),
        (("--ts-format", "iso"), "--ts-format iso: is not a form of times; write rfc2822"),
        (("--ts-format", "syslog", "--ts-unit", "s"), "--ts-unit: is for numbers"),
    ],
)
def test_bad_time_format_is_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    assert said in replayed(tmp_path, "x", *options).err


def test_decimal_comma_is_read(tmp_path: Path) -> None:
    text = "device;n;v;w;x\na;0;12,5;12.5;-1,5e3\n"
    table = text_file(tmp_path / "t.csv", text)
    (event,) = inorder("replay", "--source", "device", "--seq", "n", "--decimal", ",", table).lines
    assert event["payload"] == {"device": "a", "n": 0, "v": 12.5, "w": "12.5", "x": -1_500.0}


def table_of(path: Path, written: str, hours: int) -> Path:
    rows = []
    for n in range(120):
        at = BEGIN + timedelta(hours=hours * n // 2, seconds=n)
        rows.append(f'm{n % 2};{n // 2};"{at.strftime(written)}"')
    return text_file(path / "t.csv", "\n".join(["device;n;time", *rows, ""]))


def test_time_format_is_proposed(tmp_path: Path) -> None:
    table = table_of(tmp_path, "%d.%m.%Y %H:%M:%S", hours=12)
    answer = inorder("init", table).well("ts_format: %d.%m.%Y %H:%M:%S")
    stream = parse(answer.out).streams["default"]
    assert stream.fields is not None
    assert (stream.ts_format, stream.ts_unit) == ("%d.%m.%Y %H:%M:%S", None)
    (tmp_path / "t.yaml").write_text(answer.out)
    events = inorder("replay", "--values", "--topology", tmp_path / "t.yaml", table).well().lines
    assert min(each["ts"] for each in events if each["kind"] == "event") == AT
    audit = inorder("audit", table, "--ts-zone", "UTC", "--out", tmp_path / "a.yaml", "--json")
    assert audit.well().last["unreadable"] == 0
    assert parse((tmp_path / "a.yaml").read_text()).streams["default"].fields == stream.fields


@pytest.mark.parametrize("command", ["init", "audit"])
def test_ambiguous_date_is_refused(tmp_path: Path, command: str) -> None:
    table = table_of(tmp_path, "%d/%m/%Y %H:%M:%S", hours=1)
    answer = inorder(command, table)
    assert answer.code == 2
    assert "--ts time: no time shows which number is the day and which the month" in answer.err
    assert "write --ts-format '%d/%m/%Y %H:%M:%S' or --ts-format '%m/%d/%Y %H:%M:%S'" in answer.err
    form = ("--ts-format", "%d/%m/%Y %H:%M:%S", "--ts-zone", "UTC")
    inorder(command, table, *form).well()


def test_formatted_times_cannot_be_shifted(tmp_path: Path) -> None:
    table = table_of(tmp_path, "%Y%m%d%H%M%S", hours=1)
    form = ("--ts-format", "%Y%m%d%H%M%S", "--ts-zone", "UTC")
    to = ("--brokers", "127.0.0.1:1", "--topic", "t", "--as-now")
    assert "cannot move times in the form" in inorder("produce", *to, *BASE, *form, table).err
