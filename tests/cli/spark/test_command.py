"""Examples: the help of `inorder spark`, and what it refuses before it starts Spark."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

import cli.spark.jars
from cli.durations import duration_ns
from cli.main import main
from cli.topology_file import Refused
from spark_analytics.executors.setting import Setting, digests
from tests.cli.invoking import text_file
from tests.services import require
from topology.spelling.kinds import length_ns

REFUSED = [
    (["rates", "--archive", "a"], "add --batch"),
    (["archive", "--format", "iceberg", "--catalog", "http://h"], "is read by its path"),
    (["rates", "--batch", "--window", "count 5"], "only windows of time"),
    (["rates", "--batch", "--window", "tumbling 10"], "--window tumbling 10"),
    (["rates", "--batch", "--window", "tumbling 10ns"], "microseconds"),
    (["rates", "--every", "2x"], "--every: `2x` has an unknown unit `x`; use one of: ns"),
    (["rates", "--every", "10ns"], "--every: 10 ns: Spark counts in microseconds"),
    (["rates", "--batch", "--conf", "x"], "NAME=VALUE"),
    (["rates", "--catalog", "http://h"], "--catalog is Iceberg's"),
    (["nothing"], "Invalid value"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_bad_arguments_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    require(cli.spark.jars.missing())
    file = text_file(tmp_path / "t.yaml", "streams: {default: {}}\n")
    options = ["--topology", str(file), "--brokers", "127.0.0.1:1", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, ["spark", "run", *words, *options])
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert "Traceback" not in done.output


@pytest.mark.spark
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["live", "--every", "2x"], "--every: `2x` has an unknown unit `x`"),
        (["live", "--every", "1s s"], "--every: `1s s` is not a number with a unit"),
    ],
)
def test_a_length_of_time_is_refused_by_its_option(
    tmp_path: Path, words: list[str], message: str
) -> None:
    require(cli.spark.jars.missing())
    file = text_file(tmp_path / "t.yaml", "streams: {default: {}}\n")
    options = ["--topology", str(file), "--brokers", "127.0.0.1:1", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, ["spark", *words, *options])
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert "tumbling" not in done.output


@pytest.mark.parametrize("text", ["0s", "-1s", "2x", "", "200000d"])
def test_what_is_no_length_is_refused(text: str) -> None:
    assert duration_ns("--every", "1.5s", length_ns) == 1_500_000_000
    with pytest.raises(Refused, match=r"^--every: [^;]*; \w"):
        duration_ns("--every", text, length_ns)


def test_a_killed_run_that_is_brought_to_its_end_tells_its_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(cli.spark.jars.missing())
    from spark_analytics.backfill.resuming import PendingRows, TableForm

    file = text_file(tmp_path / "t.yaml", "streams: {default: {}}\n")
    about = digests(Setting(file.read_text()))
    now = {"run": 1, "topology": about, "tables": TableForm("parquet", None, None), "ended": True}
    coming = PendingRows(1, str(tmp_path / ".out-0123456789ab"), [], now, {"in": 7, "event": 7})
    (tmp_path / ".out-0123456789ab").mkdir()
    (tmp_path / "out" / "_state").mkdir(parents=True)
    (tmp_path / "out" / "_state" / "coming.json").write_text(json.dumps(coming._asdict()))
    monkeypatch.setattr("cli.spark.command.open_session", lambda *_: nullcontext())
    words = ["--topology", str(file), "--in", str(file), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, ["spark", "backfill", *words, "--resume", "--json"])
    assert done.exit_code == 0, done.output
    brought, message = done.stderr.splitlines()
    assert "is now complete" in brought
    assert json.loads(message) == {"in": 7, "event": 7}
